"""Remarks on valid settings that are likely slips."""

from bertc.diagnostics import Diagnostics, several
from bertc.ir.changing.growth import Drawn, FromGenerator
from bertc.ir.network.body_setting import Transformer
from bertc.ir.network.generator import GeneratorNetwork
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.terms.masked import MaskedTerm
from bertc.ir.terms.masking import WordUnit
from bertc.ir.vocabulary import Bytes, TokenizerFile, Words
from bertc.passes.settings.fixes import argument, note
from bertc.passes.settings.stages import has_tasks, reads_on

HEAD_WIDTH = 64
"""Head width of every release of BERT; the default number of heads is derived from it."""

HIGH_RATE = 0.1
"""Far above the rates of all shipped specs and recipes, 1e-5 to 1.76e-3."""


def remarks(program: Complete, diagnostics: Diagnostics) -> None:
    """Remark on settings that are likely slips.

    ``hidden=100`` is R101: it gives one head of 100.
    """
    if diagnostics.found:
        return
    _heads_rounded(program, diagnostics)
    _window_is_whole(program, diagnostics)
    stages = program.stages
    for stage in stages:
        _rate_is_high(stage, diagnostics)
        _idle_terms(stage, program, diagnostics)
    _tuned_from_nothing(stages[0], diagnostics)
    _words_of_docstrings(program, diagnostics)


def _heads_rounded(program: Complete, diagnostics: Diagnostics) -> None:
    hidden, heads = program.hidden, program.heads
    derived = isinstance(heads, int) and program.origins["heads"].kind == "derived"
    if derived and hidden > HEAD_WIDTH and hidden % HEAD_WIDTH:
        multiple = round(hidden / HEAD_WIDTH) * HEAD_WIDTH
        diagnostics.remark(
            "R101",
            f"hidden = {hidden} is not a multiple of {HEAD_WIDTH}, which gives "
            f"{heads} head{'s' * (heads != 1)} of width {program.head_dim} in each layer",
            program.span("hidden"),
            label="unwritten heads are derived from hidden",
            help=f"hidden={multiple}",
        )


def _window_is_whole(program: Complete, diagnostics: Diagnostics) -> None:
    reaches = [program.attention.at(layer).reach for layer in range(program.layers)]
    longest = max(program.stages, key=lambda stage: stage.seq)
    reach, seq = max((reach or 0 for reach in reaches), default=0), longest.seq
    written = program.origins["attention"].kind != "derived"  # else it came with the weights
    if written and reach >= seq - 1:
        window, rows = program.origins["attention"], longest.origins["seq"]
        here, beside = window.span, note(f"seq = {seq}", rows.span)
        if window.kind == "extends" and rows.span and rows.kind != "extends":
            here, beside = rows.span, note("the window is set here", window.span)
        diagnostics.remark(
            "R111",
            f"a window of {2 * reach} covers rows of {seq} tokens from end to end",
            here,
            label="every layer attends to whole rows",
            notes=beside,
            help=f"attention=local({max(2, seq // 2)}) or attention=full",
        )


def _rate_is_high(stage: StageSettings, diagnostics: Diagnostics) -> None:
    origin, rate = stage.origins["optimizer"], stage.optimizer.lr
    if rate >= HIGH_RATE:
        diagnostics.remark(
            "R102",
            f"lr = {rate:g} is far above every published rate",
            origin.parts.get(("lr",), origin.span),
            label="shipped specs and recipes have 1e-5 to 1.76e-3",
        )


def _tuned_from_nothing(first: StageSettings, diagnostics: Diagnostics) -> None:
    """Remark on a task that starts from random weights."""
    if has_tasks(first.objective) and isinstance(first.init, Drawn):
        layers, hidden = first.layers, first.hidden
        diagnostics.remark(
            "R103",
            "a task without init starts from random weights: "
            f"{several(layers, 'layer')} of width {hidden}",
            first.span("objective"),
            help='name a run or a model folder, as in init="runs/albert"',
        )


def _words_of_docstrings(program: Complete, diagnostics: Diagnostics) -> None:
    """Remark on a task whose vocabulary is learned from unnamed text."""
    first = program.stages[0]
    unnamed = all(
        has_tasks(stage.objective) and stage.origins["data"].kind == "default"
        for stage in program.stages
    )
    learned = not isinstance(program.vocab, Bytes | TokenizerFile)
    if unnamed and learned and isinstance(first.init, Drawn):
        diagnostics.remark(
            "R117",
            "the vocabulary of the task is learned from the docstrings of all installed packages",
            first.span("objective"),
            label="its own texts may have other words",
            help='name its texts, as in data=files("train.tsv", column="review")',
        )


def _idle_terms(stage: StageSettings, program: Complete, diagnostics: Diagnostics) -> None:
    """Remark on terms that teach the exported network little or nothing."""
    for number, term in enumerate(stage.objective):
        if masks := term.objective.masks:
            _nothing_hidden(stage, number, masks, diagnostics)
            _one_token_words(stage, number, masks, diagnostics)
        elif term.objective.predicts_masked:
            _learned_by_generator(stage, term.name, program, diagnostics)
    _without_order(stage, diagnostics)


def _nothing_hidden(
    stage: StageSettings, number: int, term: MaskedTerm, diagnostics: Diagnostics
) -> None:
    if term.replace.keep == 100:
        origin = stage.origins["objective"]
        diagnostics.remark(
            "R104",
            f"{term.kind} replaces no token, so the network can copy its input",
            origin.parts.get((number, "objective", "replace"), origin.span),
            label="percent masked, random and kept; BERT has 80/10/10",
            **argument("objective", origin, "replace", "80/10/10", (number, "objective")),
        )


def _one_token_words(
    stage: StageSettings, number: int, term: MaskedTerm, diagnostics: Diagnostics
) -> None:
    """Remark on whole-word masking if every token is a word."""
    if isinstance(term.unit, WordUnit) and isinstance(stage.vocab, Bytes | Words):
        diagnostics.remark(
            "R105",
            f"unit = word masks single tokens: with vocab = {stage.vocab.kind} each is a word",
            stage.span("objective"),
            notes=note("the vocabulary is set here", stage.span("vocab")),
            **argument(
                "objective", stage.origins["objective"], "unit", "token", (number, "objective")
            ),
        )


def _learned_by_generator(
    stage: StageSettings, name: str, program: Complete, diagnostics: Diagnostics
) -> None:
    kept = any(isinstance(each.grow, FromGenerator) for each in program.stages)
    if isinstance(stage.generator, GeneratorNetwork) and not kept:
        diagnostics.remark(
            "R106",
            f"{name} trains the generator only, which is discarded after training",
            stage.span("objective"),
            label="the encoder learns from the other terms, and from weights shared with it",
            notes=note("the generator is set here", stage.span("generator")),
        )


def _without_order(stage: StageSettings, diagnostics: Diagnostics) -> None:
    """Remark on an encoder that cannot know the order of tokens."""
    if (
        isinstance(stage.body, Transformer)
        and stage.positions.kind == "none"
        and not stage.attention.knows_distances
        and not reads_on(stage.objective)
    ):
        diagnostics.remark(
            "R107",
            "without positions this attention does not know the order of tokens: a row is a bag "
            "of words",
            stage.span("positions"),
            help=f"positions={stage.seq} or attention=relative",
        )
