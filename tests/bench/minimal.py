"""What bertc's generality costs: its step and that of a training loop written for bert-mini alone.

    python -m tests.bench.minimal [cpu|cuda]

The loop below knows BERT with a masked-LM head and nothing else, and has every trick that bertc
has on a CPU: bf16 arithmetic with fp32 weights, one product for query, key and value, four dropout
draws from a word, scores at predicted positions only that turn into their own gradient, fused
AdamW; on a GPU fused attention and the whole model compiled. It draws its masks as simply as can
be. Prints medians and the ratio of each round.

Axes: b batch, s sequence, k predictions of a row, n = b*k, h hidden, a heads, d head_dim, v vocab.
"""

import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertc.api import resolve
from bertc.ir.program.resolved import Resolved
from bertc.lab.bench.contender import Contender, bertc
from bertc.lab.bench.measure import quartiles, take_turns
from bertc.machine.memory import keep_freed_memory
from bertc.run.stepper import Stepper

VOCAB, MASK, DROPOUT, RATE = 30_522, 4, 0.1, 1e-4
ROUNDS = 15
ROWS_AT_ONCE = 2**19 // VOCAB


def cast(layer: nn.Linear, x: Tensor) -> Tensor:
    return F.linear(x, layer.weight.bfloat16(), layer.bias.bfloat16())


def norm(layer: nn.LayerNorm, x: Tensor) -> Tensor:
    factor, offset = layer.weight.bfloat16(), layer.bias.bfloat16()
    return F.layer_norm(x, layer.normalized_shape, factor, offset, 1e-12)


def drop(x: Tensor) -> Tensor:
    if x.device.type != "cpu":
        return F.dropout(x, DROPOUT)
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    draws = words.view(torch.int16)[: x.numel()].view(x.shape)
    kept = draws >= round(DROPOUT * 2**16) - 2**15
    return x * kept.to(x.dtype).mul_(1 / (1 - DROPOUT))


class Layer(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.inner, self.outer = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)

    def forward(self, x_bsh: Tensor) -> Tensor:
        b, s, h = x_bsh.shape
        query, key, value = (
            y.view(b, s, self.heads, -1).transpose(1, 2) for y in cast(self.qkv, x_bsh).chunk(3, -1)
        )
        if x_bsh.device.type == "cpu":
            scores_bass = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
            mixed_basd = drop(scores_bass.softmax(-1)) @ value
        else:
            mixed_basd = F.scaled_dot_product_attention(query, key, value, dropout_p=DROPOUT)
        mixed_bsh = mixed_basd.transpose(1, 2).reshape(b, s, h)
        x_bsh = norm(self.norm1, x_bsh + drop(cast(self.out, mixed_bsh)))
        y_bsh = cast(self.outer, F.gelu(cast(self.inner, x_bsh), approximate="tanh"))
        return norm(self.norm2, x_bsh + drop(y_bsh))


class Bert(nn.Module):
    def __init__(self, layers: int, hidden: int, heads: int, seq: int) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCAB, hidden)
        self.position, self.segment = nn.Embedding(seq, hidden), nn.Embedding(2, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.layers = nn.ModuleList(Layer(hidden, heads) for _ in range(layers))
        self.dense, self.head_norm = nn.Linear(hidden, hidden), nn.LayerNorm(hidden)
        self.bias = nn.Parameter(torch.zeros(VOCAB))
        for table in (self.token, self.position, self.segment):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids_bs: Tensor, places_n: Tensor, targets_n: Tensor) -> Tensor:
        x = self.token(ids_bs) + self.position.weight + self.segment.weight[0]
        x = drop(norm(self.norm, x.bfloat16()))
        for layer in self.layers:
            x = layer(x)
        x_nh = x.flatten(0, 1).index_select(0, places_n)
        x_nh = norm(self.head_norm, F.gelu(cast(self.dense, x_nh), approximate="tanh"))
        table_vh = self.token.weight.bfloat16()
        if x_nh.device.type != "cpu":  # the compiler makes the gradient from the logits itself
            return F.cross_entropy(F.linear(x_nh, table_vh).float() + self.bias, targets_n)
        loss: Tensor = Loss.apply(x_nh, table_vh, self.bias, targets_n)
        return loss


