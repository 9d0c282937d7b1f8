"""A resolved program: the starting point of estimate, build and train."""

import hashlib
import json

from pydantic import Field

from bertc.ir.base import Node
from bertc.ir.changing.pruning import Units
from bertc.ir.learning.objective import Term
from bertc.ir.network.body import Body
from bertc.ir.program.network import Network
from bertc.ir.program.run import Run
from bertc.ir.program.stage import AnyStage, Stage
from bertc.ir.vocabulary import Vocabulary


class Resolved(Node):
    """A program after all passes."""

    name: str
    stages: tuple[AnyStage, ...]
    vocabulary: Vocabulary
    languages: tuple[str, ...]
    run: Run
    origins: dict[str, str] = Field(default_factory=dict)

    @property
    def encoder(self) -> Body:
        """The body of the main network after the last stage."""
        return self.stages[-1].encoder

    @property
    def adds_tables(self) -> bool:
        """True if tables of the main network are differences, added to another network's."""
        return any(tie.added for network in self.learned for tie in network.ties)

    @property
    def learned(self) -> tuple[Network, ...]:
        """Networks that the run changes, saves and exports, after the last stage."""
        return self.stages[-1].learned

    @property
    def steps(self) -> int:
        """Optimiser steps of the whole run."""
        return sum(stage.steps for stage in self.stages)

    @property
    def prunes(self) -> bool:
        """True if a stage removes heads or neurons, which are cut out when the run ends."""
        return any(isinstance(stage.prune, Units) for stage in self.stages)

    def terms(self) -> tuple[Term, ...]:
        """One term for each name trained in any stage, in order of appearance."""
        first: dict[str, Term] = {}
        for stage in self.stages:
            for term in stage.objective:
                first.setdefault(term.name, term)
        return tuple(first.values())

    def stage_at(self, step: int) -> AnyStage:
        """The stage of step ``step`` (from 0); the last one for later steps."""
        for stage in self.stages:
            if step < stage.first_step + stage.steps:
                return stage
        return self.stages[-1]

    def trained_at(self, step: int) -> AnyStage:
        """The stage whose network the run has after ``step`` steps, before the next one starts."""
        return self.stage_at(max(0, step - 1))

    def as_in(self, network: Stage) -> "Resolved":
        """The program as if every stage trained the networks of ``network``."""
        networks = {"encoder": network.encoder, "generator": network.generator}
        stages = (stage.model_copy(update={**networks, "grow": None}) for stage in self.stages)
        return self.model_copy(update={"stages": tuple(stages)})

    def fingerprint(self) -> str:
        """sha256 of everything that affects the computation; names and origins do not."""
        text = json.dumps(self.model_dump(mode="json", exclude={"name", "origins"}), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()
