"""First weights of a file's module, by the rules of the weight table."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import assert_never

from bertc.ir.base import Constant, FanIn, Glorot, Normal, TruncatedNormal, Uniform, Weight

HEAD = '''

def initialise(model):
    """Set the weights to random first values, from the distributions of the program."""
    for name, weight in model.named_parameters():
'''
SEED = '        torch.manual_seed(key("init", name))\n'


def initial_function(weights: Iterable[Weight], *, seeded: bool = False) -> str:
    """A function that sets first weights: exceptions by name, then matrices, then vectors.

    ``seeded``: each has a seed of its name, as in a run.
    """
    weights = tuple(weights)
    ends = {(_end(weight.name), _call(weight)) for weight in weights}
    several = Counter(end for end, _ in ends)
    calls = {
        (len(w.shape) > 1, _end(w.name) if several[_end(w.name)] == 1 else w.name): _call(w)
        for w in weights
    }
    usual = {
        matrix: Counter(call for key, call in calls.items() if key[0] is matrix).most_common(1)
        for matrix in (True, False)
    }
    lines = list[str]()
    for (matrix, end), call in calls.items():
        if call != usual[matrix][0][0]:
            others = {other for (_, other), its in calls.items() if its != call}
            test = f'name.endswith("{_shortest(end, others)}")'
            if f"        if {test}:" not in lines and f"        elif {test}:" not in lines:
                word = "elif" if lines else "if"
                lines += [f"        {word} {test}:", f"            nn.init.{call}"]
    for test, matrix in (("weight.ndim > 1", True), ("", False)):
        for call, _ in usual[matrix]:
            word = f"elif {test}:" if test else "else:"
            word = word if lines else word.removeprefix("el")
            lines += [f"        {word}", f"            nn.init.{call}"]
    seed = SEED if seeded else ""
    return HEAD + seed + "\n".join([*lines, ""])


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