class Loss(torch.autograd.Function):
    """The mean cross entropy; the logits become their own gradient on the way."""

    @staticmethod
    def forward(ctx, x_nh, table_vh, bias_v, targets_n):
        slope_nv, losses = F.linear(x_nh, table_vh), []
        for start in range(0, len(x_nh), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            target_n1 = targets_n[part, None]
            z_nv = slope_nv[part].float() + bias_v
            z_nv -= z_nv.amax(1, keepdim=True)
            right_n1 = z_nv.gather(1, target_n1)
            total_n1 = z_nv.exp_().sum(1, keepdim=True)
            losses.append(total_n1.log() - right_n1)
            z_nv *= total_n1.reciprocal()
            z_nv.scatter_add_(1, target_n1, torch.full_like(right_n1, -1.0))
            slope_nv[part] = z_nv
        ctx.save_for_backward(x_nh, table_vh, slope_nv)
        return torch.cat(losses).mean()

    @staticmethod
    def backward(ctx, upstream):
        x_nh, table_vh, slope_nv = ctx.saved_tensors
        scale = (upstream / len(x_nh)).bfloat16()
        ones_n1 = scale.expand(len(x_nh), 1)
        bias_v = (slope_nv.t() @ ones_n1)[:, 0]
        return (slope_nv @ table_vh) * scale, slope_nv.t() @ (x_nh * scale), bias_v, None


def mask(ids_bs: Tensor, predictions: int) -> tuple[Tensor, Tensor, Tensor]:
    b, s = ids_bs.shape
    device = ids_bs.device
    chosen_bk = torch.rand(b, s, device=device).topk(predictions, dim=1, sorted=False).indices
    places_n = (chosen_bk + torch.arange(b, device=device)[:, None] * s).flatten()
    targets_n = ids_bs.flatten()[places_n]
    draw_n = torch.rand(len(places_n), device=device)
    any_n = torch.randint(VOCAB, draw_n.shape, device=device)
    read_n = torch.where(draw_n < 0.9, any_n, targets_n)
    read_n = torch.where(draw_n < 0.8, MASK, read_n)
    return ids_bs.flatten().index_put((places_n,), read_n).view(b, s), places_n, targets_n


def by_hand(resolved: Resolved, device: str = "cpu", compiled: bool = False) -> Contender:
    encoder, stage = resolved.encoder, resolved.stages[0]
    predictions = stage.predictions()

    @contextmanager
    def open() -> Iterator[Callable[[], float]]:
        heads = encoder.layers[0].heads
        model = Bert(len(encoder.layers), encoder.hidden, heads, stage.seq).to(device)
        forward = torch.compile(model) if compiled else model
        spared = [p for p in model.parameters() if p.ndim == 1]
        groups = [
            {"params": [p for p in model.parameters() if p.ndim > 1]},
            {"params": spared, "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, lr=RATE, fused=True)
        text = torch.randint(5, VOCAB, (64, stage.batch, stage.seq), device=device)
        done = 0

        def step() -> float:
            nonlocal done
            done += 1
            loss = forward(*mask(text[done % len(text)], predictions))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            loss.item()
            return 0.0

        yield step

    return Contender("by hand", "bf16", compiled, open, nullcontext, Stepper(resolved))


def contenders(resolved: Resolved, device: str, compiled: bool) -> tuple[Contender, ...]:
    """Both, made anew in the process of each."""
    return bertc(Stepper(resolved), "bertc"), by_hand(resolved, device, compiled)


def main() -> None:
    """Time both in turns and print the ratio."""
    device = sys.argv[1] if sys.argv[1:] else "cpu"
    compiled = device == "cuda"
    resolved = resolve("bert-mini", [
        "seq=128", "batch=32", "microbatch=32", "objective=mlm", "format=blocks", "steps=1000",
        f"compile={'on' if compiled else 'off'}", "precision=bf16", f"device={device}",
        "positions=learned(128)",
    ])  # fmt: skip
    make = partial(contenders, resolved, device, compiled)
    with keep_freed_memory():
        ours, hand = take_turns(make, torch.device(device), ROUNDS, lambda _: None)
    ratios = [a / b for a, b in zip(ours.seconds, hand.seconds, strict=True)]
    low, high = quartiles(ratios)
    print(f"bertc {ours.median:.4f} s, by hand {hand.median:.4f} s a step; ratio of rounds "
          f"{statistics.median(ratios):.3f} ({low:.3f} to {high:.3f}), "
          f"torch {torch.__version__}, {torch.get_num_threads()} threads")  # fmt: skip


if __name__ == "__main__":
    main()
