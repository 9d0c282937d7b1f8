"""Remarks on what is trained and teaches little: nothing hidden, no order, a head thrown away."""

from bertc.diagnostics import Diagnostics
from bertc.ir.data import Bytes, Words
from bertc.ir.generator import GeneratorNetwork
from bertc.ir.growth import FromGenerator
from bertc.ir.objective import Masked, Sbo, WordUnit
from bertc.passes.fixes import argument, note
from bertc.passes.stages import StageView, reads_on, stage_views


def remark_idle(stage: StageView, diagnostics: Diagnostics) -> None:
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
