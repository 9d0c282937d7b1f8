"""A program with all settings set: typed values, with the origin of each."""

from collections.abc import Mapping

from bertc.base.diagnostics import Span
from bertc.ir.base import once
from bertc.ir.learning import Task
from bertc.ir.methods.ending import Timed
from bertc.ir.program.settings import Positive, Settings
from bertc.ir.program.stage import AnyMethod, methods_of
from bertc.ir.terms.node import translates
from bertc.ir.written import Origin, Program


class CompleteSettings(Timed, Settings):
    """All settings that apply in one place: a run, or one of its stages.

    ``origins`` has an entry for each. Where a time ends it, steps are as many as there may be.
    ``epoch_rows`` are the rows of a pass over the text and ``row_words`` the mean words of a row, 0
    where they are not counted. Values were validated when read, so these objects are constructed
    without validation.
    """

    name: str
    origins: Mapping[str, Origin]
    steps: Positive
    epoch_rows: int = 0
    row_words: float = 0.0

    def span(self, setting: str) -> Span | None:
        """The span of a setting in its text, if written."""
        return self.origins[setting].span

    @property
    @once
    def methods(self) -> tuple[AnyMethod, ...]:
        """The methods that act over the steps, in order."""
        return methods_of(self)


class CompleteStage(CompleteSettings):
    """The settings of one stage, completed from those of the run.

    ``own`` has the origins of settings written in the stage. Unless written, ``format`` is derived
    from the stage's own objective.
    """

    own: Mapping[str, Origin]

    @property
    def tasks(self) -> list[Task]:
        """Its tasks; empty for a stage of text."""
        return [t.objective for t in self.objective if isinstance(t.objective, Task)]

    @property
    def pairing(self) -> str:
        """The name of the term that classifies pairs of segments, or ""."""
        return next((t.name for t in self.objective if t.objective.pairs != "none"), "")

    @property
    def translation_term(self) -> str:
        """The name of the term that reads translation pairs, or ""."""
        return next((t.name for t in self.objective if translates(t.objective)), "")


class Complete(CompleteSettings):
    """A program with every setting; ``program`` is the same one in printable form."""

    stages: tuple[CompleteStage, ...]
    program: Program

    @property
    def total_steps(self) -> int:
        """Optimiser steps of all stages."""
        return sum(stage.steps for stage in self.stages)

    @property
    def longest_seq(self) -> int:
        """Length in tokens of the longest row of any stage."""
        return max(stage.seq for stage in self.stages)
