"""Cross-checks: settings that are valid one by one but contradict each other."""

from collections.abc import Sequence

from bertc.diagnostics import Diagnostics
from bertc.ir.changing.growth import FromOther
from bertc.ir.data import FILLED, PAIRED
from bertc.ir.network.head import POOLINGS
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.terms.heads import VocabularyHead
from bertc.ir.vocabulary import table_rows
from bertc.passes.attention import check_attention
from bertc.passes.bodies import check_body, check_table
from bertc.passes.languages import check_languages
from bertc.passes.lengths import check_lengths
from bertc.passes.running import check_running
from bertc.passes.settings.fixes import argument, fix, note, terms_written
from bertc.passes.settings.layers import layer_values
from bertc.passes.settings.stages import reads_on
from bertc.passes.terms import check_terms
from bertc.planning.plan import largest_divisor

LARGEST_MODEL = 10**15


def checks(program: Complete, diagnostics: Diagnostics) -> None:
    """Report settings that contradict each other.

    ``hidden=512 heads=10`` is E201.
    """
    _heads_divide(program, diagnostics)
    _biases_fit(program, diagnostics)
    check_attention(program, diagnostics)
    _not_absurd(program, diagnostics)
    check_languages(program, diagnostics)
    _turns(program, diagnostics)
    _clusters_fit(program, diagnostics)
    check_table(program, diagnostics)
    for stage in program.stages:
        check_body(stage, diagnostics)
        check_terms(stage, diagnostics)
        _objective_fits_format(stage, diagnostics)
        check_running(stage, diagnostics)
        _row_fits_positions(stage, program, diagnostics)
        _batch_divides(stage, diagnostics)
        check_lengths(stage, program, diagnostics)


def _heads_divide(program: Complete, diagnostics: Diagnostics) -> None:
    if program.origins["head_dim"].kind != "derived":
        return
    hidden = program.hidden
    for heads in sorted(set(_each(program.heads))):
        if hidden % heads:
            near = sorted(
                (h for h in range(1, hidden + 1) if hidden % h == 0), key=lambda h: abs(h - heads)
            )
            diagnostics.error(
                "E201",
                f"{heads} heads do not divide the width {hidden}",
                program.span("heads") or program.span("hidden"),
                label=f"{hidden} / {heads} leaves {hidden % heads}",
                notes=note(f"hidden = {hidden}", program.span("hidden")),
                help=" or ".join(f"heads={h}" for h in sorted(near[:2])),
                fix=fix(program.origins["heads"], f"heads={near[0]}"),
            )
            return


def _each(value: int | tuple[int, ...]) -> tuple[int, ...]:
    """The values of a setting that is one number, or one per layer."""
    return (value,) if isinstance(value, int) else value


def _biases_fit(program: Complete, diagnostics: Diagnostics) -> None:
    """Check that biases shared by all layers fit the query width of each."""
    attention, written = program.attention, program.origins["attention"]
    if len(set(_each(program.heads))) == 1:
        return
    if program.positions.ties_biases:
        diagnostics.error(
            "E223",
            f"layers differ in heads, but positions = {program.positions.kind} shares its biases "
            "between all layers",
            program.span("heads"),
            notes=note("positions are set here", program.span("positions")),
            help="positions=alibi",
            fix=fix(program.origins["positions"], "positions=alibi"),
        )
    if attention.ties_biases:
        diagnostics.error(
            "E223",
            f"layers differ in heads, but attention = {attention.kind} shares its biases between "
            "all layers",
            program.span("heads"),
            notes=note("attention is set here", written.span),
            **argument("attention", written, "untie", "true"),
        )


def _not_absurd(program: Complete, diagnostics: Diagnostics) -> None:
    layers = max(stage.layers for stage in program.stages)
    widths = layer_values(program.heads, layers), layer_values(program.ffn, layers)
    per_layer = sum(
        4 * program.hidden * heads * program.head_dim + 2 * program.hidden * ffn
        for heads, ffn in zip(*widths, strict=False)
    )
    size = per_layer + table_rows(program.vocab) * program.embedding
    if size > LARGEST_MODEL:
        diagnostics.error(
            "E214",
            f"this model would have about {size:.1e} parameters",
            program.span("hidden") or program.span("layers"),
            label=f"the limit is {LARGEST_MODEL:.0e}",
        )


