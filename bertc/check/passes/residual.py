"""Checks of residual streams: what cannot be weighted sums of earlier outputs."""

from bertc.ir.changing.growth import FromLayers
from bertc.ir.program.complete import Complete
from bertc.ir.rules import Rule


def _depths(program: Complete) -> list[int]:
    """The numbers of layers of the stages, if a sum depends on them."""
    depths = sorted({stage.layers for stage in program.stages})
    return depths if program.residual.kind != "plain" and len(depths) > 1 else []


OF_STREAMS: tuple[Rule[Complete], ...] = (
    Rule("E322", ("norm", "residual"),
         lambda p: not (p.residual.adds or p.norm.residual_free),
         lambda p: f"norm = {p.norm.kind} is of the sum of a part and what it read, and with "
         f"residual = {p.residual.kind} nothing is added to attention",
         also=("residual", "residual is set here"), help="norm=pre"),
    Rule("E322", "residual",
         lambda p: p.residual.mixes_values and isinstance(p.heads, tuple) and len({*p.heads}) > 1,
         "layers differ in heads, so that their values are not as wide as those of the first",
         also=("heads", "heads are set here"), help="residual=dwa"),
    Rule("E322", "residual", _depths,
         lambda p: f"layers are added, from {_depths(p)[0]} to {_depths(p)[-1]}, but what residual "
         f"= {p.residual.kind} sums depends on their number",
         help="residual=plain"),
    Rule("E322", "residual",
         lambda p: p.residual.kind != "plain" and isinstance(p.init, FromLayers),
         lambda p: "init takes some layers of a network, but the sums of residual = "
         f"{p.residual.kind} are of all before a layer",
         also=("init", "init is set here"), help="residual=plain"),
    Rule("E322", "residual", lambda p: p.residual.kind != "plain" and p.head.decoder,
         lambda p: "a mask decoder applies the last layer to states of its own, which residual = "
         f"{p.residual.kind} has no earlier outputs for",
         also=("head", "the decoder is set here"), help="residual=plain"),
)  # fmt: skip
