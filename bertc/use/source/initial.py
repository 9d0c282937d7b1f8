"""First weights of a file's module, by the rules of the weight table."""

import re
import textwrap
from collections import Counter
from collections.abc import Iterable
from typing import assert_never

from bertc.ir.base import Constant, FanIn, Glorot, Normal, TruncatedNormal, Uniform, Weight

HEAD = '''

def initialise(model):
    """Set the weights to random first values, from the distributions of the program."""
    for name, weight in model.named_parameters():
'''


def initial_function(weights: Iterable[Weight]) -> str:
    """A function that sets first weights: exceptions by name, then matrices, then vectors."""
    weights = tuple(weights)
    several = Counter(end for end, _ in {(_end(weight.name), _call(weight)) for weight in weights})
    calls = {
        (len(w.shape) > 1, _end(w.name) if several[_end(w.name)] == 1 else w.name): _call(w)
        for w in weights
    }
    exceptions, usual = dict[str, str](), dict[str, str]()
    for matrix, test in ((True, "elif weight.ndim > 1:"), (False, "else:")):
        if of_kind := [call for key, call in calls.items() if key[0] is matrix]:
            usual[test] = max(dict.fromkeys(of_kind), key=of_kind.count)
    for (matrix, end), call in calls.items():
        if call != usual["elif weight.ndim > 1:" if matrix else "else:"]:
            others = {other for (_, other), its in calls.items() if its != call}
            exceptions.setdefault(f'elif name.endswith("{_shortest(end, others)}"):', call)
    lines = [f"{test}\n    nn.init.{call}" for test, call in (exceptions | usual).items()]
    text = textwrap.indent("\n".join(lines).removeprefix("el"), " " * 8)
    return f"{HEAD}{text}\n"


def _end(name: str) -> str:
    """The last steps of a name, without numbers."""
    return ".".join(step for step in name.split(".")[-3:] if not step.isdigit())


def _shortest(end: str, others: set[str]) -> str:
    """The shortest end of a name that none of the others has."""
    steps = re.split(r"(?<=[._])", end)
    ends = ("".join(steps[-count:]) for count in range(1, len(steps)))
    return next((e for e in ends if not any(other.endswith(e) for other in others)), end)


def _call(weight: Weight) -> str:
    """The function of ``torch.nn.init`` that draws a tensor's first values."""
    match weight.init:
        case TruncatedNormal(std=std, cut=cut):
            return f"trunc_normal_(weight, std={std:g}, a={-cut * std:g}, b={cut * std:g})"
        case Normal(std=std):
            return f"normal_(weight, std={std:g})"
        case FanIn() if weight.role == "table":
            return "normal_(weight, std=weight.shape[-1] ** -0.5)"
        case FanIn():
            return "uniform_(weight, -(weight.shape[-1] ** -0.5), weight.shape[-1] ** -0.5)"
        case Uniform(bound=bound):
            return f"uniform_(weight, {-bound:g}, {bound:g})"
        case Constant(value=value, std=std) if std:
            return f"normal_(weight, mean={value:g}, std={std:g})"
        case Constant(last=last) if last is not None:
            return f"constant_(nn.init.zeros_(weight).data[-1:], {last:g})"
        case Constant(value=value):
            return f"constant_(weight, {value:g})"
        case Glorot():
            return "xavier_uniform_(weight if weight.ndim > 1 else weight[None])"
        case _:
            assert_never(weight.init)
