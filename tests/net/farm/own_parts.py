"""Parts as a user writes them: ideas that bertc lacks, and some that it has."""

import math
import random

import torch
import torch.nn.functional as F
from torch import nn


class Experts(nn.Module):
    """Every token is a mixture of what all experts make of it."""

    def __init__(self, hidden: int, experts: int = 2, width: int = 8):
        super().__init__()
        self.router = nn.Linear(hidden, experts)
        self.inner = nn.Parameter(torch.randn(experts, hidden, width) * 0.02)
        self.outer = nn.Parameter(torch.randn(experts, width, hidden) * 0.02)

    def forward(self, x):
        inner = torch.einsum("bsh,ehf->besf", x, self.inner).relu()
        out = torch.einsum("besf,efh->besh", inner, self.outer)
        return torch.einsum("besh,bse->bsh", out, self.router(x).softmax(-1))


class Convolution(nn.Module):
    def __init__(self, hidden: int, kernel: int = 3, rate: float = 0.1):
        super().__init__()
        self.maps = nn.Linear(hidden, 2 * hidden)
        self.near = nn.Conv1d(hidden, hidden, kernel, padding=kernel // 2, groups=hidden)
        self.dropout = nn.Dropout(rate)
        self.output = nn.Linear(hidden, hidden)

    def forward(self, x, mask):
        gate, value = self.maps(x).chunk(2, -1)
        if mask is not None:
            value = value * mask.any(1).any(1)[..., None].to(value.dtype)
        near = self.near(value.transpose(1, 2)).transpose(1, 2)
        return self.output(self.dropout(gate.sigmoid() * near))


class Tanh(nn.Module):
    """tanh(alpha x), scaled and shifted, in place of a norm (Zhu et al. 2025, section 4)."""

    def __init__(self, hidden: int, begin: float = 0.5):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), begin))
        self.weight = nn.Parameter(torch.ones(hidden))
        self.bias = nn.Parameter(torch.zeros(hidden))

    def forward(self, x):
        return torch.tanh(x * self.alpha) * self.weight + self.bias


class Gated(nn.Module):
    def __init__(self, hidden: int):
        super().__init__()
        self.share = nn.Parameter(torch.ones(hidden))

    def forward(self, x, y):
        return x + self.share * y


class Mlp(nn.Module):
    def __init__(self, hidden: int, width: int, activation: str = "gelu"):
        super().__init__()
        self.inner, self.outer = nn.Linear(hidden, width), nn.Linear(width, hidden)
        self.activation = getattr(F, activation)

    def forward(self, x):
        return self.outer(self.activation(self.inner(x)))


class Glu(nn.Module):
    def __init__(self, hidden: int, width: int, activation: str):
        super().__init__()
        self.gate, self.inner = nn.Linear(hidden, width), nn.Linear(hidden, width)
        self.outer = nn.Linear(width, hidden)
        self.activation = getattr(F, activation)

    def forward(self, x):
        return self.outer(self.activation(self.gate(x)) * self.inner(x))


class Attention(nn.Module):
    def __init__(self, hidden: int, heads: int, head_dim: int, gated: bool = False):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(hidden, heads * head_dim) for _ in range(3))
        self.output = nn.Linear(heads * head_dim, hidden)
        self.context_gate = nn.Linear(hidden, heads * head_dim) if gated else None
        self.heads = heads

    def forward(self, x, mask):
        q, k, v = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)
        if self.context_gate is not None:
            mixed = mixed * self.context_gate(x).sigmoid()
        return self.output(mixed)


class Norm(nn.LayerNorm):
    def __init__(self, hidden: int, eps: float = 1e-12):
        super().__init__(hidden, eps)


class RmsNorm(nn.RMSNorm):
    def __init__(self, hidden: int, eps: float = 1e-12):
        super().__init__(hidden, eps)


class Added(nn.Module):
    def forward(self, x, y):
        return x + y


class Numbered(nn.Module):
    def __init__(self, hidden: int, layer: int):
        super().__init__()
        self.map = nn.Linear(hidden, hidden * (layer + 1))

    def forward(self, x):
        return self.map(x).unflatten(-1, (x.shape[-1], -1)).sum(-1)


class Narrow(nn.Module):
    def forward(self, x):
        return x[..., :-1]


class Counting(nn.Module):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


class Random(nn.Module):
    def forward(self, x):
        return x + torch.rand(1)


class Unused(nn.Module):
    def __init__(self, hidden: int):
        super().__init__()
        self.spare = nn.Linear(hidden, hidden)

    def forward(self, x):
        return x


class Raising(nn.Module):
    def forward(self, x):
        return x @ x


class Printing(Gated):
    def forward(self, x, y):
        print("{}")
        return super().forward(x, y)


class Weightless(nn.Module):
    def __init__(self, hidden: int):
        super().__init__()
        self.scale = hidden**-0.5

    def forward(self, x):
        return x * self.scale


class Mixing(nn.Module):
    def forward(self, x, *others):
        return x + x.mean(1, keepdim=True)


class Blind(nn.Module):
    def forward(self, x, mask):
        return x.mean(1, keepdim=True).expand_as(x) + x


class Tabled(Norm):
    def __init__(self, hidden: int):
        super().__init__(hidden)
        self.register_buffer("table", torch.ones(hidden))