def _clusters_fit(program: Complete, diagnostics: Diagnostics) -> None:
    table, head = program.table, program.head
    span, hidden = program.span("table"), program.hidden
    vocab, embedding = table_rows(program.vocab), program.embedding
    rule, whole = "", "table=whole" + " head=linear" * (program.origins["head"].kind != "derived")
    if table.kind != "adaptive":
        if head.kind == "adaptive":
            diagnostics.error(
                "E220",
                "head = adaptive needs the clusters of an adaptive table, but table = whole",
                program.span("head"),
                help=f"table=adaptive([{vocab // 2}]) or head=linear",
            )
        return
    objectives = (term.objective for stage in program.stages for term in stage.objective)
    own_head = (
        term.title
        for term in objectives
        if term.scored == "tokens" and not isinstance(term.head_node, VocabularyHead)
    )
    narrowest = table.clusters(vocab, embedding)[-1].width
    if list(table.cutoffs) != sorted(set(table.cutoffs)):
        problem, rule = "the cutoffs are not in ascending order", "write them in order, each once"
    elif table.cutoffs[-1] >= vocab:
        problem = f"the last cluster begins at {table.cutoffs[-1]}, but there are {vocab} tokens"
    elif not narrowest:
        problem = f"the last cluster has width 0: E = {embedding} is divided too often"
    elif embedding != hidden:
        problem = f"an adaptive table needs embedding = hidden = {hidden}, not {embedding}"
        rule = f"embedding={hidden}"
    elif table.narrows and head.kind != "adaptive":
        problem = f"head = {head.kind} needs one table, but every cluster has its own"
        rule = "head=adaptive"
    elif program.generator.kind == "network":
        problem, rule = "a generator needs one softmax, but an adaptive table has several", whole
    elif term := next(own_head, ""):
        problem, rule = f"{term} needs one softmax, but an adaptive table has several", whole
    else:
        return
    diagnostics.error("E220", problem, span, help=rule or "fewer clusters or more tokens")


def _turns(program: Complete, diagnostics: Diagnostics) -> None:
    stages, causal = program.stages, reads_on(program.stages[0].objective)
    unlike = next((s for s in stages if reads_on(s.objective) != causal), None)
    if unlike is not None and "turning" not in program.body.able:
        first = terms_written(stages[0].origins["objective"], lambda _: True)
        instead = f"objective={first}" if first else ""
        diagnostics.error(
            "E218",
            "some stages predict each next token, others read in both directions, which body = "
            f"{program.body.kind} cannot do with the same weights",
            unlike.span("objective"),
            label=f"stage {unlike.name}",
            notes=note(f"stage {stages[0].name}", stages[0].span("objective")),
            help=instead or "use clm in every stage or in none, or body=transformer",
            fix=fix(unlike.origins["objective"], instead) if instead else None,
        )


