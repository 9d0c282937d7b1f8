"""Checks of streams of text."""

from bertc.check.passes.settings.checker import Checker
from bertc.check.passes.settings.stages import has_tasks
from bertc.ir.data import RUNNING, StreamPair
from bertc.ir.program.complete import CompleteStage
from bertc.ir.rules import Rule

SHORTEST_PAIR = 5
"""Minimum tokens of two segments: one each, a separator after each, and [CLS]."""


def check_running(check: Checker[CompleteStage]) -> None:
    """Report impossible memories and streams, and rows that cannot be part of a stream."""
    stage = check.settings
    if has_tasks(stage.objective):
        return  # their rows are examples
    of_methods = (rule for method in stage.methods for rule in method.rules.rows)
    check.rules((*of_methods, *_STREAMS))
    if isinstance(stage.format, StreamPair):
        _pair_possible(check, stage.format)


_STREAMS: tuple[Rule[CompleteStage], ...] = (
    Rule("E221", ("format", "objective"),
         lambda s: s.format.kind in RUNNING and (s.translation_term or s.mixing.kind == "batches"),
         lambda s: (f"{s.translation_term} reads pairs" if s.translation_term
                    else "mixing = batches changes the language")
         + ", but rows of a stream continue their own text",
         help="format=full-sentences"),
)  # fmt: skip


def _pair_possible(check: Checker[CompleteStage], rows: StreamPair) -> None:
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
