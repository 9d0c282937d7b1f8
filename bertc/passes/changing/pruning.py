"""Checks of stages that remove heads, neurons or layers."""

from collections.abc import Sequence
from math import floor

from bertc.diagnostics import Diagnostics
from bertc.ir.changing.growth import FromRun
from bertc.ir.changing.pruning import Heads, Layers, Neurons, NoPruning, Removal, Units
from bertc.ir.program.complete import Complete, StageSettings
from bertc.passes.settings.fixes import argument, fix, note
from bertc.passes.settings.layers import layer_values, owners
from bertc.passes.settings.stages import has_tasks


def pruning(program: Complete, diagnostics: Diagnostics) -> None:
    """Report stages that cannot remove what they should.

    ``layers=2 heads=2 prune=heads(80%)`` is E290.
    """
    if diagnostics.found:
        return
    pruned: StageSettings | None = None
    for place, stage in enumerate(program.stages):
        kind = stage.prune
        if isinstance(kind, Layers) and not place:
            _are_there(program, diagnostics)
        if not isinstance(kind, NoPruning) and not stage.since:
            _rounds_fit(stage, kind, diagnostics)
        if isinstance(kind, Layers):
            _layers_go(stage, kind, diagnostics)
        elif isinstance(kind, Heads | Neurons):
            _has_scores(stage, kind, diagnostics)
            _something_stays(stage, kind, diagnostics)
            _ends_with_the_last_weights(stage, diagnostics)
            _biases_are_of_layers(stage, kind, diagnostics)
            _heads_stand_alone(stage, kind, diagnostics)
        grows = place and stage.layers > program.stages[place - 1].layers
        if pruned and (grows or stage.begins_told):
            _refuse_growing(stage, pruned, diagnostics)
        pruned = pruned if isinstance(kind, NoPruning) else pruned or stage


def _layers_go(stage: StageSettings, kind: Layers, diagnostics: Diagnostics) -> None:
    if not kind.misfit:
        return
    half = f"prune={kind.kind}(50%)" if kind.depth > 1 else ""
    diagnostics.error(
        "E335",
        f"prune = {kind.kind} does not fit: {kind.misfit}",
        stage.span("prune"),
        notes=note(f"layers = {stage.layers}", stage.span("layers")),
        help=half or "remove prune",
        fix=fix(stage.origins["prune"], half),
    )


def _are_there(program: Complete, diagnostics: Diagnostics) -> None:
    """Check that the first stage has the layers that it removes from somewhere."""
    if not isinstance(program.init, FromRun):
        diagnostics.error(
            "E336",
            f"the first stage removes layers, but init = {program.init.kind} brings none with it",
            program.stages[0].span("prune"),
            label="less from the start is another number of layers",
            notes=note("init is set here", program.span("init")),
            help="prune in a stage after this one",
        )


def _counts(stage: StageSettings, kind: Units) -> Sequence[int]:
    """Heads or neurons of each layer that owns some."""
    of_all = layer_values(stage.heads if kind.kind == "heads" else stage.ffn, stage.layers)
    return [of_all[layer] for layer in sorted(set(owners(stage.share, kind.part, stage.layers)))]


def _something_stays(stage: StageSettings, kind: Units, diagnostics: Diagnostics) -> None:
    counts = _counts(stage, kind)
    groups = [counts] if kind.within == "network" else [[number] for number in counts]
    for group in groups:
        most = sum(group) - len(group)
        if round(kind.share * sum(group)) > most:
            percent = floor(100 * most / sum(group))
            instead = argument("prune", stage.origins["prune"], "share", f"{percent}%")
            diagnostics.error(
                "E290",
                f"{kind.share:.0%} of {sum(group)} {kind.kind} are "
                f"{round(kind.share * sum(group))}, but every layer keeps one, so that "
                f"{most} can go",
                stage.span("prune"),
                label="a layer without any has nothing to compute with",
                **(instead if percent else {"help": "remove prune", "fix": None}),
            )
            return


def _rounds_fit(stage: StageSettings, kind: Removal, diagnostics: Diagnostics) -> None:
    """Check that no two rounds come before the same step."""
    if kind.rounds > stage.steps:
        diagnostics.error(
            "E291",
            f"every = {kind.every:.4g} removes in {kind.rounds} rounds, but the stage has "
            f"{stage.steps} steps",
            stage.span("prune"),
            label="rounds have steps of training between them",
            notes=note(f"steps = {stage.steps}", stage.span("steps")),
            help=f"steps={kind.rounds}",
            fix=fix(stage.own.get("steps"), f"steps={kind.rounds}"),
        )


def _ends_with_the_last_weights(stage: StageSettings, diagnostics: Diagnostics) -> None:
    if stage.patience:
        diagnostics.error(
            "E292",
            f"patience = {stage.patience} ends with the best weights, which may be those before "
            "heads or neurons were removed",
            stage.span("patience") or stage.span("prune"),
            notes=note("prune is set here", stage.span("prune")),
            help="patience in a stage after this one",
        )


def _has_scores(stage: StageSettings, kind: Units, diagnostics: Diagnostics) -> None:
    if kind.floor and not has_tasks(stage.objective):
        diagnostics.error(
            "E293",
            f"floor = {kind.floor:g} is a score of a task, but the objective has none",
            stage.span("prune"),
            notes=note("the objective is set here", stage.span("objective")),
            **argument("prune", stage.origins["prune"], "floor", "0"),
        )


def _biases_are_of_layers(stage: StageSettings, kind: Units, diagnostics: Diagnostics) -> None:
    """Check that no weight belongs to the heads of several layers that may lose unlike ones."""
    if kind.part == "attention" and stage.attention.ties_biases:
        diagnostics.error(
            "E294",
            "heads of all layers share their biases, so that layers cannot lose different ones",
            stage.span("prune"),
            notes=note("attention is set here", stage.span("attention")),
            **argument("attention", stage.origins["attention"], "untie", "true"),
        )


def _heads_stand_alone(stage: StageSettings, kind: Units, diagnostics: Diagnostics) -> None:
    """Check that heads can go one by one, and that those that are left stay what they were."""
    if kind.part != "attention":
        return
    if stage.positions.by_head:
        reason = f"each head has a bias of its own by positions = {stage.positions.kind}"
        setting = "positions"
    elif stage.attention.shares_keys:
        reason, setting = "several heads share their keys and values", "attention"
    else:
        return
    diagnostics.error(
        "E313",
        f"{reason}, so that none can be removed",
        stage.span("prune"),
        notes=note(f"{setting} is set here", stage.span(setting)),
        help="prune=neurons(25%)",
        fix=fix(stage.origins["prune"], "prune=neurons(25%)"),
    )


def _refuse_growing(stage: StageSettings, pruned: StageSettings, diagnostics: Diagnostics) -> None:
    diagnostics.error(
        "E295",
        f'stage "{stage.name}" grows, but some of its network is gone since stage "{pruned.name}"',
        stage.span("layers") or stage.span("grow") or stage.span("prune"),
        label="new layers would start as copies of what is left of others",
        notes=note("prune is set here", pruned.span("prune")),
        help="prune in a stage after all growing",
    )
