"""Memory: earlier tokens of a stream whose states every layer attends to (Transformer-XL)."""

from typing import Annotated, Any

from pydantic import Field

from bertc.ir.data import RUNNING
from bertc.ir.fixes import Also, Rule, Rules, span_if_written
from bertc.ir.methods.method import Method


def _reading_on(stage: Any) -> str:
    near_alone = not stage.attention.distances
    placed = stage.origins["positions"].kind != "derived" and stage.positions.kind != "none"
    changes = [
        "pack=false" * stage.pack,
        "format=stream" * (stage.format.kind not in RUNNING),
        "attention=relative" * near_alone,
        "positions=none" * (near_alone and placed),
    ]
    paired = stage.pairing or stage.translation_term
    if paired or (near_alone and "memory" in stage.own):  # a stage cannot set attention
        return "memory=0"
    return " ".join(filter(None, changes))


def _packs(stage: Any) -> bool:
    return bool(stage.pack) and not span_if_written(stage.origins["format"])


def _rows(s: Any) -> Also:
    return ("pack", "pack = true") if _packs(s) else ("format", f"format = {s.format.kind}")


class RowMemory(Method):
    """The states of ``tokens`` tokens before a row, kept from step to step."""

    tokens: Annotated[int, Field(ge=1)]

    setting = "memory"
    why_final = "what its rows remember ends with it (memory)"
    rules = Rules(rows=(
        Rule("E219", "memory", lambda s: s.format.kind not in RUNNING,
             lambda s: f"memory = {s.memory} needs rows that continue the row before, which "
             f"{'packed' if _packs(s) else s.format.kind} rows do not",
             also=_rows, help=_reading_on),
        Rule("E222", "memory", lambda s: not s.attention.distances,
             lambda s: f"memory = {s.memory} needs relative attention, but attention = "
             f"{s.attention.kind}",
             label="tokens in memory would have the positions of the row's own",
             also=("attention", "attention is set here"), help=_reading_on),
        Rule("E222", "memory",
             lambda s: s.attention.distances and s.positions.kind != "none",
             lambda s: f"memory contradicts positions = {s.positions.kind}, which count from 0 in "
             "every row",
             label="tokens in memory carry the positions of their own row",
             also=("positions", "positions are set here"),
             help=lambda s: "memory=0" if "memory" in s.own else "positions=none"),
    ))  # fmt: skip
