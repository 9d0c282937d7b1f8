"""Checks of languages, and of objectives that read translation pairs."""

from bertc.diagnostics import Diagnostics, listed
from bertc.ir.data import Parallel
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.program.settings import Settings
from bertc.passes.settings.fixes import fix, note, terms_written
from bertc.passes.settings.stages import has_tasks


def check_languages(program: Complete, diagnostics: Diagnostics) -> None:
    """Report text that no objective reads, objectives without text, and unknown languages."""
    before = len(diagnostics.found)
    for stage in program.stages:
        if stage.translation_term:
            _translations_possible(stage, stage.translation_term, diagnostics)
    if len(diagnostics.found) == before:
        _languages_known(program, diagnostics)
        for stage in program.stages:
            _several_to_smooth(stage, diagnostics)


def _quoted(name: str) -> str:
    return f'"{name}"'


def _translations_possible(stage: StageSettings, reader: str, diagnostics: Diagnostics) -> None:
    """Report a term that reads translations without any, and text that no term reads."""
    parallel = [isinstance(share.corpus, Parallel) for share in stage.data]
    asking = [t.objective.kind for t in stage.objective if t.objective.pairs != "none"]
    both = f"objective={_beside_mlm(stage, reader)}"
    if asking:
        diagnostics.error(
            "E242",
            f"{asking[0]} classifies consecutive segments, but {reader} reads translations",
            stage.span("objective"),
            label="the two segments of a row are translations",
            help=both,
            fix=fix(stage.origins["objective"], both),
        )
    elif not any(parallel):
        diagnostics.error(
            "E240",
            f"{reader} needs parallel text, but the data has none",
            stage.span("objective"),
            notes=note("the text is named here", stage.span("data")),
            help='data=pairs(en="a.en", fr="a.fr")',
        )
    elif all(t.objective.translations for t in stage.objective) and not all(parallel):
        diagnostics.error(
            "E241",
            f"no objective reads the monolingual part of the data: {reader} reads only pairs",
            stage.span("data") or stage.span("objective"),
            notes=note(f"{reader} is the only objective", stage.span("objective")),
            help=both,
            fix=fix(stage.origins["objective"], both),
        )


def _beside_mlm(stage: StageSettings, reader: str) -> str:
    """The objective as written, without pair classification and with mlm."""
    terms = [term.objective for term in stage.objective]
    kept = terms_written(stage.origins["objective"], lambda i: terms[i].pairs == "none") or reader
    masked = any(term.masks and not term.translations for term in terms)
    return kept if masked else f"mlm + {kept}"


def _languages_known(program: Complete, diagnostics: Diagnostics) -> None:
    known, embedded = program.languages, program.origins["language_embeddings"]
    repeated = sorted({name for name in known if known.count(name) > 1})
    if repeated or "" in known:
        diagnostics.error(
            "E243",
            f"languages has {listed(repeated)} twice"
            if repeated
            else "languages has an empty name",
            program.span("languages"),
        )
        return
    for stage in program.stages:
        for name in sorted({n for s in stage.data for n in s.corpus.languages}):
            if name and name not in known:
                every = f"languages=[{', '.join(map(_quoted, (*known, name)))}]"
                diagnostics.error(
                    "E243",
                    f"the data has text in {name}, which languages does not list",
                    stage.span("data"),
                    notes=note(f"languages = {listed(known)}", program.span("languages")),
                    help=every,
                    fix=fix(program.origins["languages"], every),
                )
                return
    if program.language_embeddings and not known:
        diagnostics.error(
            "E244",
            "language_embeddings = true, but no language is named",
            embedded.span,
            help='languages=["en", "fr"]',
            fix=fix(embedded, 'language_embeddings=true languages=["en", "fr"]'),
        )


def _several_to_smooth(stage: StageSettings, diagnostics: Diagnostics) -> None:
    """Check that the data has several languages if ``smoothing`` is written."""
    smoothing, data = stage.origins["smoothing"], stage.origins["data"]
    named = {name for share in stage.data for name in share.corpus.languages}
    # A base's smoothing is about its own data, and not about data given by --set.
    about_this_data = smoothing.kind == "set" or (smoothing.kind, data.kind) == 2 * ("written",)
    if (
        about_this_data
        and stage.data != Settings.model_fields["data"].default
        and stage.smoothing != 1
        and len(named) < 2
        and not has_tasks(stage.objective)
    ):
        diagnostics.error(
            "E245",
            f"smoothing = {stage.smoothing:g} changes the frequency of languages, but the data "
            + (f"has one, {listed(named)}" if any(named) else "names none"),
            smoothing.span,
            notes=note("the text is named here", data.span),
            label='files("sw.txt", language="sw") is text of a language',
            help="smoothing=1",
            fix=fix(smoothing, "smoothing=1"),
        )
