"""Pruning: heads and neurons that a stage removes from a trained network.

Heads belong to attention, neurons to feed-forward parts. Layers that share a part share its heads
or neurons, which then count once. What is removed has only weights of zero from then on: its
gradients are zero too, so it stays so, and ``bertc.ir.weight_maps`` cuts it out when the run ends.
"""

from math import ceil
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from bertc.ir.base import BY_KIND, Node, Probability
from bertc.ir.fixes import Rule, Rules, argument
from bertc.ir.methods.method import Method, restoring
from bertc.ir.network.sharing import SharedPart

Within = Literal["network", "layer"]


class NoPruning(Node):
    """Nothing is removed."""

    kind: Literal["none"] = "none"


class _Units(Method):
    """Removal of a share of all heads or neurons, those with the lowest scores.

    ``by``: |dL/dgate| of a gate of 1 that multiplies the output of one, its first-order effect on
    the loss (Michel et al. 2019, 2.2; Molchanov et al. 2017, 2.2), a mean over the first
    ``examples`` rows of the stage, or the norm of its weights. ``normalize`` divides the scores of
    a layer by their norm. ``within=layer`` removes the same share of every layer. ``every``: so
    much at a time, with equally many steps of training after each; 0: all before the first step.
    """

    share: Annotated[Probability, Field(gt=0)]
    by: Literal["gradient", "magnitude"] = "gradient"
    within: Within = "network"
    every: Probability = 0.0
    examples: Annotated[int, Field(ge=1, le=10**9)] = 512
    normalize: bool = True
    floor: Probability = 0.0  # of older run folders, without effect
    positional = ("share",)
    looked_up = ("floor",)

    part: ClassVar[SharedPart]
    setting = "prune"
    rules = Rules(
        network=(
            Rule("E290", "prune", lambda s: s.prune.excess_in(s),
                 lambda s: "{0.share:.0%} of {1} {0.kind} are {2}, but every layer keeps one, so "
                 "that {3} can go".format(s.prune, *s.prune.excess_in(s)),
                 label="a layer without any has nothing to compute with",
                 help="prune=none"),
            Rule("E291", "prune", lambda s: s.prune.rounds > s.steps,
                 lambda s: f"every = {s.prune.every:.4g} removes in {s.prune.rounds} rounds, but "
                 f"the stage has {s.steps} steps",
                 label="rounds have steps of training between them",
                 also=lambda s: ("steps", f"steps = {s.steps}"),
                 help=lambda s: f"steps={s.prune.rounds}"),
            Rule("E313", "prune", lambda s: s.norm.within(s.prune.part),
                 lambda s: f"a norm is over all {s.prune.kind} of a layer, and would change "
                 "without some",
                 also=("norm", "norm is set here"), help="prune=none"),
            Rule("E292", "prune", restoring,
                 lambda s: f"{restoring(s)} ends with the best weights, which may be those before "
                 "heads or neurons were removed",
                 also=lambda s: (restoring(s), f"{restoring(s)} is set here"),
                 help=lambda s: f"{restoring(s)} in a stage after this one"),
        ),
        timed=(
            Rule("E329", "prune", lambda s: True,
                 "prune counts steps, and a time does not say how many there are",
                 help="prune=none"),
        ),
    )  # fmt: skip

    def excess_in(self, stage: Any) -> tuple[int, ...]:
        """The units of layers that would lose too many: all, to go, that can go; () if none are."""
        number = stage.heads if self.part == "attention" else stage.ffn
        owned = {stage.share.owner(self.part, n, stage.layers) for n in range(stage.layers)}
        counts = [number if isinstance(number, int) else number[layer] for layer in sorted(owned)]
        for group in [counts] if self.within == "network" else [[count] for count in counts]:
            total, most = sum(group), sum(group) - len(group)
            if round(self.share * total) > most:
                return total, round(self.share * total), most
        return ()

    @property
    def rounds(self) -> int:
        return ceil(round(self.share / self.every, 6)) if self.every else 1

    def extent(self, done: int, steps: int) -> float:
        begins = (number * steps // self.rounds for number in range(self.rounds))
        return max(begin for begin in begins if begin <= done)

    def share_gone(self, step: int, steps: int) -> float | None:
        """The share that is gone before step ``step`` of ``steps``; None if none goes just then."""
        for number in range(self.rounds):
            if step == number * steps // self.rounds and step < steps:
                most = self.every * (number + 1)
                return min(self.share, most) if self.every else self.share
        return None


class Heads(_Units):
    """Attention heads; every layer keeps one (Michel et al. 2019)."""

    kind: Literal["heads"] = "heads"
    normalize: bool = True  # run_bertology.py: unless --dont_normalize_importance_by_layer
    part = "attention"
    removes = ("attention",)
    rules = _Units.rules._replace(network=(
        *_Units.rules.network,
        Rule("E313", "prune", lambda s: s.attention.ties_biases,
             "heads of all layers share their biases, so that layers cannot lose different ones",
             also=("attention", "attention is set here"),
             way=lambda s: argument("attention", s.origins["attention"], "untie", "true")),
        Rule("E313", "prune", lambda s: s.positions.by_head,
             lambda s: f"each head has a bias of its own by positions = {s.positions.kind}, so "
             "that none can be removed",
             also=("positions", "positions is set here"), help="prune=neurons(25%)"),
        Rule("E313", "prune", lambda s: getattr(s.attention, "over", "") == "width",
             "a norm is over the queries of all heads, and would change without some",
             also=("attention", "attention is set here"),
             way=lambda s: argument("attention", s.origins["attention"], "over", "head")),
        Rule("E313", "prune", lambda s: s.attention.shares_keys and not s.positions.by_head,
             "several heads share their keys and values, so that none can be removed",
             also=("attention", "attention is set here"), help="prune=neurons(25%)"),
    ))  # fmt: skip

    @property
    def not_exported(self) -> tuple[str, Node]:
        why = "in all layouts heads fill the hidden width, and those that are left do not"
        return why, NOTHING


class Neurons(_Units):
    """Inner units of feed-forward parts; every layer keeps one."""

    kind: Literal["neurons"] = "neurons"
    within: Within = "layer"  # DynaBERT run_glue.py: layers stay as wide as each other
    normalize: bool = False
    part = "ffn"
    removes = ("ffn", "activation")

    @property
    def not_exported(self) -> tuple[str, Node] | None:
        why = "layers keep different numbers of neurons, and in all layouts they are equal"
        by_layer = self.model_copy(update={"within": "layer"})
        return (why, by_layer) if self.within == "network" else None


Units = Heads | Neurons
Pruning = Annotated[NoPruning | Heads | Neurons, BY_KIND]
"""The closed union of what a stage removes."""
NOTHING = NoPruning()
