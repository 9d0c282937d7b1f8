"""Settings of a run and its stages as typed values, and what the passes ask an objective."""

from typing import Any

from bertc.ir.data import DocSentences, Format, FullSentences, SegmentPair, Stream
from bertc.ir.learning.objective import Term
from bertc.ir.learning.task import Task
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.program.written import Given, Program, StageGiven

DEFAULT_STAGE = "main"


def typed(program: Program) -> Complete:
    """Settings of a program as attributes, stage by stage; one called ``main`` if none is written.

    A setting that no pass has set yet is no attribute: asking for it is an error of the order in
    which passes stand.
    """
    run = program.settings
    blocks = program.stages or (StageGiven(DEFAULT_STAGE, {}),)
    return Complete.model_construct(
        name=program.name,
        stages=tuple(_stage(block, {**run, **block.settings}) for block in blocks),
        program=program,
        origins={name: given.origin for name, given in run.items()},
        **{name: given.value for name, given in run.items()},
    )


def _stage(block: StageGiven, all_: dict[str, Given]) -> StageSettings:
    values: dict[str, Any] = {name: given.value for name, given in all_.items()}
    if "format" not in all_ or all_["format"].origin.kind == "derived":
        values["format"] = default_format(values["objective"], values["pack"])
    return StageSettings.model_construct(
        name=block.name,
        own={name: given.origin for name, given in block.settings.items()},
        origins={name: given.origin for name, given in all_.items()},
        **values,
    )


def asks_about_pairs(objective: tuple[Term, ...]) -> bool:
    """Whether a term reads the order of two segments, through the pooler."""
    return any(term.objective.pairs != "none" for term in objective)


def reads_pooler(objective: tuple[Term, ...]) -> bool:
    """Whether a term reads one state for the whole of a row."""
    return any(term.objective.pooled for term in objective)


def has_tasks(objective: tuple[Term, ...]) -> bool:
    """Whether examples are learned from, not text."""
    return any(isinstance(term.objective, Task) for term in objective)


def reads_on(objective: tuple[Term, ...]) -> bool:
    """Whether a term predicts every next token, which needs an encoder that sees none."""
    return any(term.objective.causal for term in objective)


def default_format(objective: tuple[Term, ...], pack: bool) -> Format:
    """BERT's pairs where the objective asks about them, else RoBERTa's full sentences.

    Those leave nothing to pack: packed rows hold documents, in pieces where they are long. What
    predicts every next token reads text as it runs on.
    """
    if asks_about_pairs(objective):
        return SegmentPair()
    if pack:
        return DocSentences()
    return Stream() if reads_on(objective) else FullSentences()