def _objective_fits_format(stage: StageSettings, diagnostics: Diagnostics) -> None:
    span, paired = stage.span("objective"), stage.format.kind in PAIRED
    asking = [t.objective.kind for t in stage.objective if t.objective.pairs != "none"]
    begin = "have one" if len(stage.parts) == 1 else "begin with other text"
    if asking and not paired:
        diagnostics.error(
            "E204",
            f"{asking[0]} classifies pairs of segments, but {stage.format.kind} rows {begin}",
            span,
            notes=note(f"format = {stage.format.kind}", stage.span("format")),
            help="format=segment-pair",
            fix=fix(stage.origins["format"], "format=segment-pair"),
        )
    _pooler_of_pairs(stage, asking, diagnostics)
    filled = stage.format.kind in FILLED and not stage.translation_term
    if stage.pack and filled and stage.memory:
        diagnostics.error(
            "E216",
            f"pack = true needs rows with room left, but {stage.format.kind} rows are always full",
            stage.span("pack"),
            notes=note(f"memory = {stage.memory}", stage.span("memory")),
            label="memory needs such rows",
            help="pack=false",
            fix=fix(stage.origins["pack"], "pack=false"),
        )
    elif stage.pack and filled:
        diagnostics.error(
            "E216",
            f"pack = true needs rows with room left, but {stage.format.kind} rows are always full",
            stage.span("pack"),
            notes=note(f"format = {stage.format.kind}", stage.span("format")),
            label="" if stage.memory else "rows of doc-sentences end with their document",
            help="pack=false" if stage.memory else "format=doc-sentences",
            fix=fix(stage.origins["pack"], "pack=false")
            if stage.memory
            else fix(stage.origins["format"], "format=doc-sentences"),
        )
    _segments_fit(stage, diagnostics)


def _pooler_of_pairs(stage: StageSettings, asking: Sequence[str], diagnostics: Diagnostics) -> None:
    if not asking:
        return
    span = stage.span("objective")
    if not stage.pooler:
        diagnostics.error(
            "E215",
            f"{asking[0]} needs the pooler, but pooler = false",
            span,
            notes=note("the pooler is switched off here", stage.span("pooler")),
            help="pooler=true",
        )
    elif POOLINGS[stage.pooler].mean != "none":
        diagnostics.error(
            "E215",
            f"{asking[0]} reads the first state of each pair, but pooler = {stage.pooler}",
            span,
            notes=note("the pooler makes one state of a whole row", stage.span("pooler")),
            help="pooler=true",
            fix=fix(stage.origins["pooler"], "pooler=true"),
        )


def _segments_fit(stage: StageSettings, diagnostics: Diagnostics) -> None:
    origin, segments, kind = stage.origins["segments"], stage.segments, stage.format.kind
    rows: str = kind
    needed = 3 if kind == "stream-pair" else 2 if kind in PAIRED else 1
    if needed == 1 and stage.translation_term:
        rows, needed = stage.translation_term, 2
    if 0 < segments < needed:
        number = {2: "two", 3: "three"}[needed]
        # Attention that compares segments needs no table of them (XLNet).
        table = [] if stage.attention.compares_segments else [f"segments={needed}"]
        ways = [*table, "segments=0"]
        diagnostics.error(
            "E211",
            f"{rows} rows have {number} segments, but segments = {segments}",
            origin.span or stage.span("format"),
            notes=note(f"format = {kind}", stage.span("format")) if origin.span else (),
            label="with segments = 0 only separators distinguish them",
            help=" or ".join(ways),
            fix=fix(origin, ways[0]),
        )


def _row_fits_positions(stage: StageSettings, program: Complete, diagnostics: Diagnostics) -> None:
    positions, seq = stage.positions, stage.seq
    room = positions.room
    if room is not None and seq > room:
        more_rows = f"positions={program.longest_seq}"
        written = stage.origins["positions"]
        # The positions of a network from init cannot be changed.
        fixed = positions.offset or isinstance(stage.init, FromOther)
        diagnostics.error(
            "E203",
            f"rows of {seq} tokens need {seq} positions, but there are {room}",
            stage.span("seq") or stage.span("positions"),
            notes=note(f"positions = {positions.rows} rows", stage.span("positions")),
            help=f"seq={room}" if fixed else more_rows,
            fix=fix(stage.origins["seq"], f"seq={room}") if fixed else fix(written, more_rows),
        )


def _batch_divides(stage: StageSettings, diagnostics: Diagnostics) -> None:
    batch, microbatch = stage.batch, stage.microbatch
    if microbatch and batch % microbatch:
        near = largest_divisor(batch, microbatch)
        diagnostics.error(
            "E208",
            f"microbatch = {microbatch} does not divide the batch of {batch}",
            stage.span("microbatch"),
            notes=note(f"batch = {batch}", stage.span("batch")),
            help=f"microbatch={near}",
        )
