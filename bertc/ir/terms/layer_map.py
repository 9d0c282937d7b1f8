"""Maps from the layers of a network to those of its teacher."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

LayerMap = (
    Literal["uniform", "skip", "last"]
    | Annotated[int, Field(ge=1, le=1000)]
    | Annotated[tuple[Annotated[int, Field(ge=0, le=1000)], ...], Field(min_length=1)]
)
"""The teacher layer (of N) for each layer (of M) of a network; 0 is the embeddings.

``uniform``: m from m N/M, from 0 on (TinyBERT 3.2); ``skip``: the same without 0 and the last
(BERT-PKD 3.2); ``last``: M from N alone; a number: M from that one alone (MiniLMv2 3.3). Written
out, they are those of layers 1, 2 and so on, of 0, 1 and so on if the first is 0.
"""


@dataclass(frozen=True)
class Unfit:
    """A map that does not fit two depths: the reason, and a map that does."""

    problem: str
    instead: str = ""


def layer_pairs(layers: LayerMap, depth: int, teacher: int) -> tuple[tuple[int, int], ...] | Unfit:
    """Pairs of a layer of a network and one of its teacher, from both depths."""
    if layers == (0,):  # the embeddings alone
        return ((0, 0),)
    if isinstance(layers, tuple):
        return _written(layers, depth, teacher)
    if isinstance(layers, int):
        problem = f"layers={layers} names a layer of a teacher that has {teacher}"
        return ((depth, layers),) if layers <= teacher else Unfit(problem, str(teacher))
    every = range(depth + 1)
    match layers:
        case "last":
            return ((depth, teacher),)
        case "uniform" | "skip":
            if not depth:
                return Unfit("this network has no layers, only its table", "last")
            if teacher % depth:
                return Unfit(
                    f"layers={layers} takes every n-th layer of the teacher, and its {teacher} are "
                    f"no multiple of {depth}",
                    _example(depth, teacher),
                )
            chosen = every if layers == "uniform" else every[1:-1]
            pairs = tuple((layer, layer * teacher // depth) for layer in chosen)
            return pairs or Unfit("layers=skip leaves out the last layer, and there is one", "last")


def _written(
    layers: tuple[int, ...], depth: int, teacher: int
) -> tuple[tuple[int, int], ...] | Unfit:
    begin = 0 if layers[0] == 0 else 1
    of_all = depth + 1 - begin
    if max(layers) > teacher:
        return Unfit(
            f"layers names layer {max(layers)} of a teacher that has {teacher}",
            _example(depth, teacher),
        )
    if len(layers) not in (of_all, of_all - 1):
        return Unfit(
            f"layers names {len(layers)} layers of the teacher, and this network has {depth}",
            _example(depth, teacher),
        )
    return tuple(enumerate(layers, begin))


def _example(depth: int, teacher: int) -> str:
    """Layers of a teacher that lie about as far apart as they can."""
    layers = [max(1, round((layer + 1) * teacher / depth)) for layer in range(depth)]
    return f"[{', '.join(map(str, layers))}]"
