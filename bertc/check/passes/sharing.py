"""Checks of sharing: owner maps, and widths of the layers that share."""

from bertc.base.diagnostics import Diagnostics, Note, Span, several
from bertc.check.passes.settings.fixes import argument, note
from bertc.check.passes.settings.layers import layer_values, owners
from bertc.ir.network.body_setting import Transformer
from bertc.ir.network.sharing import SharedPart, ShareGroups, ShareMap
from bertc.ir.program.complete import Complete, StageSettings


def sharing(program: Complete, diagnostics: Diagnostics) -> None:
    """Report maps that are not total, name a later or borrowing owner, or join unequal layers.

    ``layers=4 share=groups(5)`` is E202. Lists and maps are as long as the deepest stage; other
    stages use their first entries.
    """
    if not isinstance(program.body, Transformer):
        return
    views = sorted(program.stages, key=lambda view: view.whole)
    flattest, deepest = views[0], views[-1]
    origin, layers, scheme = program.origins["share"], deepest.whole, program.share
    before = len(diagnostics.found)
    _lists_fit(program, deepest, diagnostics)
    match scheme:
        case ShareGroups() if scheme.groups > flattest.whole:
            diagnostics.error(
                "E202",
                f"{scheme.groups} groups for {several(flattest.whole, 'layer')}",
                origin.parts.get(("groups",), origin.span),
                label="more groups than layers",
                notes=_layers_note(flattest),
                help=f"share=groups({flattest.whole})",
            )
        case ShareMap():
            _map_fits(scheme, layers, origin.span, deepest, diagnostics)
    _first_norm_fits(program, deepest, diagnostics)
    if len(diagnostics.found) == before:
        for depth in sorted({view.whole for view in views}):
            _shared_layers_alike(program, depth, diagnostics)


def _first_norm_fits(program: Complete, deepest: StageSettings, diagnostics: Diagnostics) -> None:
    if not program.norm.skips_first:
        return
    depth = deepest.layers
    scheme = program.share
    borrower = next((n for n in range(1, depth) if not scheme.owner("attention", n, depth)), None)
    if borrower is not None:
        diagnostics.error(
            "E320",
            f"layer {borrower} has the attention of layer 0, whose norm first=false leaves out",
            program.span("norm"),
            notes=note("the sharing is set here", program.span("share")),
            **argument("norm", program.origins["norm"], "first", "true"),
        )


def _layers_note(view: StageSettings) -> tuple[Note, ...]:
    span = view.span("layers")
    return (Note(f"layers = {view.whole}", span),) if span else ()


def _lists_fit(program: Complete, deepest: StageSettings, diagnostics: Diagnostics) -> None:
    layers = deepest.whole
    for setting, value in (("heads", program.heads), ("ffn", program.ffn)):
        if isinstance(value, tuple) and len(value) != layers:
            diagnostics.error(
                "E210",
                f"{setting} has {several(len(value), 'number')} for {several(layers, 'layer')}",
                program.span(setting),
                label="one number per layer, or one for all",
                notes=_layers_note(deepest),
                help=f"{setting}={max(value)}",
            )


def _map_fits(
    scheme: ShareMap,
    layers: int,
    span: Span | None,
    deepest: StageSettings,
    diagnostics: Diagnostics,
) -> None:
    for part, owned in (("attention", scheme.attention), ("ffn", scheme.ffn or scheme.attention)):
        problem = ""
        if len(owned) != layers:
            problem = f"the {part} map has {len(owned)} entries for {several(layers, 'layer')}"
        else:
            for layer, owner in enumerate(owned):
                if owner > layer:
                    problem = (
                        f"layer {layer} of the {part} map uses layer {owner}, which comes after it"
                    )
                elif owned[owner] != owner:
                    problem = (
                        f"layer {layer} of the {part} map uses layer {owner}, "
                        f"which uses layer {owned[owner]}"
                    )
                if problem:
                    break
        if problem:
            diagnostics.error(
                "E202",
                problem,
                span,
                label="an owner is the layer itself or an earlier one that owns its weights",
                notes=_layers_note(deepest),
                help="share=none",
            )
            return


def _shared_layers_alike(program: Complete, layers: int, diagnostics: Diagnostics) -> None:
    parts: tuple[tuple[SharedPart, str, int | tuple[int, ...]], ...] = (
        ("attention", "heads", program.heads),
        ("ffn", "ffn", program.ffn),
    )
    for part, setting, value in parts:
        widths = layer_values(value, layers)
        for layer, owner in enumerate(owners(program.share, part, layers)):
            if widths[layer] != widths[owner]:
                share_span = program.span("share")
                diagnostics.error(
                    "E202",
                    f"layers {owner} and {layer} share their {part} but differ in {setting}: "
                    f"{widths[owner]} and {widths[layer]}",
                    program.span(setting),
                    notes=(Note("the sharing is set here", share_span),) if share_span else (),
                    help=f"{setting}={max(widths)}",
                )
                break
