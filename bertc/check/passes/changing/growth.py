"""Checks of growing stages, and of methods that change a network."""

from itertools import pairwise
from typing import get_args

from bertc.base.diagnostics import Diagnostics, Note, several
from bertc.check.passes.settings import Checker, layer_values, one_for_all, owners
from bertc.ir.changing.growth import FromRun, Identity, Interleave, Stack, Tile, find_split
from bertc.ir.fixes import argument, fix, note, span_if_written
from bertc.ir.methods.method import removing
from bertc.ir.network.sharing import SharedPart
from bertc.ir.program import Complete, CompleteStage, Origin
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
    check = Checker(program, diagnostics)
    for earlier, later in pairwise(program.stages):
        before, after = earlier.layers, later.layers
        old, new = earlier.optimizer, later.optimizer
        if later.grow.moments == "carry" and old.keeps != new.keeps:
            Checker(later, diagnostics).report(
                "E370",
                f'stage "{later.name}" carries the moments of {old.kind}, which keeps {old.keeps}; '
                f"{new.kind} keeps {new.keeps}",
                "grow",
                also=("optimizer", "the optimizer is set here"),
                way=argument("grow", later.origins["grow"], "moments", "reset"),
            )
        match later.grow:
            case _ if after < before:
                span = earlier.span("layers")
                diagnostics.error(
                    "E260",
                    f'stage "{later.name}" has {several(after, "layer")}, '
                    f'but stage "{earlier.name}" has {before}',
                    later.span("layers") or span,
                    label="a run that begins with this one takes some: init=layers(RUN, ...)",
                    notes=note(f"layers = {before}", span),
                    help=f"layers={before}",
                )
            case Identity() if after > before:
                _identity_possible(check, later, before)
            case Stack() | Interleave() | Tile() as grow if after > before:
                _alike(check, later, grow, before)
                _together(check, later, grow, before)


def _something_grows(program: Complete, diagnostics: Diagnostics) -> None:
    def nothing_grows(origin: Origin, where: str) -> None:
        message = f"grow has no effect: nothing grows {where}"
        label = "only a stage with more layers than before grows"
        help = "remove it"
        diagnostics.error("E264", message, origin.span, label=label, help=help, fix=fix(origin, ""))

    begins = isinstance(program.init, FromRun)
    before, any_grows = 0, begins
    for stage in program.stages:
        grows = stage.layers > before if before else begins
        any_grows |= grows
        if "grow" in stage.own and not grows:
            why = "it is the first"
            if before:
                why = f"the one before has {several(before, 'layer')} too"
            nothing_grows(stage.own["grow"], f'in stage "{stage.name}": {why}')
        before = stage.layers
    if not any_grows and program.grow != Stack() and span_if_written(program.origins["grow"]):
        nothing_grows(program.origins["grow"], "in this run")


def _alike(check: Checker[Complete], stage: CompleteStage, grow: Copying, before: int) -> None:
    """Check that each new layer has the widths of the layer it copies."""
    program, after = check.settings, stage.layers
    for setting, value in (("heads", program.heads), ("ffn", program.ffn)):
        widths = layer_values(value, after)
        for layer in range(after):
            source = grow.source(layer, before, after)
            if widths[layer] != widths[source]:
                alike = one_for_all(program, setting, widths[0])
                check.diagnostics.error(
                    "E261",
                    f"layer {layer} cannot start as a copy of layer {source}: they differ in "
                    f"{setting}: {widths[layer]} and {widths[source]}",
                    program.span(setting) or stage.span("layers"),
                    label="a copy has the widths of the original",
                    notes=_grown_here(stage, before),
                    help=f"{alike} or grow=identity norm=pre",
                )
                return


def _together(check: Checker[Complete], stage: CompleteStage, grow: Copying, before: int) -> None:
    """Check that layers that share weights start as copies of layers that shared them."""
    program, after = check.settings, stage.layers
    for part in get_args(SharedPart):
        old, new = (owners(program.share, part, depth) for depth in (before, after))
        layer = find_split(grow, old, new)
        if layer is None:
            continue
        mine, owners_source = (grow.source(copy, before, after) for copy in (layer, new[layer]))
        interleaving_fits = find_split(Interleave(), old, new) is None
        check.diagnostics.error(
            "E266",
            f"layer {layer} cannot start as a copy of layer {mine}: it shares its {part} with "
            f"layer {new[layer]}, which starts as layer {owners_source}",
            stage.span("grow") or stage.span("layers"),
            label="layers that share weights start as copies of layers that share weights",
            notes=(
                *note("the sharing is set here", program.span("share")),
                *_grown_here(stage, before),
            ),
            help=_grow_by(Interleave, stage) if interleaving_fits else "share=none or share=all",
        )
        return


def _identity_possible(check: Checker[Complete], stage: CompleteStage, before: int) -> None:
    """Check that new layers can be the identity: a free residual path, and weights of their own."""
    program, after, problem, way = check.settings, stage.layers, "", "share=none"
    notes = note("the sharing is set here", program.span("share"))
    if not program.norm.residual_free:
        problem = "a layer with norm=post is never the identity: its residual path is normalised "
        problem, notes, way = problem + "again", _grown_here(stage, before), "norm=pre"
    for part in get_args(SharedPart):
        old, new = (owners(program.share, part, depth) for depth in (before, after))
        moved = next((n for n in range(before) if old[n] != new[n]), None)
        borrower = next((n for n in range(before, after) if new[n] < before), moved)
        if borrower is not None and not problem:
            problem = f"layer {borrower} cannot be added as an identity: its {part} is "
            problem += f"that of layer {new[borrower]}"
    if problem:
        help = f"{_grow_by(Stack, stage)} or {way}"
        check.diagnostics.error(
            "E262", problem, stage.span("grow") or stage.span("layers"), notes=notes, help=help
        )


def _grow_by(kind: type[Copying], stage: CompleteStage) -> str:
    return f"grow={show_value(kind(moments=stage.grow.moments))}"


def _grown_here(stage: CompleteStage, before: int) -> tuple[Note, ...]:
    message = f'stage "{stage.name}" grows from {before} to {several(stage.layers, "layer")}'
    return note(message, stage.span("layers"))


def methods(program: Complete, diagnostics: Diagnostics) -> None:
    """Report stages whose network does not go with a method.

    ``layers=2 heads=2 prune=heads(80%)`` is E290, ``adapt=lora freeze=2`` E360.
    """
    if diagnostics.found:
        return
    cut: CompleteStage | None = None
    for place, stage in enumerate(program.stages):
        rules = (rule for method in stage.methods for rule in method.rules.network)
        Checker(stage, diagnostics).rules(rules)
        if cut and place and stage.layers > program.stages[place - 1].layers:
            setting = removing(cut)
            diagnostics.error(
                "E295",
                f'stage "{stage.name}" grows, but some of its network is gone since stage '
                f'"{cut.name}"',
                stage.span("layers") or stage.span("grow") or stage.span(setting),
                label="new layers would start as copies of what is left of others",
                notes=note(f"{setting} is set here", cut.span(setting)),
                help=f"{setting} in a stage after all growing",
            )
        cut = cut or (stage if removing(stage) else None)
