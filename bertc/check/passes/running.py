"""Checks of streams of text and of memory."""

from bertc.check.passes.settings.checker import Checker
from bertc.check.passes.settings.stages import asks_about_pairs, has_tasks
from bertc.ir.data import RUNNING, StreamPair
from bertc.ir.fixes import written
from bertc.ir.program.complete import StageSettings
from bertc.ir.rules import Also, Rule

SHORTEST_PAIR = 5
"""Minimum tokens of two segments: one each, a separator after each, and [CLS]."""


def check_running(check: Checker[StageSettings]) -> None:
    """Report impossible memories and streams, and rows that cannot be part of a stream."""
    stage = check.settings
    if has_tasks(stage.objective):
        return  # their rows are examples
    check.rules(_STREAMS)
    if isinstance(stage.format, StreamPair):
        _pair_possible(check, stage.format)


def _reading_on(stage: StageSettings) -> str:
    near_alone = not stage.attention.distances
    placed = stage.origins["positions"].kind != "derived" and stage.positions.kind != "none"
    others = [
        "pack=false" * stage.pack,
        "format=stream" * (stage.format.kind not in RUNNING),
        "attention=relative" * near_alone,
        "positions=none" * (near_alone and placed),
    ]
    paired = asks_about_pairs(stage.objective) or stage.translation_term
    if paired or (near_alone and "memory" in stage.own):  # a stage cannot set attention
        return "memory=0"
    return " ".join(filter(None, others))


def _packed(stage: StageSettings) -> bool:
    return bool(stage.pack) and not written(stage.origins["format"])


def _rows(s: StageSettings) -> Also:
    return ("pack", "pack = true") if _packed(s) else ("format", f"format = {s.format.kind}")


_STREAMS: tuple[Rule[StageSettings], ...] = (
    Rule("E219", "memory", lambda s: s.memory and s.format.kind not in RUNNING,
         lambda s: f"memory = {s.memory} needs rows that continue the row before, which "
         f"{'packed' if _packed(s) else s.format.kind} rows do not",
         also=_rows, help=_reading_on),
    Rule("E222", "memory", lambda s: s.memory and not s.attention.distances,
         lambda s: f"memory = {s.memory} needs relative attention, but attention = "
         f"{s.attention.kind}",
         label="tokens in memory would have the positions of the row's own",
         also=("attention", "attention is set here"), help=_reading_on),
    Rule("E222", "memory",
         lambda s: s.memory and s.attention.distances and s.positions.kind != "none",
         lambda s: f"memory contradicts positions = {s.positions.kind}, which count from 0 in "
         "every row",
         label="tokens in memory carry the positions of their own row",
         also=("positions", "positions are set here"),
         help=lambda s: "memory=0" if "memory" in s.own else "positions=none"),
    Rule("E221", ("format", "objective"),
         lambda s: s.format.kind in RUNNING and (s.translation_term or s.mixing.kind == "batches"),
         lambda s: (f"{s.translation_term} reads pairs" if s.translation_term
                    else "mixing = batches changes the language")
         + ", but rows of a stream continue their own text",
         help="format=full-sentences"),
)  # fmt: skip


def _pair_possible(check: Checker[StageSettings], rows: StreamPair) -> None:
    stage = check.settings
    seq = stage.seq
    reused, rest = rows.parts(seq)
    if rest < SHORTEST_PAIR:
        half = max(1, min(seq // 2, seq - SHORTEST_PAIR))
        check.report(
            "E224",
            f"rows of {seq} tokens, {reused} of them reused, have no room for two segments",
            ("format", "seq"),
            label=f"{max(rest, 0)} are left, at least {SHORTEST_PAIR} are needed",
            also=("seq", f"seq = {seq}"),
            help=f"format=stream-pair(reuse={half}{', both_ways=true' * rows.both_ways})",
        )
    if rows.both_ways and not (stage.attention.distances and stage.attention.distances.backward):
        relative = "attention=relative" + " positions=none" * stage.positions.in_attention
        check.report(
            "E222",
            f"both_ways=true needs relative attention, but attention = {stage.attention.kind}",
            "format",
            label="distances are negated in reversed rows",
            also=("attention", "attention is set here"),
            help=f"format=stream-pair(reuse={rows.reuse})" if "format" in stage.own else relative,
        )
    ahead = next((term.name for term in stage.objective if term.objective.order == "none"), "")
    if stage.memory and ahead:
        check.report(
            "E226",
            f"memory contains the answers of {ahead}: tokens that the next row predicts",
            "memory",
            label="this row's first segment is read again in the next",
            also=("format", f"format = {rows.kind}"),
            help="objective=plm or memory=0",
        )
