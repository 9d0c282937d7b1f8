"""Checks of growing stages, and of methods that change a network."""

from itertools import pairwise

from bertc.base.diagnostics import Diagnostics, several
from bertc.check.passes.settings import Checker, layer_values, one_for_all
from bertc.ir.changing.growth import FromRun, Identity, Interleave, Stack, Tile, find_split
from bertc.ir.fixes import Also, argument, fix, span_if_written
from bertc.ir.methods.method import removing
from bertc.ir.network.sharing import AXES, owners_of
from bertc.ir.program import Complete, CompleteStage
from bertc.lang.write.show import show_value

Copying = Stack | Interleave | Tile
"""Ways to grow in which a new layer starts as a copy of another."""


def growth(program: Complete, diagnostics: Diagnostics) -> None:
    """Report every stage that cannot start from the network of the stage before.

    ``stage "a" { layers=4 } stage "b" { layers=2 }`` is E260.
    """
    if diagnostics.found:
        return
    _something_grows(program, diagnostics)
    for earlier, later in pairwise(program.stages):
        before, after, check = earlier.layers, later.layers, Checker(later, diagnostics)
        old, new = earlier.optimizer, later.optimizer
        if later.grow.moments == "carry" and old.keeps != new.keeps:
            check.report(
                "E370",
                f'stage "{later.name}" carries the moments of {old.kind}, which keeps {old.keeps}; '
                f"{new.kind} keeps {new.keeps}",
                "grow",
                also=("optimizer", "the optimizer is set here"),
                way=argument("grow", later.origins["grow"], "moments", "reset"),
            )
        match later.grow:
            case _ if after < before:
                Checker(earlier, diagnostics).report(
                    "E260",
                    f'stage "{later.name}" has {several(after, "layer")}, '
                    f'but stage "{earlier.name}" has {before}',
                    later.span("layers") or earlier.span("layers"),
                    label="a run that begins with this one takes some: init=layers(RUN, ...)",
                    also=("layers", f"layers = {before}"),
                    help=f"layers={before}",
                )
            case Identity() if after > before:
                _identity_possible(check, before)
            case Stack() | Interleave() | Tile() as grow if after > before:
                _alike(check, grow, before)
                _together(check, grow, before)


def _something_grows(program: Complete, diagnostics: Diagnostics) -> None:
    """Report each ``grow`` of a stage, and that of the run, where nothing grows."""
    deeper = (later.layers > earlier.layers for earlier, later in pairwise(program.stages))
    grows, of_run = [isinstance(program.init, FromRun), *deeper], program.origins["grow"]
    idle = [
        (stage.own["grow"], f'in stage "{stage.name}"')
        for stage, grown in zip(program.stages, grows, strict=True)
        if "grow" in stage.own and not grown
    ]
    if not any(grows) and program.grow != Stack() and span_if_written(of_run):
        idle.append((of_run, "in this run"))
    for origin, where in idle:
        message = f"grow has no effect: nothing grows {where}"
        label = "only a stage with more layers than before grows"
        help = "remove it"
        diagnostics.error("E264", message, origin.span, label=label, help=help, fix=fix(origin, ""))


def _alike(check: Checker[CompleteStage], grow: Copying, before: int) -> None:
    """Check that each new layer has the widths of the layer it copies."""
    stage = check.settings
    for setting in AXES.values():
        widths = layer_values(getattr(stage, setting), stage.layers)
        for layer, width in enumerate(widths):
            source = grow.source(layer, before, stage.layers)
            if width != widths[source]:
                check.report(
                    "E261",
                    f"layer {layer} cannot start as a copy of layer {source}: they differ in "
                    f"{setting}: {width} and {widths[source]}",
                    (setting, "layers"),
                    label="a copy has the widths of the original",
                    also=_grown_here(stage, before),
                    help=f"{one_for_all(stage, setting, widths[0])} or grow=identity norm=pre",
                )
                return


def _together(check: Checker[CompleteStage], grow: Copying, before: int) -> None:
    """Check that layers that share weights start as copies of layers that shared them."""
    stage, after = check.settings, check.settings.layers
    owners = (owners_of(stage.share, depth) for depth in (before, after))
    for part, old, new in zip(AXES, *owners, strict=True):
        if (layer := find_split(grow, old, new)) is None:
            continue
        mine, owners_source = (grow.source(copy, before, after) for copy in (layer, new[layer]))
        interleaving_fits = find_split(Interleave(), old, new) is None
        check.report(
            "E266",
            f"layer {layer} cannot start as a copy of layer {mine}: it shares its {part} with "
            f"layer {new[layer]}, which starts as layer {owners_source}",
            ("grow", "layers"),
            label="layers that share weights start as copies of layers that share weights",
            also=("share", "the sharing is set here"),
            help=_grow_by(Interleave, stage) if interleaving_fits else "share=none or share=all",
        )
        return


def _identity_possible(check: Checker[CompleteStage], before: int) -> None:
    """Check that new layers can be the identity: a free residual path, and weights of their own."""
    stage, after, problem = check.settings, check.settings.layers, ""
    way, also = "share=none", ("share", "the sharing is set here")
    if not stage.norm.residual_free:
        problem = "a layer with norm=post is never the identity: its residual path is normalised "
        problem, also, way = problem + "again", _grown_here(stage, before), "norm=pre"
    owners = (owners_of(stage.share, depth) for depth in (before, after))
    for part, old, new in zip(AXES, *owners, strict=True):
        moved = next((n for n in range(before) if old[n] != new[n]), None)
        borrower = next((n for n in range(before, after) if new[n] < before), moved)
        if borrower is not None and not problem:
            problem = f"layer {borrower} cannot be added as an identity: its {part} is "
            problem += f"that of layer {new[borrower]}"
    if problem:
        help = f"{_grow_by(Stack, stage)} or {way}"
        check.report("E262", problem, ("grow", "layers"), also=also, help=help)


def _grow_by(kind: type[Copying], stage: CompleteStage) -> str:
    return f"grow={show_value(kind(moments=stage.grow.moments))}"


def _grown_here(stage: CompleteStage, before: int) -> Also:
    grows = f'stage "{stage.name}" grows from {before} to {several(stage.layers, "layer")}'
    return "layers", grows


def methods(program: Complete, diagnostics: Diagnostics) -> None:
    """Report stages whose network does not go with a method.

    ``adapt=lora freeze=2`` is E360.
    """
    if diagnostics.found:
        return
    cut: CompleteStage | None = None
    for place, stage in enumerate(program.stages):
        rules = (rule for method in stage.methods for rule in method.rules.network)
        Checker(stage, diagnostics).rules(rules)
        if cut and place and stage.layers > program.stages[place - 1].layers:
            setting = removing(cut)
            Checker(stage, diagnostics).report(
                "E295",
                f'stage "{stage.name}" grows, but some of its network is gone since stage '
                f'"{cut.name}"',
                ("layers", "grow", setting),
                label="new layers would start as copies of what is left of others",
                also=(setting, f"{setting} is set here"),
                help=f"{setting} in a stage after all growing",
            )
        cut = cut or (stage if removing(stage) else None)
