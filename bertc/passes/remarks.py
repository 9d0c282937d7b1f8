"""The pass that remarks on what stands as it is written, and is likely not meant."""

from bertc.diagnostics import Diagnostics
from bertc.ir.growth import Drawn
from bertc.ir.program import Program
from bertc.passes.idle import remark_idle
from bertc.passes.stages import StageView, has_tasks, stage_views

HEAD_WIDTH = 64
"""The width of a head in every release of BERT, and what open ``heads`` are derived for."""

HIGH_RATE = 0.1
"""Far above the rates of all shipped specs and recipes, which are 1e-5 to 1.76e-3."""


def remarks(program: Program, diagnostics: Diagnostics) -> Program:
    """Remark on settings that are likely slips; the program is unchanged.

    ``hidden=100`` gives one head of 100, ``lr=3`` is a rate that was never meant.
    """
    if diagnostics.found:
        return program
    _heads_rounded(program, diagnostics)
    stages = stage_views(program)
    for stage in stages:
        _rate_is_high(stage, diagnostics)
        remark_idle(stage, diagnostics)
    _tuned_from_nothing(stages[0], diagnostics)
    return program


def _heads_rounded(program: Program, diagnostics: Diagnostics) -> None:
    hidden, heads = program.settings["hidden"], program.settings["heads"]
    if heads.origin.kind == "derived" and hidden.value > HEAD_WIDTH and hidden.value % HEAD_WIDTH:
        width = program.settings["head_dim"].value
        multiple = round(hidden.value / HEAD_WIDTH) * HEAD_WIDTH
        diagnostics.remark(
            "R101",
            f"hidden = {hidden.value} is no multiple of {HEAD_WIDTH}, which gives "
            f"{heads.value} head{'s' * (heads.value > 1)} of width {width} in each layer",
            hidden.origin.span,
            label="heads follow from hidden where they are not written",
            help=f"hidden={multiple}",
        )


def _rate_is_high(stage: StageView, diagnostics: Diagnostics) -> None:
    given = stage.given("optimizer")
    if given is not None and given.value.lr >= HIGH_RATE:
        diagnostics.remark(
            "R102",
            f"lr = {given.value.lr:g} is far above every published rate",
            given.origin.parts.get(("lr",), given.origin.span),
            label="those of shipped specs and recipes lie between 1e-5 and 1.76e-3",
        )


def _tuned_from_nothing(first: StageView, diagnostics: Diagnostics) -> None:
    """Whether a task is the first thing that a network learns."""
    if has_tasks(first.value("objective")) and isinstance(first.value("init"), Drawn):
        layers, hidden = first.value("layers"), first.value("hidden")
        diagnostics.remark(
            "R103",
            f"a task without init is learned from nothing: {layers} layers of {hidden} begin with "
            "random weights",
            first.span("objective"),
            help='name a run or a model folder to begin from, as in init="runs/albert"',
        )
