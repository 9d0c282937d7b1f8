"""Typed settings of a run and its stages, and predicates on objectives."""

from collections.abc import Mapping
from typing import Any

from bertc.ir.data import DocSentences, Format, FullSentences, SegmentPair, Stream
from bertc.ir.learning.objective import Term
from bertc.ir.learning.task import Task
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.program.written import Given, Program, StageGiven

DEFAULT_STAGE = "main"
_NOTHING = dict[str, Any]()
_RUN = Complete.model_construct(**_NOTHING)
_STAGE = StageSettings.model_construct(**_NOTHING)
"""Settings without those that are derived; to copy them is much faster than to construct anew."""


def typed(program: Program) -> Complete:
    """Settings of a program as attributes, by stage; a spec without stages has one, ``main``."""
    run = program.settings
    blocks = program.stages or (StageGiven(DEFAULT_STAGE, {}),)
    update = {
        "name": program.name,
        "stages": tuple(_stage(block, {**run, **block.settings}) for block in blocks),
        "program": program,
        "origins": {name: setting.origin for name, setting in run.items()},
    }
    return _RUN.model_copy(update={name: setting.value for name, setting in run.items()} | update)


def settled(program: Complete, settings: Mapping[str, Given]) -> Complete:
    """The same with some settings of the run replaced or added."""
    return typed(program.program.with_settings(settings))


def _stage(block: StageGiven, all_: dict[str, Given]) -> StageSettings:
    values: dict[str, Any] = {name: setting.value for name, setting in all_.items()}
    if "format" not in all_ or all_["format"].origin.kind == "derived":
        values["format"] = default_format(values["objective"], values["pack"])
    update = {
        "name": block.name,
        "own": {name: setting.origin for name, setting in block.settings.items()},
        "whole": values["layers"],
        "planned": values["steps"],
        "origins": {name: setting.origin for name, setting in all_.items()},
    }
    return _STAGE.model_copy(update=values | update)


def asks_about_pairs(objective: tuple[Term, ...]) -> bool:
    """True if a term classifies pairs of segments, through the pooler."""
    return any(term.objective.pairs != "none" for term in objective)


def reads_pooler(objective: tuple[Term, ...]) -> bool:
    """True if a term reads one state for the whole row."""
    return any(term.objective.states.pooled for term in objective)


def has_tasks(objective: tuple[Term, ...]) -> bool:
    """True if a stage learns from examples of tasks."""
    return any(isinstance(term.objective, Task) for term in objective)


def reads_on(objective: tuple[Term, ...]) -> bool:
    """True if a term predicts every next token, which needs a causal encoder."""
    return any(term.objective.order == "forward" for term in objective)


def default_format(objective: tuple[Term, ...], pack: bool) -> Format:
    """BERT's pairs, documents that are cut in packed rows, a stream for clm, or full sentences."""
    if asks_about_pairs(objective):
        return SegmentPair()
    if pack:
        return DocSentences()
    return Stream() if reads_on(objective) else FullSentences()
