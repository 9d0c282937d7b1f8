"""Typed settings of a run and its stages, predicates on objectives, and the checker of settings."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from bertc.base.diagnostics import Diagnostic, Diagnostics, Span
from bertc.ir.data import DocSentences, Format, FullSentences, SegmentPair, Stream
from bertc.ir.fixes import Also, Of, Rule, Way, Where, note
from bertc.ir.learning import Hours, Task, Term
from bertc.ir.methods.ending import MOST_STEPS
from bertc.ir.network.attention_node import ContentAttention
from bertc.ir.network.positions import RotaryPositions
from bertc.ir.own import Own
from bertc.ir.program import Complete, CompleteSettings, CompleteStage
from bertc.ir.written import DEFAULT_STAGE, Given, Origin, Program, StageGiven

_S = TypeVar("_S", bound=CompleteSettings)
_T = TypeVar("_T")


class Checker(NamedTuple, Generic[_S]):
    """Settings that are checked, and where mistakes go."""

    settings: _S
    diagnostics: Diagnostics

    def rules(self, rules: Iterable[Rule[_S]]) -> None:
        """Report every rule that the settings break, in the order of the rules."""
        for rule in rules:
            if rule.when(self.settings):
                where = rule.at(self.settings) if callable(rule.at) else rule.at
                self.report(
                    rule.code,
                    self._of(rule.says),
                    where,
                    also=self._of(rule.also),
                    label=self._of(rule.label),
                    help=self._of(rule.help),
                    way=rule.way(self.settings) if rule.way else None,
                )

    def _span(self, name: str) -> Span | None:
        setting, _, argument = name.partition(".")
        origin = self.settings.origins[setting]
        return origin.parts.get((argument,), origin.span) if argument else origin.span

    def _of(self, value: Of[_T, _S]) -> _T:
        return value(self.settings) if callable(value) else value

    def report(
        self,
        code: str,
        message: str,
        where: Where | Span | None,
        *,
        also: Also | None = None,
        label: str = "",
        help: str = "",
        way: Way | None = None,
    ) -> None:
        """Report a mistake or a remark, with the parts of a ``Rule``; ``where`` may be a span."""
        if isinstance(where, str | tuple):
            names = (where,) if isinstance(where, str) else where
            where = next(filter(None, map(self._span, names)), None)
        words = note(also[1], self.settings.span(also[0])) if also else ()
        way = way or {"help": help, "fix": None}
        if code.startswith("R"):
            self.diagnostics.remark(Diagnostic(code, message, where, label, words, **way))
        else:
            self.diagnostics.error(code, message, where, label=label, notes=words, **way)


_NOTHING = dict[str, Any]()
_RUN = Complete.model_construct(**_NOTHING)
_STAGE = CompleteStage.model_construct(**_NOTHING)
"""Settings without those that are derived; to copy them is much faster than to construct anew."""


def type_settings(program: Program) -> Complete:
    """Settings of a program as attributes, by stage; a spec without stages has one, ``main``."""
    values, origins = _parts(program.settings)
    blocks = program.stages or (StageGiven(DEFAULT_STAGE, {}),)
    update = {
        "name": program.name,
        "stages": tuple(_stage(block, values, origins) for block in blocks),
        "program": program,
        "origins": origins,
    }
    return _RUN.model_copy(update=values | update)


def set_values(program: Complete, settings: Mapping[str, Given]) -> Complete:
    """The same with some settings of the run replaced or added."""
    return type_settings(program.program.with_settings(settings))


def _stage(block: StageGiven, values: dict[str, Any], origins: dict[str, Origin]) -> CompleteStage:
    changed, written = _parts(block.settings)
    values, origins = values | changed, origins | written
    if "format" not in origins or origins["format"].kind == "derived":
        values["format"] = default_format(values["objective"], values["pack"])
    update = {"name": block.name, "own": written, "origins": origins}
    return _STAGE.model_copy(update=values | update)


def _parts(settings: Mapping[str, Given]) -> tuple[dict[str, Any], dict[str, Origin]]:
    """Values and origins of settings; ``steps=24h`` is a time, and more steps than it needs."""
    values = {name: setting.value for name, setting in settings.items()}
    if isinstance(length := values.get("steps"), Hours):
        values |= {"steps": MOST_STEPS, "clock": length.hours}
    return values, {name: setting.origin for name, setting in settings.items()}


def asks_about_pairs(objective: tuple[Term, ...]) -> bool:
    """True if a term classifies pairs of segments, through the pooler."""
    return any(term.objective.pairs != "none" for term in objective)


def has_tasks(objective: tuple[Term, ...]) -> bool:
    """True if a stage learns from examples of tasks."""
    return any(isinstance(term.objective, Task) for term in objective)


def reads_on(objective: tuple[Term, ...]) -> bool:
    """True if all terms predict every next token, which needs a causal encoder."""
    return all(term.objective.order == "forward" for term in objective)


def is_causal(settings: CompleteSettings) -> bool:
    """True if tokens attend to earlier ones alone: as written, or as the objective needs it."""
    return reads_on(settings.objective) if settings.causal == "auto" else settings.causal


def default_format(objective: tuple[Term, ...], pack: bool) -> Format:
    """BERT's pairs, documents that are cut in packed rows, a stream for clm, or full sentences."""
    if asks_about_pairs(objective):
        return SegmentPair()
    if pack:
        return DocSentences()
    return Stream() if reads_on(objective) else FullSentences()


def layer_values(value: int | tuple[int, ...] | Own, layers: int) -> tuple[int, ...]:
    """One number per layer, from one number for all or from a list of any length.

    A list of another length is refused by ``sharing``; until then its last number goes on. A part
    of the user's own has no inner width, which is 1 then.
    """
    listed = value if isinstance(value, tuple) else (1 if isinstance(value, Own) else value,)
    return (*listed, *listed[-1:] * layers)[:layers]


def key_heads(settings: CompleteSettings) -> int:
    """The number that heads of queries are a multiple of."""
    node = settings.attention
    return (isinstance(node, ContentAttention) and node.kv_heads) or 1


def turns_pairs(settings: CompleteSettings, width: int) -> bool:
    """True if positions that turn pairs of numbers can do so in a head of this width."""
    positions = settings.positions
    turned = positions.rotary_dims(width) if isinstance(positions, RotaryPositions) else 2
    return turned >= 2 and turned % 2 == 0


def fitting_heads(
    settings: CompleteSettings, near: int, hidden: int, multiple: int = 1
) -> list[int]:
    """Numbers of heads that divide a width into heads as positions need them, the nearest first."""
    small = [number for number in range(1, math.isqrt(hidden) + 1) if hidden % number == 0]
    numbers = {n for divisor in small for n in (divisor, hidden // divisor) if n % multiple == 0}
    fitting = (number for number in numbers if turns_pairs(settings, hidden // number))
    return sorted(fitting, key=lambda number: (abs(number - near), number))


def one_for_all(settings: CompleteSettings, setting: str, near: int) -> str:
    """A setting of one number for all layers; heads are those nearest to it that fit."""
    if setting == "heads" and settings.origins["head_dim"].kind == "derived":
        near = next(iter(fitting_heads(settings, near, settings.hidden, key_heads(settings))), near)
    return f"{setting}={near}"
