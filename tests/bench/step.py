"""The training step of bert-mini beside transformers' own, interleaved in one process.

    python tests/bench/step.py [--rounds 9] [--batch 32] [--seq 128] [--json FILE]

Each round times, in turn: bertc's step, transformers' BertForMaskedLM with bf16 autocast and fused
AdamW, and the same in its fp32 default. All three read batches of the same shape, with 15% of the
positions to predict and dropout 0.1; bertc's step includes masking. Prints medians and ratios.
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
import transformers
from transformers import BertConfig, BertForMaskedLM

from bertc.api import resolve
from bertc.data import RawBatch
from bertc.ir.resolved import model_weights
from bertc.nn import build
from bertc.objectives import Tables
from bertc.train.feed import to_inputs
from bertc.train.machine import determinism
from bertc.train.optimizers import make_rule, zero_moments
from bertc.train.step import TrainStep, make_objective

VOCAB = 30_522


def bertc_step(batch: int, seq: int) -> Callable[[], None]:
    """bert-mini as shipped, masked language modelling alone, on rows without padding."""
    resolved = resolve(
        "bert-mini",
        [f"seq={seq}", f"batch={batch}", "steps=1000", "objective=mlm", "format=full-sentences",
         "optimizer=adamw(warmup=10, bias_correction=false)"],
    )  # fmt: skip
    stage = resolved.stages[0]
    model = build(resolved).train()
    model.compute_dtype = torch.bfloat16
    special = torch.zeros(VOCAB, dtype=torch.bool)
    special[:5] = True
    tables = Tables(
        size=VOCAB, pad=0, cls=2, sep=3, mask=4, special=special,
        word_start=torch.ones(VOCAB, dtype=torch.bool),
        unigram_cdf=torch.linspace(0, 1, VOCAB),
    )  # fmt: skip
    weights = dict(model.named_parameters())
    rule = make_rule(stage.optimizer, model_weights(resolved), weights, zero_moments(weights), 0)
    objective = make_objective(model, stage, resolved.encoder, compiled=False)
    step = TrainStep(model, stage, tables, rule, objective, batch, seed=0)
    inputs = to_inputs(raw_batch(batch, seq), torch.device("cpu"))

    def run() -> None:
        with determinism():
            step(step.read(inputs), 0, 1e-4)

    return run


def raw_batch(batch: int, seq: int) -> RawBatch:
    """Random token ids in full rows."""
    ids = np.random.default_rng(0).integers(5, VOCAB, (batch, seq)).astype(np.int32)
    ids[:, 0], ids[:, -1] = 2, 3
    zeros = np.zeros(batch, np.int64)
    return RawBatch(
        token_ids=ids, segment_ids=np.zeros((batch, seq), np.uint8),
        lengths=np.full(batch, seq, np.int32), example_ids=np.arange(batch),
        copies=zeros, pair_labels=zeros,
    )  # fmt: skip


def transformers_step(batch: int, seq: int, bf16: bool) -> Callable[[], None]:
    """BertForMaskedLM of the same size, its loss over labels, clipping, fused AdamW."""
    config = BertConfig(
        hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024
    )
    model = BertForMaskedLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=bf16)
    ids = torch.from_numpy(raw_batch(batch, seq).token_ids).long()
    labels = torch.full_like(ids, -100)
    chosen = torch.rand(ids.shape).topk(round(0.15 * seq), dim=1).indices
    labels.scatter_(1, chosen, ids.gather(1, chosen))
    mask = torch.ones_like(ids)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def seconds(step: Callable[[], None]) -> float:
    """Wall-clock of one call."""
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def main() -> None:
    """Time the three steps in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.manual_seed(0)
    steps = {
        "bertc": bertc_step(args.batch, args.seq),
        "transformers bf16": transformers_step(args.batch, args.seq, bf16=True),
        "transformers fp32": transformers_step(args.batch, args.seq, bf16=False),
    }
    for step in steps.values():
        step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(args.rounds):
        for name, step in steps.items():
            times[name].append(seconds(step))
    medians = {name: statistics.median(values) for name, values in times.items()}
    result = {
        "shape": [args.batch, args.seq],
        "rounds": args.rounds,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "seconds": {
            n: {"median": medians[n], "min": min(t), "max": max(t)} for n, t in times.items()
        },
        "tokens_per_second": {n: args.batch * args.seq / medians[n] for n in steps},
        "ratio": {n: medians[n] / medians["bertc"] for n in steps if n != "bertc"},
    }
    for name, median in medians.items():
        rate = args.batch * args.seq / median
        print(
            f"{name:18} {1000 * median:8.1f} ms  {rate:10,.0f} tokens/s  "
            f"{median / medians['bertc']:5.2f} x"
        )
    if args.json:
        with open(args.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
