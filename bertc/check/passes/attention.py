"""Checks of attention and of positions that it uses."""

import math

from bertc.check.passes.settings import Checker, key_heads, layer_values, turns_pairs
from bertc.ir.fixes import Rule, argument
from bertc.ir.network.body_node import Transformer
from bertc.ir.network.generator import GeneratorNetwork
from bertc.ir.network.positions import RotaryPositions
from bertc.ir.program import Complete


def check_attention(check: Checker[Complete]) -> None:
    """Report positions that this attention cannot use, and heads and layers that it lacks."""
    if not isinstance(check.settings.body, Transformer):
        return
    program = check.settings
    check.rules(_OF_ATTENTION)
    _pairs_turn(check)
    of_kinds = {"attention": program.attention.ranges, "positions": program.positions.ranges}
    for setting, ranges in of_kinds.items():
        if ranges and ranges.problem:
            way = argument(setting, program.origins[setting], "distance", str(ranges.least))
            check.report("E350", ranges.problem, setting, way=way)
    layers = max(stage.layers for stage in program.stages)
    named: tuple[int, ...] = getattr(program.attention, "global_layers", ())
    beyond = [layer for layer in named if layer >= layers]
    if beyond:
        within = str([layer for layer in named if layer < layers])
        message = f"layer {beyond[0]} is to be global, but the layers are 0 to {layers - 1}"
        way = argument("attention", program.origins["attention"], "global_layers", within)
        check.report("E314", message, "attention", also=("layers", f"layers = {layers}"), way=way)
    _decoder_fits(check)


def _heads(program: Complete) -> int:
    """The largest number that divides the heads of every layer."""
    layers = max(stage.layers for stage in program.stages)
    return math.gcd(*layer_values(program.heads, layers))


def _count_unshared(program: Complete) -> int:
    """Heads of keys that heads of queries cannot share evenly; 0 if they can."""
    keys = key_heads(program)
    return keys if _heads(program) % keys else 0


_OF_ATTENTION: tuple[Rule[Complete], ...] = (
    Rule("E310", "positions",
         lambda p: p.positions.in_attention and not p.attention.takes_positions,
         lambda p: f"positions = {p.positions.kind} needs attention by content, but attention = "
         f"{p.attention.kind} has scores of its own for distances",
         also=("attention", "attention is set here"), help="positions=none or attention=full"),
    Rule("E312", "attention", _count_unshared,
         lambda p: f"{_count_unshared(p)} heads of keys cannot be shared evenly by {_heads(p)} of "
         "queries",
         also=("heads", "heads are set here"),
         way=lambda p: argument("attention", p.origins["attention"], "kv_heads",
                                str(math.gcd(key_heads(p), _heads(p))))),
)  # fmt: skip


def _pairs_turn(check: Checker[Complete]) -> None:
    program = check.settings
    positions, node = program.positions, program.generator
    if not isinstance(positions, RotaryPositions):
        return
    widths = {"head": program.head_dim}
    if isinstance(node, GeneratorNetwork):
        widths["generator's head"] = node.hidden // node.heads
    for whose, width in widths.items():
        if not width or turns_pairs(program, width):
            continue
        origin, turned = program.origins["positions"], positions.rotary_dims(width)
        even = f"{max(2, turned - turned % 2) / width:.4g}"
        check.report(
            "E311",
            f"rotary positions turn pairs of numbers, but the share of a {whose} is {turned} of "
            f"{width}",
            "positions",
            also=("head_dim" if program.span("head_dim") else "heads", f"head_dim = {width}"),
            help="positions=alibi",
            way=argument("positions", origin, "share", even) if width > 1 else None,
        )
        return


def _decoder_fits(check: Checker[Complete]) -> None:
    """Report a mask decoder with fewer positions than rows, or beside an order of prediction."""
    program = check.settings
    rows, origin = program.head.decoder, program.origins["head"]
    if not rows:
        return
    decoding = [s for s in program.stages if any(t.objective.states.decoded for t in s.objective)]
    longest = max(decoding, key=lambda stage: stage.seq, default=None)
    if longest and longest.seq > rows:
        message = f"the mask decoder has {rows} positions, but rows have {longest.seq} tokens"
        also = ("seq", f"seq = {longest.seq}")
        way = argument("head", origin, "decoder", str(longest.seq))
        Checker(longest, check.diagnostics).report("E395", message, "head", also=also, way=way)
    for stage in program.stages:
        terms = (term.objective for term in stage.objective)
        ordered = next((term.kind for term in terms if term.order != "none"), "")
        if ordered:
            message = f"the mask decoder predicts masked tokens, but {ordered} predicts in an order"
            also = ("objective", f"{ordered} is learned here")
            way = argument("head", origin, "decoder", "0")
            Checker(stage, check.diagnostics).report("E396", message, "head", also=also, way=way)
            return
