"""Checks of languages, and of objectives that read translation pairs."""

from bertc.base.diagnostics import Diagnostics, listed
from bertc.check.passes.settings import Checker
from bertc.ir.data import Parallel
from bertc.ir.fixes import Rule, terms_written
from bertc.ir.program.complete import Complete, CompleteStage
from bertc.ir.program.settings import Settings
from bertc.ir.terms.node import translates


def check_languages(program: Complete, diagnostics: Diagnostics) -> None:
    """Report text that no objective reads, objectives without text, and unknown languages."""
    missing = Diagnostics()  # of this program, not of another point that has the same mistakes
    for stage in program.stages:
        if stage.translation_term:
            Checker(stage, missing).rules(_OF_TRANSLATIONS)
    diagnostics.add(missing)
    if not missing.found:
        _languages_known(program, diagnostics)
        for stage in program.stages:
            Checker(stage, diagnostics).rules(_OF_SMOOTHING)


def _parallel(stage: CompleteStage) -> list[bool]:
    return [isinstance(share.corpus, Parallel) for share in stage.data]


def _with_mlm(stage: CompleteStage) -> str:
    terms = [term.objective for term in stage.objective]
    unpaired = (
        terms_written(stage.origins["objective"], lambda i: terms[i].pairs == "none")
        or stage.translation_term
    )
    masked = any(term.masks and not term.masks.translations for term in terms)
    return f"objective={unpaired if masked else f'mlm + {unpaired}'}"


def _languages(stage: CompleteStage) -> set[str]:
    return {name for share in stage.data for name in share.corpus.languages}


def _about_this_data(stage: CompleteStage) -> bool:
    """True of a written smoothing; that of a base is not about data given by --set."""
    smoothing, data = stage.origins["smoothing"], stage.origins["data"]
    return smoothing.kind == "set" or (smoothing.kind, data.kind) == 2 * ("written",)


_OF_TRANSLATIONS: tuple[Rule[CompleteStage], ...] = (
    Rule("E242", "objective", lambda s: s.pairing,
         lambda s: f"{s.pairing} classifies consecutive segments, but {s.translation_term} reads "
         "translations",
         label="the two segments of a row are translations", help=_with_mlm),
    Rule("E240", "objective", lambda s: not s.pairing and not any(_parallel(s)),
         lambda s: f"{s.translation_term} needs parallel text, but the data has none",
         also=("data", "the text is named here"), help='data=pairs(en="a.en", fr="a.fr")'),
    Rule("E241", ("data", "objective"),
         lambda s: not s.pairing and any(_parallel(s)) and not all(_parallel(s))
         and all(translates(term.objective) for term in s.objective),
         lambda s: "no objective reads the monolingual part of the data: "
         f"{s.translation_term} reads only pairs",
         also=lambda s: ("objective", f"{s.translation_term} is the only objective"),
         help=_with_mlm),
)  # fmt: skip
_OF_SMOOTHING: tuple[Rule[CompleteStage], ...] = (
    Rule("E245", "smoothing",
         lambda s: _about_this_data(s) and s.data != Settings.model_fields["data"].default
         and s.smoothing != 1 and len(_languages(s)) < 2 and not s.tasks,
         lambda s: f"smoothing = {s.smoothing:g} changes the frequency of languages, but the data "
         + (f"has one, {listed(_languages(s))}" if any(_languages(s)) else "names none"),
         also=("data", "the text is named here"),
         label='files("sw.txt", language="sw") is text of a language', help="smoothing=1"),
)  # fmt: skip


def _languages_known(program: Complete, diagnostics: Diagnostics) -> None:
    known, check = program.languages, Checker(program, diagnostics)
    for stage in program.stages:
        for name in sorted(_languages(stage)):
            if name and name not in known:
                quoted = (f'"{language}"' for language in (*known, name))
                says = f"the data has text in {name}, which languages does not list"
                also = ("languages", f"languages = {listed(known)}")
                help = f"languages=[{', '.join(quoted)}]"
                check.report("E243", says, stage.span("data"), also=also, help=help)
                return
    if program.language_embeddings and not known:
        message = "language_embeddings = true, but no language is named"
        check.report("E244", message, "language_embeddings", help='languages=["en", "fr"]')
