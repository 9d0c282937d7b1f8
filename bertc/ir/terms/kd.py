"""Distillation: terms that hold a network against frozen ones (``kd``).

A kind is written with what is held against each other: ``kd(logits, T=2)``.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from bertc.ir import operation as op
from bertc.ir.blocks import SOFT_TARGETS
from bertc.ir.network.body import Body
from bertc.ir.terms.heads import Classifier, HeadNode, VocabularyHead
from bertc.ir.terms.node import RowShape, StatesRead, TaughtTerm

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
        begin, problem = 0 if layers[0] == 0 else 1, ""
        of_all = depth + 1 - begin
        if max(layers) > teacher:
            problem = f"layers names layer {max(layers)} of a teacher that has {teacher}"
        elif len(layers) not in (of_all, of_all - 1):
            problem = f"layers names {len(layers)} layers of the teacher, and this network has "
            problem += str(depth)
        if problem:
            return Unfit(problem, _example(depth, teacher))
        return tuple(enumerate(layers, begin))
    if isinstance(layers, int):
        problem = f"layers={layers} names a layer of a teacher that has {teacher}"
        return ((depth, layers),) if layers <= teacher else Unfit(problem, str(teacher))
    if layers == "last":
        return ((depth, teacher),)
    if not depth:
        return Unfit("this network has no layers, only its table", "last")
    if teacher % depth:
        problem = f"layers={layers} takes every n-th layer of the teacher, and its {teacher} are "
        return Unfit(f"{problem}no multiple of {depth}", _example(depth, teacher))
    chosen = range(depth + 1) if layers == "uniform" else range(1, depth)
    pairs = tuple((layer, layer * teacher // depth) for layer in chosen)
    return pairs or Unfit("layers=skip leaves out the last layer, and there is one", "last")


def _example(depth: int, teacher: int) -> str:
    """Layers of a teacher that lie about as far apart as they can."""
    layers = [max(1, round((layer + 1) * teacher / depth)) for layer in range(depth)]
    return f"[{', '.join(map(str, layers))}]"


class OfLayers(TaughtTerm):
    """A term that compares layers with those of the teacher that they are mapped to.

    ``across``: the losses of layers are summed, or averaged.
    """

    across: Literal["sum", "mean"] = "sum"
    matched: tuple[tuple[int, int], ...] = ()
    attends: ClassVar[bool] = False
    """True if it compares attention, which embeddings have none of."""

    @property
    def layer_map(self) -> LayerMap:
        """The compared layers, the argument ``layers``; of a kind without it the embeddings."""
        layers: LayerMap = getattr(self, "layers", (0,))
        return layers

    def pairs_between(self, depth: int, teacher: int) -> tuple[tuple[int, int], ...] | Unfit:
        """Pairs of layers of two depths; embeddings have no attention."""
        pairs = layer_pairs(self.layer_map, depth, teacher)
        if isinstance(pairs, Unfit) or not self.attends:
            return pairs
        layers = tuple(pair for pair in pairs if all(pair))
        if layers and (len(layers) == len(pairs) or self.layer_map == "uniform"):
            return layers
        instead = ", ".join(str(taught or 1) for layer, taught in pairs if layer)
        return Unfit("layer 0 are the embeddings, which have no attention", f"[{instead}]")

    def layers_of(self, *, learned: bool) -> tuple[int, ...]:
        """Compared layers of its own network, or of a frozen one, in order."""
        return tuple(sorted({pair[0 if learned else 1] for pair in self.matched}))

    def outputs(self, rows: RowShape) -> int | None:
        """None of the last states by themselves: it reads outputs by layer (``wanted``)."""
        return 0

    def head_rows(self, rows: RowShape) -> int:
        return rows.seq


class KdLogits(TaughtTerm):
    """Score as the teacher does: every real token, the masked ones, or the labels of a task.

    ``kl`` and ``ce``, which differ by what no student changes, compare softmax(logits / T) and are
    multiplied by T^2 unless ``scale=none`` (Hinton et al. 2015, 2; DistilBERT distiller.py).
    ``mse`` compares logits (Tang et al. 2019, 3.2). ``classes``: the sum over tokens or labels, or
    their mean (BERT-PKD KD_loss.py, TinyBERT task_distill.py). Of several teachers probabilities
    are averaged, with ``mse`` logits.

    ``head`` is the one whose scores are compared, of a task with so many ``labels``; with ``spans``
    these are scores of starts and of ends, over the tokens of an example. ``of`` names the task
    where a stage has several.
    """

    kind: Literal["kd(logits)"] = "kd(logits)"
    loss: Literal["kl", "ce", "mse"] = "kl"
    T: Annotated[float, Field(gt=0, le=1000)] = 1.0
    over: Literal["all", "masked"] = "all"  # distiller.py: unless --restrict_ce_to_mask
    scale: Literal["T2", "none"] = "T2"
    classes: Literal["sum", "mean"] = "sum"
    head: str = "mlm"
    labels: int = 0
    choices: int = 0
    pools: bool = False
    dropout: float = 0.0
    spans: Annotated[bool, Field(exclude_if=lambda spans: not spans)] = False
    of: Annotated[str, Field(exclude_if=lambda of: not of)] = ""
    positional = ("loss",)
    looked_up = ("head", "labels", "choices", "pools", "dropout", "spans", "of")
    asks_head = True

    @model_validator(mode="after")
    def _compares_probabilities(self) -> Self:
        if self.loss == "mse" and (self.T != 1 or self.scale != "T2"):
            raise ValueError(
                "mse compares logits, which have no temperature", "leave out T and scale"
            )
        return self

    @property
    def title(self) -> str:
        """Its kind, and the task if there are several."""
        return f"{self.kind} of {self.of}" if self.of else self.kind

    @property
    def of_task(self) -> str:
        return self.of

    @property
    def head_name(self) -> str:
        """The one whose scores are compared: over the vocabulary, or of the stage's task."""
        return self.head

    @property
    def head_node(self) -> HeadNode:
        return Classifier(self.labels, self.pools) if self.labels else VocabularyHead()

    @property
    def states(self) -> StatesRead:
        """States of the term whose head it uses, or its own if it compares all tokens."""
        shared = self.labels or self.over == "masked"
        return StatesRead(
            self.head if shared else self.title,
            pooled=self.pools,
            decoded=not self.labels,
            by_token=bool(self.labels),
        )

    def head_rows(self, rows: RowShape) -> int:
        if self.pools:
            return max(1, self.choices)
        return rows.predictions if self.over == "masked" else rows.seq

    def outputs(self, rows: RowShape) -> int | None:
        if self.pools:
            return 1
        return rows.predictions if self.over == "masked" else None

    def operations(self, encoder: Body, rows: RowShape, examples: int) -> op.Operations:
        """Scores of a few tokens at a time, turned into the gradients of states and table."""
        states = examples * self.head_rows(rows)
        if self.labels:
            return super().operations(encoder, rows, examples)
        row, scores = encoder.token_head.scores(1), encoder.token_head.scores(states)
        numbers, width = 3 if self.loss == "mse" else 5, encoder.embedding
        loss = op.LossInBlocks(scores, row, SOFT_TARGETS, numbers, states * width, row * width)
        return (*_without_loss(encoder.token_head.operations(states)), loss)

    def taught_operations(self, encoder: Body, rows: RowShape, examples: int) -> op.Operations:
        states = examples * self.head_rows(rows)
        return _without_loss(self.head_node.operations(encoder, states, examples))


def _without_loss(operations: op.Operations) -> op.Operations:
    return tuple(o for o in operations if not isinstance(o, op.VocabularyLoss | op.Loss))
