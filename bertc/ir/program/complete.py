"""A program with every setting: typed values, and where each came from."""

from collections.abc import Mapping

from bertc.diagnostics import Span
from bertc.ir.data import StreamPair
from bertc.ir.network.growth import FromGenerator
from bertc.ir.program.settings import Settings
from bertc.ir.program.written import Origin, Program


class CompleteSettings(Settings):
    """All settings as they hold in one place: a run, or one of its stages.

    ``origins`` has an entry for each of them. Values were checked where they were read, so these
    are constructed without checking them again.
    """

    name: str
    origins: Mapping[str, Origin]

    def span(self, setting: str) -> Span | None:
        """Where a setting was written, if it was."""
        return self.origins[setting].span


class StageSettings(CompleteSettings):
    """The settings of one stage, those of the run where it has none of its own.

    ``own`` has the origins of those it has. ``format`` follows from the stage's own objective
    unless it is written.
    """

    own: Mapping[str, Origin]

    @property
    def begins_told(self) -> bool:
        """Whether the encoder begins the stage as its generator."""
        return "grow" in self.own and isinstance(self.grow, FromGenerator)

    @property
    def parts(self) -> tuple[int, ...]:
        """Tokens of the parts of a row, each of which has an order of its own."""
        return self.format.parts(self.seq) if isinstance(self.format, StreamPair) else (self.seq,)

    @property
    def translates(self) -> bool:
        """Whether some rows are sentences and their translations."""
        return any(term.objective.translations for term in self.objective)


class Complete(CompleteSettings):
    """A program that leaves no setting open; ``program`` is the same one as it is printed."""

    stages: tuple[StageSettings, ...]
    program: Program

    @property
    def total_steps(self) -> int:
        """Optimiser steps of all stages."""
        return sum(stage.steps for stage in self.stages)

    @property
    def longest_seq(self) -> int:
        """Tokens of the longest row of any stage."""
        return max(stage.seq for stage in self.stages)
