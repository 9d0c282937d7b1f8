"""Checks of what is said about languages, and of objectives that read two at once."""

from bertc.diagnostics import Diagnostics, listed
from bertc.ir.data import Parallel
from bertc.ir.objective import Nsp, Sop
from bertc.ir.program import Program
from bertc.passes.fixes import fix, note
from bertc.passes.stages import StageView, stage_views


def check_languages(program: Program, diagnostics: Diagnostics) -> None:
    """Report text that no objective reads, objectives without text, and unknown languages."""
    before = len(diagnostics.found)
    for stage in stage_views(program):
        kinds = [term.objective.kind for term in stage.value("objective")]
        if "tlm" in kinds:
            _translations_possible(stage, kinds, diagnostics)
    if len(diagnostics.found) == before:
        _languages_known(program, diagnostics)


def _quoted(name: str) -> str:
    return f'"{name}"'


def _translations_possible(stage: StageView, kinds: list[str], diagnostics: Diagnostics) -> None:
    parallel = [isinstance(share.corpus, Parallel) for share in stage.value("data")]
    asking = [
        t.objective.kind for t in stage.value("objective") if isinstance(t.objective, Nsp | Sop)
    ]
    if asking:
        diagnostics.error(
            "E242",
            f"{asking[0]} asks whether two texts follow each other, and a translation does not",
            stage.span("objective"),
            label="tlm reads a text beside its translation",
            help="objective=mlm+tlm",
            fix=fix(stage.given("objective"), "objective=mlm+tlm"),
        )
    elif not any(parallel):
        diagnostics.error(
            "E240",
            "tlm reads sentences beside their translations, and the data has none",
            stage.span("objective"),
            notes=note("the text is named here", stage.span("data")),
            help='data=pairs(en="a.en", fr="a.fr")',
        )
    elif set(kinds) == {"tlm"} and not all(parallel):
        diagnostics.error(
            "E241",
            "tlm reads parallel text alone, and some of the data is text of one language",
            stage.span("data") or stage.span("objective"),
            notes=note("nothing else reads it", stage.span("objective")),
            help="objective=mlm+tlm",
            fix=fix(stage.given("objective"), "objective=mlm+tlm"),
        )


def _languages_known(program: Program, diagnostics: Diagnostics) -> None:
    known, embedded = program.settings["languages"].value, program.settings["language_embeddings"]
    repeated = sorted({name for name in known if known.count(name) > 1})
    if repeated or "" in known:
        diagnostics.error(
            "E243",
            f"languages has {listed(repeated)} twice" if repeated else "a language without a name",
            program.span("languages"),
        )
        return
    for stage in stage_views(program):
        for name in sorted({n for s in stage.value("data") for n in s.corpus.languages}):
            if name and name not in known:
                every = f"languages=[{', '.join(map(_quoted, (*known, name)))}]"
                diagnostics.error(
                    "E243",
                    f"the data has text in {name}, which is not among the languages",
                    stage.span("data"),
                    notes=note(f"languages = {listed(known)}", program.span("languages")),
                    help=every,
                    fix=fix(program.settings["languages"], every),
                )
                return
    if embedded.value and not known:
        diagnostics.error(
            "E244",
            "language_embeddings = true, and no language is named",
            embedded.origin.span,
            help='languages=["en", "fr"]',
            fix=fix(embedded, 'language_embeddings=true languages=["en", "fr"]'),
        )