class Batched(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


class Detected(nn.Module):
    """Which tokens of a row were replaced, as rtd asks where rows are equally long."""

    def __init__(self, hidden: int):
        super().__init__()
        self.dense, self.score = nn.Linear(hidden, hidden), nn.Linear(hidden, 1)

    def forward(self, states, tokens, inputs, real):
        scores = self.score(F.gelu(self.dense(states)))[..., 0].float()
        replaced = (tokens != inputs).float()
        losses = F.binary_cross_entropy_with_logits(scores, replaced, reduction="none")
        return (losses * real).sum(1) / real.sum(1)


class Wrong(nn.Module):
    def __init__(self, how: str):
        super().__init__()
        self.how = how

    def forward(self, states, real):
        x = states if self.how == "padded" else states * real[..., None]
        losses = (x - x.mean(0) if self.how == "contrasted" else x).square().mean((1, 2))
        return {"detached": losses.detach(), "infinite": losses / 0}.get(self.how, losses)


class Pairs:
    def __init__(self, pieces: list[str], longest: int = 2, never: str = ""):
        self.longest = longest
        self.never = torch.tensor([i for i, piece in enumerate(pieces) if piece == never])

    def forward(self, tokens, words):
        numbers = words.cumsum(1) // self.longest
        return numbers.masked_fill(torch.isin(tokens, self.never), -1)


class WrongUnit:
    def __init__(self, how: str):
        self.how, self.calls = how, 0

    def forward(self, tokens):
        self.calls += 1
        return {
            "counts": tokens * 0 + self.calls, "floats": tokens.float(),
            "mixes": tokens - tokens.flip(0),
        }[self.how]  # fmt: skip


class Lion:
    def __init__(self, near: float = 0.9, far: float = 0.99):
        self.near, self.far = near, far

    def update(self, gradient, mean):
        change = mean.lerp(gradient, 1 - self.near).sign()
        mean.lerp_(gradient, 1 - self.far)
        return change


class Adam:
    def __init__(self, eps: float = 1e-6, trust: bool = False):
        self.eps, self.trust = eps, trust

    def update(self, gradient, weight, first, second):
        first.lerp_(gradient, 0.1)
        second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        change = first / (second.sqrt() + self.eps)
        return change * weight.norm() / (change.norm() + 1e-9) if self.trust else change


class Cosine:
    def __init__(self, end: float = 0.0, cycles: int = 1):
        self.end, self.angle = end, (2 * cycles - 1) * math.pi

    def rate(self, progress):
        return self.end + (1 - self.end) * (1 + math.cos(self.angle * progress)) / 2


class Faulty:
    def __init__(self, how: str):
        self.how, self.calls = how, 0

    def update(self, gradient, weight, step, mean):
        self.calls += 1
        _ = self.how == "late" or 1 / max(0, 5 - step)
        if self.how != "still":
            mean.add_(gradient)
        made = {
            "calls": gradient * self.calls, "random": torch.rand_like(gradient),
            "zero": gradient / gradient, "narrow": gradient.sum(0), "double": gradient.double(),
            "gradient": gradient.neg_() if self.how == "gradient" else 0,
            "weight": weight.sub_(gradient) if self.how == "weight" else 0,
        }  # fmt: skip
        return made.get(self.how, gradient if step < 5 else gradient / 0)

    def rate(self, progress):
        return {"below": -progress, "calls": self.calls}.get(self.how, math.nan)


nsp = Detected


class Bent(nn.Module):
    def forward(self, x):
        return F.gelu(x)


class Turned(nn.Module):
    """Rotary positions (Su et al. 2021, 3.2)."""

    def __init__(self, theta: float = 10_000.0):
        super().__init__()
        self.theta = theta

    def forward(self, x, places):
        powers = torch.arange(0, x.shape[-1], 2, device=x.device) / x.shape[-1]
        angles = (places[..., None] * self.theta**-powers)[:, :, None]
        cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, -1)
        return torch.cat([a * cosines - b * sines, b * cosines + a * sines], -1)


class Placed(nn.Module):
    """A vector for each of 24 positions."""

    def __init__(self, hidden: int, most: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(most, hidden) * 0.02)

    def forward(self, x, places):
        return x + F.embedding(places, self.weight)


class Sloped(nn.Module):
    def __init__(self, hidden: int):
        super().__init__()
        self.slope = nn.Parameter(torch.ones(hidden))

    def forward(self, x, *places):
        return torch.sin(x * self.slope)


class Mixer(nn.Module):
    """Convolutions over a row, whose padding is zero."""

    def __init__(self, hidden: int, depth: int = 2):
        super().__init__()
        maps = (nn.Conv1d(hidden, hidden, 5, padding=2) for _ in range(depth))
        self.maps = nn.ModuleList(maps)

    def forward(self, x, real):
        for near in self.maps:
            x = x + near((x * real[..., None]).transpose(1, 2)).transpose(1, 2).relu()
        return x


class Sign:
    def update(self, gradient):
        return gradient.sign()

    def rate(self, step):
        return 1.0


class Named(Sign):
    def __init__(self, decay: float = 0.0):
        self.decay = decay


class Careless(nn.Module):
    def __init__(self, hidden: int, how: str):
        super().__init__()
        self.map, self.how = nn.Linear(hidden, hidden), how
        self.maps = [nn.Linear(hidden, hidden)] * (how == "list")
        self.scale = random.random() if how == "drawn" else 1.0
        self.map.bias.requires_grad = how != "frozen"
        self.again = self.map if how == "twice" else None

    def forward(self, x, *y):
        made = self.map(x.data.mul_(2) if self.how == "inplace" else x) * self.scale
        return made.double() if self.how == "double" else made + sum(z.roll(1, 1) for z in y)


class Late(nn.Module):
    def forward(self, x):
        assert x.shape[1] != 24, "24 tokens"
        return x


class Never:
    def forward(self, tokens):
        return tokens * 0 - 1


class Picked(nn.Module):
    def forward(self, x):
        some = x[..., 0] > 0
        return x.masked_scatter(some[..., None], x[some])
