"""Checks of stages that remove heads or neurons."""

from math import floor

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes.settings.checker import Checker
from bertc.check.passes.settings.stages import layer_values, owners
from bertc.ir.changing.pruning import NoPruning, Units
from bertc.ir.fixes import argument, note
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.rules import Rule


def pruning(program: Complete, diagnostics: Diagnostics) -> None:
    """Report stages that cannot remove what they should.

    ``layers=2 heads=2 prune=heads(80%)`` is E290.
    """
    if diagnostics.found:
        return
    pruned: StageSettings | None = None
    for place, stage in enumerate(program.stages):
        kind, check = stage.prune, Checker(stage, diagnostics)
        if not isinstance(kind, NoPruning):
            _something_stays(check, kind)
            check.rules(_OF_UNITS if kind.part == "ffn" else (*_OF_UNITS, *_OF_HEADS))
        grows = place and stage.layers > program.stages[place - 1].layers
        if pruned and grows:
            diagnostics.error(
                "E295",
                f'stage "{stage.name}" grows, but some of its network is gone since stage '
                f'"{pruned.name}"',
                stage.span("layers") or stage.span("grow") or stage.span("prune"),
                label="new layers would start as copies of what is left of others",
                notes=note("prune is set here", pruned.span("prune")),
                help="prune in a stage after all growing",
            )
        pruned = pruned if isinstance(kind, NoPruning) else pruned or stage


def _units(stage: StageSettings) -> Units:
    assert isinstance(stage.prune, Units), "rules are of stages that prune"
    return stage.prune


def _something_stays(check: Checker[StageSettings], kind: Units) -> None:
    """Check that every layer keeps one."""
    stage, origin = check.settings, check.settings.origins["prune"]
    of_all = layer_values(stage.heads if kind.kind == "heads" else stage.ffn, stage.layers)
    counts = [of_all[layer] for layer in sorted(set(owners(stage.share, kind.part, stage.layers)))]
    groups = [counts] if kind.within == "network" else [[number] for number in counts]
    for group in groups:
        most = sum(group) - len(group)
        if round(kind.share * sum(group)) > most:
            percent = floor(100 * most / sum(group))
            check.report(
                "E290",
                f"{kind.share:.0%} of {sum(group)} {kind.kind} are "
                f"{round(kind.share * sum(group))}, but every layer keeps one, so that "
                f"{most} can go",
                "prune",
                label="a layer without any has nothing to compute with",
                help="remove prune",
                way=argument("prune", origin, "share", f"{percent}%") if percent else None,
            )
            return


_OF_UNITS: tuple[Rule[StageSettings], ...] = (
    Rule("E291", "prune", lambda s: _units(s).rounds > s.steps,
         lambda s: f"every = {_units(s).every:.4g} removes in {_units(s).rounds} rounds, but the "
         f"stage has {s.steps} steps",
         label="rounds have steps of training between them",
         also=lambda s: ("steps", f"steps = {s.steps}"),
         help=lambda s: f"steps={_units(s).rounds}"),
    Rule("E313", "prune", lambda s: s.norm.within(_units(s).part),
         lambda s: f"a norm is over all {_units(s).kind} of a layer, and would change without some",
         also=("norm", "norm is set here"), help="remove prune"),
    Rule("E292", ("patience", "prune"), lambda s: s.patience,
         lambda s: f"patience = {s.patience} ends with the best weights, which may be those before "
         "heads or neurons were removed",
         also=("prune", "prune is set here"), help="patience in a stage after this one"),
)  # fmt: skip
_OF_HEADS: tuple[Rule[StageSettings], ...] = (
    Rule("E313", "prune", lambda s: s.attention.ties_biases,
         "heads of all layers share their biases, so that layers cannot lose different ones",
         also=("attention", "attention is set here"),
         way=lambda s: argument("attention", s.origins["attention"], "untie", "true")),
    Rule("E313", "prune", lambda s: s.positions.by_head,
         lambda s: f"each head has a bias of its own by positions = {s.positions.kind}, so that "
         "none can be removed",
         also=("positions", "positions is set here"), help="prune=neurons(25%)"),
    Rule("E313", "prune", lambda s: s.residual.mixes_values,
         lambda s: f"residual = {s.residual.kind} mixes the values of all layers, so that layers "
         "cannot lose different heads",
         also=("residual", "residual is set here"), help="prune=neurons(25%)"),
    Rule("E313", "prune", lambda s: s.attention.shares_keys and not s.positions.by_head,
         "several heads share their keys and values, so that none can be removed",
         also=("attention", "attention is set here"), help="prune=neurons(25%)"),
)  # fmt: skip
