"""Cross-checks: settings that are valid one by one but contradict each other."""

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes.attention import check_attention
from bertc.check.passes.dimensions import OF_TABLES, check_body
from bertc.check.passes.lengths import check_kept, check_lengths, check_sizes
from bertc.check.passes.settings import Checker, fitting_heads, key_heads
from bertc.check.passes.terms import check_languages, check_terms
from bertc.cost.planning.plan import largest_divisor
from bertc.ir.changing.growth import OF_INIT, FromLayers, FromOther
from bertc.ir.data import FILLED, PAIRED, RUNNING, Files, StreamPair
from bertc.ir.fixes import Also, Rule, argument
from bertc.ir.network.head import POOLINGS
from bertc.ir.network.positions import SHORTEST
from bertc.ir.program import Complete, CompleteStage
from bertc.ir.terms.heads import VocabularyHead
from bertc.ir.vocabulary import Extended, OfText, table_rows


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
    Rule("E322", "residual", _depths,
         lambda p: f"layers are added, from {_depths(p)[0]} to {_depths(p)[-1]}, but what residual "
         f"= {p.residual.kind} sums may depend on their number",
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


def checks(program: Complete, diagnostics: Diagnostics) -> None:
    """Report settings that contradict each other.

    ``hidden=512 heads=10`` is E201.
    """
    run = Checker(program, diagnostics)
    run.rules(_OF_HEADS)
    check_attention(run)
    run.rules(OF_STREAMS)
    check_languages(program, diagnostics)
    check_kept(program, diagnostics)
    check_sizes(program, diagnostics)
    _clusters_fit(run)
    run.rules(OF_TABLES)
    for stage in program.stages:
        check = Checker(stage, diagnostics)
        check_body(check)
        check_terms(check)
        check.rules(_OF_STAGES)
        if not stage.tasks:  # whose rows are examples
            check.rules(rule for method in stage.methods for rule in method.rules.rows)
            if isinstance(stage.format, StreamPair):
                _pair_possible(check, stage.format)
        _row_fits_positions(check, program)
        check_lengths(check, program)


def _values(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else value


def _find_uneven(program: Complete) -> int:
    """The fewest heads of a layer that do not divide the width; 0 if all do."""
    origin = program.origins["head_dim"]
    derived = origin.kind == "derived" and origin.source != OF_INIT  # pruned ones keep their width
    heads = sorted(heads for heads in _values(program.heads) if program.hidden % heads)
    return heads[0] if derived and heads else 0


_OF_HEADS: tuple[Rule[Complete], ...] = (
    Rule("E201", ("heads", "hidden"), _find_uneven,
         lambda p: f"{_find_uneven(p)} heads do not divide the width {p.hidden}",
         label=lambda p: f"{p.hidden} / {_find_uneven(p)} leaves {p.hidden % _find_uneven(p)}",
         also=lambda p: ("hidden", f"hidden = {p.hidden}"),
         help=lambda p: " or ".join(f"heads={number}" for number in sorted(
             fitting_heads(p, _find_uneven(p), p.hidden, key_heads(p))[:2]))),
    Rule("E223", "heads", lambda p: len(set(_values(p.heads))) > 1 and p.positions.ties_biases,
         lambda p: f"layers differ in heads, but positions = {p.positions.kind} shares its biases "
         "between all layers",
         also=("positions", "positions are set here"), help="positions=alibi"),
    Rule("E223", "heads", lambda p: len(set(_values(p.heads))) > 1 and p.attention.ties_biases,
         lambda p: f"layers differ in heads, but attention = {p.attention.kind} shares its biases "
         "between all layers",
         also=("attention", "attention is set here"),
         way=lambda p: argument("attention", p.origins["attention"], "untie", "true")),
)  # fmt: skip


def _clusters_fit(check: Checker[Complete]) -> None:
    program = check.settings
    table, head, hidden = program.table, program.head, program.hidden
    vocab, embedding = table_rows(program.vocab), program.embedding
    rule, plain = "", "table=whole" + " head=linear" * (program.origins["head"].kind != "derived")
    if table.kind != "adaptive":
        if head.kind == "adaptive":
            message = "head = adaptive needs the clusters of an adaptive table, but table = whole"
            check.report(
                "E220", message, "head", help=f"table=adaptive([{vocab // 2}]) or head=linear"
            )
        return
    objectives = (term.objective for stage in program.stages for term in stage.objective)
    own_head = (
        term.title
        for term in objectives
        if term.baseline == "token frequencies" and not isinstance(term.head_node, VocabularyHead)
    )
    narrowest = table.clusters(vocab, embedding)[-1].width
    if [*table.cutoffs, vocab] != sorted({*table.cutoffs, vocab}):
        problem = f"the cutoffs are to ascend, each once, and to be below the {vocab} tokens"
    elif not narrowest:
        problem = f"the last cluster has width 0: E = {embedding} is divided too often"
    elif embedding != hidden:
        problem = f"an adaptive table needs embedding = hidden = {hidden}, not {embedding}"
        rule = f"embedding={hidden}"
    elif table.narrows and head.kind != "adaptive":
        problem = f"head = {head.kind} needs one table, but every cluster has its own"
        rule = "head=adaptive"
    elif program.generator.kind == "network":
        problem, rule = "a generator needs one softmax, but an adaptive table has several", plain
    elif term := next(own_head, ""):
        problem, rule = f"{term} needs one softmax, but an adaptive table has several", plain
    else:
        return
    check.report("E220", problem, "table", help=rule or "fewer clusters or more tokens")


def _format(stage: CompleteStage) -> Also:
    return "format", f"format = {stage.format.kind}"


def _segments(stage: CompleteStage) -> int:
    if stage.format.kind == "stream-pair":
        return 3
    return 2 if stage.format.kind in PAIRED or stage.translation_term else 1


def _rows(stage: CompleteStage) -> str:
    """The format, or the term that makes rows of two segments."""
    by_term = stage.format.kind not in (*PAIRED, "stream-pair") and stage.translation_term
    return by_term or stage.format.kind


_OF_STAGES: tuple[Rule[CompleteStage], ...] = (
    Rule("E204", "objective", lambda s: s.pairing and s.format.kind not in PAIRED,
         lambda s: f"{s.pairing} classifies pairs of segments, but {s.format.kind} rows "
         + ("have one" if len(s.format.parts(s.seq)) == 1 else "begin with other text"),
         also=_format, help="format=segment-pair"),
    Rule("E204", "objective", lambda s: s.pairing and not s.pooler,
         lambda s: f"{s.pairing} needs the pooler, but pooler = false",
         also=("pooler", "the pooler is switched off here"), help="pooler=true"),
    Rule("E204", "objective",
         lambda s: s.pairing and s.pooler and POOLINGS[s.pooler].mean != "none",
         lambda s: f"{s.pairing} reads the first state of each pair, but pooler = {s.pooler}",
         also=("pooler", "the pooler makes one state of a whole row"), help="pooler=true"),
    Rule("E216", "pack", lambda s: s.pack and s.format.kind in FILLED and not s.translation_term,
         lambda s: f"pack = true needs rows with room left, but {s.format.kind} rows are always "
         "full",
         label=lambda s: "memory needs such rows" if s.memory
         else "rows of doc-sentences end with their document",
         also=lambda s: ("memory", f"memory = {s.memory}") if s.memory else _format(s),
         help=lambda s: "pack=false" if s.memory else "format=doc-sentences"),
    Rule("E211", ("segments", "format"), lambda s: 0 < s.segments < _segments(s),
         lambda s: f"{_rows(s)} rows have "
         f"{ {2: 'two', 3: 'three'}[_segments(s)]} segments, but segments = {s.segments}",
         label="with segments = 0 only separators distinguish them",
         also=lambda s: _format(s) if s.span("segments") else None,
         # Attention that compares segments needs no table of them (XLNet).
         help=lambda s: "segments=0" if s.attention.compares_segments
         else f"segments={_segments(s)} or segments=0"),
    Rule("E221", ("format", "objective"),
         lambda s: not s.tasks and s.format.kind in RUNNING
         and (s.translation_term or s.mixing.kind == "batches"),
         lambda s: (f"{s.translation_term} reads pairs" if s.translation_term
                    else "mixing = batches changes the language")
         + ", but rows of a stream continue their own text",
         help="format=full-sentences"),
    Rule("E411", ("data", "vocab"),
         lambda s: isinstance(s.vocab, OfText | Extended)
         and any(isinstance(share.corpus, Files) and share.corpus.ids for share in s.data),
         lambda s: f"data has token ids, and vocab = {s.vocab.kind} is made of text",
         also=("vocab", "the vocabulary is set here"),
         help="the vocabulary that they are of, as in vocab=\"bert/vocab.txt\""),
    Rule("E208", "microbatch", lambda s: s.microbatch and s.batch % s.microbatch,
         lambda s: f"microbatch = {s.microbatch} does not divide the batch of {s.batch}",
         also=lambda s: ("batch", f"batch = {s.batch}"),
         help=lambda s: f"microbatch={largest_divisor(s.batch, s.microbatch)}"),
)  # fmt: skip


SHORTEST_PAIR = 5
"""Minimum tokens of two segments: one each, a separator after each, and [CLS]."""


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


def _row_fits_positions(check: Checker[CompleteStage], program: Complete) -> None:
    stage = check.settings
    positions, seq, room = stage.positions, stage.seq, stage.positions.room
    if room is not None and seq > room:
        # The positions of a network from init cannot be changed.
        fixed = isinstance(stage.init, FromOther) or (positions.offset and room >= SHORTEST)
        longer = str(program.longest_seq)
        if positions.offset:
            rows = positions.offset + program.longest_seq
            longer = f"{positions.kind}({rows}, offset={positions.offset})"
        message = f"rows of {seq} tokens need {seq} positions, but there are {max(0, room)}"
        also = ("positions", f"positions = {positions.rows} rows")
        help = f"seq={room}" if fixed else f"positions={longer}"
        check.report("E203", message, ("seq", "positions"), also=also, help=help)
