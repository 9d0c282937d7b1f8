"""The pass that remarks on what stands as it is written, and is likely not meant."""

from bertc.diagnostics import Diagnostics
from bertc.ir.data import Bytes, Words
from bertc.ir.learning.objective import Sbo
from bertc.ir.network.generator import GeneratorNetwork
from bertc.ir.network.growth import Drawn, FromGenerator
from bertc.ir.program.written import Program
from bertc.ir.terms.masked import Masked
from bertc.ir.terms.masking import WordUnit
from bertc.passes.fixes import argument, note
from bertc.passes.stages import StageView, has_tasks, reads_on, stage_views

HEAD_WIDTH = 64
"""The width of a head in every release of BERT, and what open ``heads`` are derived for."""

HIGH_RATE = 0.1
"""Far above the rates of all shipped specs and recipes, which are 1e-5 to 1.76e-3."""


def remarks(program: Program, diagnostics: Diagnostics) -> Program:
    """Remark on settings that are likely slips; the program is unchanged.

    ``hidden=100`` gives one head of 100, ``lr=3`` is a rate that was never meant.
    """
    if diagnostics.found:
        return program
    _heads_rounded(program, diagnostics)
    stages = stage_views(program)
    for stage in stages:
        _rate_is_high(stage, diagnostics)
        _idle_terms(stage, diagnostics)
    _tuned_from_nothing(stages[0], diagnostics)
    return program


def _heads_rounded(program: Program, diagnostics: Diagnostics) -> None:
    hidden, heads = program.settings["hidden"], program.settings["heads"]
    if heads.origin.kind == "derived" and hidden.value > HEAD_WIDTH and hidden.value % HEAD_WIDTH:
        width = program.settings["head_dim"].value
        multiple = round(hidden.value / HEAD_WIDTH) * HEAD_WIDTH
        diagnostics.remark(
            "R101",
            f"hidden = {hidden.value} is no multiple of {HEAD_WIDTH}, which gives "
            f"{heads.value} head{'s' * (heads.value > 1)} of width {width} in each layer",
            hidden.origin.span,
            label="heads follow from hidden where they are not written",
            help=f"hidden={multiple}",
        )


def _rate_is_high(stage: StageView, diagnostics: Diagnostics) -> None:
    given = stage.given("optimizer")
    if given is not None and given.value.lr >= HIGH_RATE:
        diagnostics.remark(
            "R102",
            f"lr = {given.value.lr:g} is far above every published rate",
            given.origin.parts.get(("lr",), given.origin.span),
            label="those of shipped specs and recipes lie between 1e-5 and 1.76e-3",
        )


def _tuned_from_nothing(first: StageView, diagnostics: Diagnostics) -> None:
    """Whether a task is the first thing that a network learns."""
    if has_tasks(first.value("objective")) and isinstance(first.value("init"), Drawn):
        layers, hidden = first.value("layers"), first.value("hidden")
        diagnostics.remark(
            "R103",
            f"a task without init is learned from nothing: {layers} layers of {hidden} begin with "
            "random weights",
            first.span("objective"),
            help='name a run or a model folder to begin from, as in init="runs/albert"',
        )


def _idle_terms(stage: StageView, diagnostics: Diagnostics) -> None:
    """Remark on terms from which the network that is kept learns little or nothing."""
    for number, term in enumerate(stage.value("objective")):
        if isinstance(term.objective, Masked):
            _nothing_hidden(stage, number, term.objective, diagnostics)
            _one_token_words(stage, number, term.objective, diagnostics)
        elif isinstance(term.objective, Sbo):
            _learned_by_generator(stage, diagnostics)
    _without_order(stage, diagnostics)


def _nothing_hidden(stage: StageView, number: int, term: Masked, diagnostics: Diagnostics) -> None:
    if term.replace.keep == 100:
        given = stage.given("objective")
        parts = given.origin.parts if given else {}
        diagnostics.remark(
            "R104",
            f"{term.kind} predicts tokens that all stand there as they are, so copying is enough",
            parts.get((number, "objective", "replace"), stage.span("objective")),
            label="masked, random and kept in percent; BERT has 80/10/10",
            **argument("objective", given, "replace", "80/10/10", (number, "objective")),
        )


def _one_token_words(stage: StageView, number: int, term: Masked, diagnostics: Diagnostics) -> None:
    """Whether whole words are drawn where every token is one."""
    vocab = stage.program.settings["vocab"]
    if isinstance(term.unit, WordUnit) and isinstance(vocab.value, Bytes | Words):
        diagnostics.remark(
            "R105",
            f"unit = word draws single tokens: with vocab = {vocab.value.kind} each is a word",
            stage.span("objective"),
            notes=note("the vocabulary is set here", vocab.origin.span),
            **argument(
                "objective", stage.given("objective"), "unit", "token", (number, "objective")
            ),
        )


def _learned_by_generator(stage: StageView, diagnostics: Diagnostics) -> None:
    generator, stages = stage.program.settings["generator"], stage_views(stage.program)
    kept = any(isinstance(each.value("grow"), FromGenerator) for each in stages)
    if isinstance(generator.value, GeneratorNetwork) and not kept:
        diagnostics.remark(
            "R106",
            "sbo is learned by the generator, which predicts what is masked and is thrown away",
            stage.span("objective"),
            label="the encoder learns from rtd alone, and from what it shares with the generator",
            notes=note("the generator is set here", generator.origin.span),
        )


def _without_order(stage: StageView, diagnostics: Diagnostics) -> None:
    """Whether the encoder cannot know in which order tokens stand."""
    settings, terms = stage.program.settings, stage.value("objective")
    positions = settings["positions"]
    if (
        positions.value.kind == "none"
        and not settings["attention"].value.knows_distances
        and not reads_on(terms)
    ):
        diagnostics.remark(
            "R107",
            "without positions full attention does not know the order of tokens: a row is a bag "
            "of words",
            positions.origin.span,
            help=f"positions={stage.value('seq')} or attention=relative",
        )
