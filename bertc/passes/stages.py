"""The phases of a run as complete sets of settings: what the passes share about stages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bertc.diagnostics import Span
from bertc.ir.data import PAIRED, DocSentences, FullSentences, SegmentPair, Stream, StreamPair
from bertc.ir.learning.answer import Choice, Labels, Score
from bertc.ir.learning.objective import Clm, Term, Tlm
from bertc.ir.learning.task import Task
from bertc.ir.network.growth import FromGenerator
from bertc.ir.program.written import Given, Program
from bertc.ir.terms.node import Pairs
from bertc.ir.terms.pairs import PairTerm

DEFAULT_STAGE = "main"


@dataclass(frozen=True)
class StageView:
    """One stage's settings, the program's where the stage has none of its own."""

    name: str
    own: Mapping[str, Given]
    program: Program

    def given(self, setting: str) -> Given | None:
        """The stage's own value or the program's."""
        return self.own.get(setting) or self.program.settings.get(setting)

    def value(self, setting: str) -> Any:
        """The bare value of a setting that is known to be there."""
        given = self.given(setting)
        assert given is not None, f"no pass has set {setting}"
        return given.value

    def span(self, setting: str) -> Span | None:
        """Where the value was written, if it was."""
        given = self.given(setting)
        return given.origin.span if given else None

    @property
    def begins_told(self) -> bool:
        """Whether the encoder begins the stage as its generator."""
        return "grow" in self.own and isinstance(self.value("grow"), FromGenerator)

    @property
    def format(self) -> Any:
        """The format, which follows from the objective unless written."""
        given = self.given("format")
        if given is not None and given.origin.kind != "derived":
            return given.value
        return default_format(self.value("objective"), self.value("pack"))

    @property
    def parts(self) -> tuple[int, ...]:
        """Tokens of the parts of a row, each of which has an order of its own."""
        seq: int = self.value("seq")
        return self.format.parts(seq) if isinstance(self.format, StreamPair) else (seq,)

    @property
    def translates(self) -> bool:
        """Whether some rows are sentences and their translations."""
        return any(isinstance(term.objective, Tlm) for term in self.value("objective"))

    @property
    def pairs(self) -> Pairs:
        """How pairs are made, which follows from the objective."""
        kinds = {term.objective.kind for term in self.value("objective")}
        if self.format.kind not in PAIRED:
            return "none"
        if "nsp" in kinds:
            return "random-next"
        return "swapped" if "sop" in kinds else "consecutive"


def stage_views(program: Program) -> tuple[StageView, ...]:
    """The stages of a program; one called ``main`` where none is written."""
    if not program.stages:
        return (StageView(DEFAULT_STAGE, {}, program),)
    return tuple(StageView(stage.name, stage.settings, program) for stage in program.stages)


def asks_about_pairs(objective: tuple[Term, ...]) -> bool:
    """Whether a term reads the order of two segments, through the pooler."""
    return any(isinstance(term.objective, PairTerm) for term in objective)


def reads_pooler(objective: tuple[Term, ...]) -> bool:
    """Whether a term reads one state for the whole of a row."""
    tasks = (term.objective for term in objective if isinstance(term.objective, Task))
    whole = any(isinstance(task.answer, Labels | Score | Choice) for task in tasks)
    return whole or asks_about_pairs(objective)


def has_tasks(objective: tuple[Term, ...]) -> bool:
    """Whether examples are learned from, not text."""
    return any(isinstance(term.objective, Task) for term in objective)


def reads_on(objective: tuple[Term, ...]) -> bool:
    """Whether a term predicts every next token, which needs an encoder that sees none."""
    return any(isinstance(term.objective, Clm) for term in objective)


def default_format(
    objective: tuple[Term, ...], pack: bool
) -> SegmentPair | DocSentences | FullSentences | Stream:
    """BERT's pairs where the objective asks about them, else RoBERTa's full sentences.

    Those leave nothing to pack: packed rows hold documents, in pieces where they are long. What
    predicts every next token reads text as it runs on.
    """
    if asks_about_pairs(objective):
        return SegmentPair()
    if pack:
        return DocSentences()
    return Stream() if reads_on(objective) else FullSentences()
