"""Checks of sharing: owner maps, and widths of the layers that share."""

from bertc.base.diagnostics import Diagnostics, several
from bertc.check.passes.settings import Checker, layer_values, one_for_all
from bertc.ir.fixes import argument
from bertc.ir.network import sharing as schemes
from bertc.ir.network.body_node import Transformer
from bertc.ir.program import Complete, CompleteStage


def sharing(program: Complete, diagnostics: Diagnostics) -> None:
    """Report maps that are not total, name a later or borrowing owner, or join unequal layers.

    ``layers=4 share=groups(5)`` is E202. Stages use the first entries of lists and maps.
    """
    if not isinstance(program.body, Transformer):
        return
    views = sorted(program.stages, key=lambda view: view.layers)
    flattest, deepest = views[0], views[-1]
    origin, scheme = program.origins["share"], program.share
    misfits = Diagnostics()  # of this program, not of another point that has the same mistakes
    _lists_fit(program, Checker(deepest, misfits))
    match scheme:
        case schemes.ShareGroups() if scheme.groups > flattest.layers:
            Checker(flattest, misfits).report(
                "E202",
                f"{scheme.groups} groups for {several(flattest.layers, 'layer')}",
                origin.parts.get(("groups",), origin.span),
                label="more groups than layers",
                also=("layers", f"layers = {flattest.layers}"),
                help=f"share=groups({flattest.layers})",
            )
        case schemes.ShareMap():
            _map_fits(scheme, Checker(deepest, misfits))
    diagnostics.add(misfits)
    if not misfits.found:
        if program.norm.skips_first:
            _first_norm_fits(Checker(deepest, diagnostics))
        for depth in sorted({view.layers for view in views}):
            _shared_layers_alike(Checker(program, diagnostics), depth)


def _first_norm_fits(check: Checker[CompleteStage]) -> None:
    depth, scheme = check.settings.layers, check.settings.share
    borrower = next((n for n in range(1, depth) if not scheme.owner("attention", n, depth)), None)
    if borrower is not None:
        message = (
            f"layer {borrower} has the attention of layer 0, whose norm first=false leaves out"
        )
        way = argument("norm", check.settings.origins["norm"], "first", "true")
        check.report("E320", message, "norm", also=("share", "the sharing is set here"), way=way)


def _lists_fit(program: Complete, check: Checker[CompleteStage]) -> None:
    layers = check.settings.layers
    for setting, value in (("heads", program.heads), ("ffn", program.ffn)):
        if isinstance(value, tuple) and len(value) != layers:
            check.report(
                "E210",
                f"{setting} has {several(len(value), 'number')} for {several(layers, 'layer')}",
                setting,
                label="one number per layer, or one for all",
                also=("layers", f"layers = {layers}"),
                help=one_for_all(program, setting, max(value)),
            )


def _map_fits(scheme: schemes.ShareMap, check: Checker[CompleteStage]) -> None:
    layers = check.settings.layers
    for part, owned in (("attention", scheme.attention), ("ffn", scheme.ffn or scheme.attention)):
        if problem := _misfit(owned, part, layers):
            label = "an owner is the layer itself or an earlier one that owns its weights"
            also = ("layers", f"layers = {layers}")
            check.report("E202", problem, "share", label=label, also=also, help="share=none")
            return


def _misfit(owned: tuple[int, ...], part: str, layers: int) -> str:
    if len(owned) != layers:
        return f"the {part} map has {len(owned)} entries for {several(layers, 'layer')}"
    for layer, owner in enumerate(owned):
        uses = f"layer {layer} of the {part} map uses layer {owner}, which"
        if owner > layer:
            return f"{uses} comes after it"
        if owned[owner] != owner:
            return f"{uses} uses layer {owned[owner]}"
    return ""


def _shared_layers_alike(check: Checker[Complete], layers: int) -> None:
    program = check.settings
    owned = schemes.owners_of(program.share, layers)
    for (part, setting), owners in zip(schemes.AXES.items(), owned, strict=True):
        widths = layer_values(getattr(program, setting), layers)
        for layer, owner in enumerate(owners):
            if widths[layer] != widths[owner]:
                check.report(
                    "E202",
                    f"layers {owner} and {layer} share their {part} but differ in {setting}: "
                    f"{widths[owner]} and {widths[layer]}",
                    setting,
                    also=("share", "the sharing is set here"),
                    help=one_for_all(program, setting, max(widths)),
                )
                break
