"""Checks of attention and of positions that it uses."""

import math

from bertc.diagnostics import Diagnostics
from bertc.ir.network.attention_node import ContentAttention
from bertc.ir.network.body_setting import Transformer
from bertc.ir.network.generator import GeneratorNetwork
from bertc.ir.network.positions import RotaryPositions
from bertc.ir.program.complete import Complete
from bertc.passes.settings.fixes import argument, fix, note
from bertc.passes.settings.layers import layer_values
from bertc.planning.plan import largest_divisor


def check_attention(program: Complete, diagnostics: Diagnostics) -> None:
    """Report positions that this attention cannot use, and heads and layers that it lacks."""
    if not isinstance(program.body, Transformer):
        return
    _positions_used(program, diagnostics)
    _pairs_turn(program, diagnostics)
    attention = program.attention
    if isinstance(attention, ContentAttention):
        _heads_share_keys(program, attention, diagnostics)
    _ranges_left(program, diagnostics)
    _layers_there(program, diagnostics)
    _decoder_fits(program, diagnostics)


def _positions_used(program: Complete, diagnostics: Diagnostics) -> None:
    positions, attention = program.positions, program.attention
    if positions.in_attention and not attention.takes_positions:
        diagnostics.error(
            "E310",
            f"positions = {positions.kind} needs attention by content, but attention = "
            f"{attention.kind} has scores of its own for distances",
            program.span("positions"),
            notes=note("attention is set here", program.span("attention")),
            help="positions=none or attention=full",
            fix=fix(program.origins["positions"], "positions=none"),
        )


def _pairs_turn(program: Complete, diagnostics: Diagnostics) -> None:
    positions, node = program.positions, program.generator
    if not isinstance(positions, RotaryPositions):
        return
    widths = {"head": program.head_dim}
    if isinstance(node, GeneratorNetwork):
        widths["generator's head"] = node.hidden // node.heads
    for whose, width in widths.items():
        turned = positions.turned(width)
        if turned >= 2 and turned % 2 == 0:
            continue
        origin, whole = program.origins["positions"], f"{max(2, turned - turned % 2) / width:.4g}"
        diagnostics.error(
            "E311",
            f"rotary positions turn pairs of numbers, but the share of a {whose} is {turned} of "
            f"{width}",
            program.span("positions"),
            notes=note(f"head_dim = {width}", program.span("head_dim") or program.span("heads")),
            **(
                argument("positions", origin, "share", whole)
                if width > 1
                else {"help": "positions=alibi", "fix": fix(origin, "positions=alibi")}
            ),
        )
        return


def _heads_share_keys(
    program: Complete, attention: ContentAttention, diagnostics: Diagnostics
) -> None:
    layers = max(stage.layers for stage in program.stages)
    heads = math.gcd(*layer_values(program.heads, layers))
    if not attention.kv_heads or heads % attention.kv_heads == 0:
        return
    near = largest_divisor(heads, min(heads, attention.kv_heads))
    diagnostics.error(
        "E312",
        f"{attention.kv_heads} heads of keys cannot be shared evenly by {heads} of queries",
        program.span("attention"),
        notes=note("heads are set here", program.span("heads")),
        **argument("attention", program.origins["attention"], "kv_heads", str(near)),
    )


def _ranges_left(program: Complete, diagnostics: Diagnostics) -> None:
    for setting, node in (("attention", program.attention), ("positions", program.positions)):
        if (problem := node.distance_problem) is None:
            continue
        reason, least = problem
        diagnostics.error(
            "E350",
            reason,
            program.span(setting),
            **argument(setting, program.origins[setting], "distance", str(least)),
        )


def _layers_there(program: Complete, diagnostics: Diagnostics) -> None:
    layers = max(stage.layers for stage in program.stages)
    named = program.attention.named_layers
    beyond = [layer for layer in named if layer >= layers]
    if beyond:
        left = [layer for layer in named if layer < layers]
        diagnostics.error(
            "E314",
            f"layer {beyond[0]} is to be global, but the layers are 0 to {layers - 1}",
            program.span("attention"),
            notes=note(f"layers = {layers}", program.span("layers")),
            **argument("attention", program.origins["attention"], "global_layers", str(left)),
        )


def _decoder_fits(program: Complete, diagnostics: Diagnostics) -> None:
    """Report a mask decoder with fewer positions than rows, or beside an order of prediction."""
    rows, origin = program.head.decoder, program.origins["head"]
    if not rows:
        return
    decoding = [s for s in program.stages if any(t.objective.decodes for t in s.objective)]
    longest = max(decoding, key=lambda stage: stage.seq, default=None)
    if longest and longest.seq > rows:
        diagnostics.error(
            "E395",
            f"the mask decoder has {rows} positions, but rows have {longest.seq} tokens",
            program.span("head"),
            notes=note(f"seq = {longest.seq}", longest.span("seq")),
            **argument("head", origin, "decoder", str(longest.seq)),
        )
    for stage in program.stages:
        ordered = [t.objective.kind for t in stage.objective if t.objective.order != "none"]
        if ordered:
            diagnostics.error(
                "E396",
                f"the mask decoder predicts masked tokens, but {ordered[0]} predicts in an order",
                program.span("head"),
                notes=note(f"{ordered[0]} is learned here", stage.span("objective")),
                **argument("head", origin, "decoder", "0"),
            )
            return
