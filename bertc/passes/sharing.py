"""The pass that checks a sharing scheme: its owner maps and the widths of the layers they join."""

from typing import Any, get_args

from bertc.diagnostics import Diagnostics, Note, Span
from bertc.ir.network.sharing import SharedPart, ShareGroups, ShareMap
from bertc.ir.program.written import Program
from bertc.passes.stages import StageView, stage_views


def layer_values(value: int | tuple[int, ...], layers: int) -> tuple[int, ...]:
    """One number for each layer, from one number for all or the first of a list."""
    return (value,) * layers if isinstance(value, int) else value[:layers]


def owners(scheme: Any, part: SharedPart, layers: int) -> tuple[int, ...]:
    """The owner map of a part: for each layer, the layer whose weights it uses."""
    return tuple(scheme.owner(part, layer, layers) for layer in range(layers))


def sharing(program: Program, diagnostics: Diagnostics) -> Program:
    """Refuse maps that are not total, point forward or at a borrower, or join unequal layers.

    Lists and maps are as long as the deepest stage; the others take the first of them.
    """
    views = sorted(stage_views(program), key=lambda view: int(view.value("layers")))
    flattest, deepest = views[0], views[-1]
    given, layers = program.settings["share"], deepest.value("layers")
    span, scheme = given.origin.span, given.value
    before = len(diagnostics.found)
    _lists_fit(program, deepest, diagnostics)
    match scheme:
        case ShareGroups() if scheme.groups > flattest.value("layers"):
            diagnostics.error(
                "E202",
                f"{scheme.groups} groups for {flattest.value('layers')} layers",
                given.origin.parts.get(("groups",), span),
                label="more groups than layers",
                notes=_layers_note(flattest),
                help=f"share=groups({flattest.value('layers')})",
            )
        case ShareMap():
            _map_fits(scheme, layers, span, deepest, diagnostics)
    if len(diagnostics.found) == before:
        for depth in sorted({view.value("layers") for view in views}):
            _shared_layers_alike(program, depth, diagnostics)
    return program


def _layers_note(view: StageView) -> tuple[Note, ...]:
    span = view.span("layers")
    return (Note(f"layers = {view.value('layers')}", span),) if span else ()


def _lists_fit(program: Program, deepest: StageView, diagnostics: Diagnostics) -> None:
    layers = deepest.value("layers")
    for setting in ("heads", "ffn"):
        value = program.settings[setting].value
        if isinstance(value, tuple) and len(value) != layers:
            diagnostics.error(
                "E210",
                f"{setting} has {len(value)} numbers for {layers} layers",
                program.span(setting),
                label="one number a layer, or one for all",
                notes=_layers_note(deepest),
            )


def _map_fits(
    scheme: ShareMap, layers: int, span: Span | None, deepest: StageView, diagnostics: Diagnostics
) -> None:
    for part, owned in (("attention", scheme.attention), ("ffn", scheme.ffn or scheme.attention)):
        problem = ""
        if len(owned) != layers:
            problem = f"the {part} map names {len(owned)} owners for {layers} layers"
        else:
            for layer, owner in enumerate(owned):
                if owner > layer:
                    problem = f"layer {layer} of the {part} map borrows from layer {owner} after it"
                elif owned[owner] != owner:
                    problem = (
                        f"layer {layer} of the {part} map borrows from layer {owner}, "
                        f"which borrows from layer {owned[owner]}"
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
            )
            return


def _shared_layers_alike(program: Program, layers: int, diagnostics: Diagnostics) -> None:
    settings: dict[SharedPart, str] = {"attention": "heads", "ffn": "ffn"}
    for part in get_args(SharedPart):
        setting = settings[part]
        widths = layer_values(program.settings[setting].value, layers)
        for layer, owner in enumerate(owners(program.settings["share"].value, part, layers)):
            if widths[layer] != widths[owner]:
                share_span = program.span("share")
                diagnostics.error(
                    "E202",
                    f"layers {owner} and {layer} share their {part} but differ in {setting}: "
                    f"{widths[owner]} and {widths[layer]}",
                    program.span(setting),
                    notes=(Note("the sharing is set here", share_span),) if share_span else (),
                )
                return
