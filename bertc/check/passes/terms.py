"""Checks of the terms of an objective: compatible ones, and blocks that fill the row.

Those of languages are here too, and of objectives that read translation pairs.
"""

import math

from bertc.base.diagnostics import Diagnostics, listed
from bertc.check.passes.settings import Checker, reads_on
from bertc.cost.planning.plan import largest_divisor
from bertc.ir.data import Parallel
from bertc.ir.fixes import Rule, argument, terms_written
from bertc.ir.program import Complete, CompleteStage, Settings
from bertc.ir.terms.node import translates


def check_terms(check: Checker[CompleteStage]) -> None:
    """Report terms that cannot be combined, or lack another that they need."""
    terms = [term.objective for term in check.settings.objective]
    kinds = [term.title for term in terms]
    for kind in sorted({kind for kind in kinds if kinds.count(kind) > 1}):
        problem = f"the objective has {kind} {kinds.count(kind)} times"
        index = len(kinds) - 1 - kinds[::-1].index(kind)
        named = "name" in type(terms[index]).model_fields
        origin, place = check.settings.origins["objective"], (index, "objective")
        label = "each kind may occur once" + " under a name" * named
        way = argument("objective", origin, "name", f"{kind}2", place) if named else None
        rest = terms_written(origin, index.__ne__)
        check.report(
            "E207", problem, "objective", label=label, way=way, help=rest and f"objective={rest}"
        )
    asking = {term.pairs: term.title for term in terms if term.pairs != "none"}
    if len(asking) > 1:
        first, second, *_ = sorted(asking.values())
        message = f"{first} and {second} make pairs in different ways"
        help = f"objective=mlm+{second} or objective=mlm+{first}"
        check.report("E206", message, "objective", label="a row is made in one way only", help=help)
    if any(term.order == "forward" for term in terms):
        _in_two_directions(check)
    check.rules(_OF_DIRECTIONS)
    spans = any(term.masks.unit.masks_spans for term in terms if term.masks)
    reads = next((term.title for term in terms if term.states.of_spans), "")
    if reads and not spans:
        message = f"{reads} predicts masked spans, but no term masks spans"
        label = "needs an mlm term with span units"
        check.report("E205", message, "objective", label=label, help=f"objective=span+{reads}")
    masked = [term.masks for term in terms if term.masks and not term.masks.translations]
    masking = [term.title for term in terms if term.masks in masked]
    if len({getattr(masks, "ahead", False) for masks in masked}) > 1:  # from unlike states
        message = f"{' and '.join(masking)} mask the same rows"
        help = f"objective={masking[0]} or objective={masking[1]}"
        check.report("E207", message, "objective", label="a row is masked once", help=help)
    _order_possible(check)


def _two_sided(stage: CompleteStage) -> str:
    """The first term whose tokens are predicted from both sides."""
    terms = (term.objective for term in stage.objective)
    return next((t.title for t in terms if t.masks or t.replaces or t.order == "permuted"), "")


_OF_DIRECTIONS: tuple[Rule[CompleteStage], ...] = (
    Rule("E218", ("causal", "objective"), lambda s: s.causal is True and bool(_two_sided(s)),
         lambda s: f"{_two_sided(s)} predicts tokens from both sides, and causal = true",
         label="tokens attend to earlier ones alone", help="causal=false"),
    Rule("E218", ("causal", "objective"), lambda s: s.causal is False and reads_on(s.objective),
         "clm predicts each token from those before it, and causal = false shows it that token",
         help="causal=true"),
)  # fmt: skip


def _in_two_directions(check: Checker[CompleteStage]) -> None:
    """Report what rows of clm next to rows with masks cannot have, and shares without a row."""
    stage = check.settings
    ahead = [term for term in stage.objective if term.objective.order == "forward"]
    rest = [term for term in stage.objective if term.objective.order != "forward"]
    if not rest:
        return
    terms, causal = [term.objective for term in stage.objective], ahead[0].objective.title
    titles = [*dict.fromkeys(term.objective.title for term in rest)]
    masks = [t.objective.title for t in rest if t.objective.masks and not translates(t.objective)]
    if titles != masks[:1]:
        refused = next(title for title in titles if title not in masks[:1])
        message = f"{causal} reads rows causally and unchanged, which {refused} does not allow"
        label = f"{causal} is combined with mlm or mntp alone, each in rows of its own"
        own_term, origin = ("own", refused), stage.origins["objective"]
        call = terms_written(origin, lambda i: (terms[i].kind, terms[i].title) == own_term)
        help = f"objective={causal} or objective={call or refused}"
        check.report("E217", message, "objective", label=label, help=help)
        return
    unfit = {"memory": stage.memory > 0, "head": stage.head.decoder > 0}
    unfit["generator"] = stage.generator.kind == "network"
    for setting in (setting for setting, is_there in unfit.items() if is_there):
        problem = f"{setting} is set, which rows that {causal} reads causally cannot have"
        check.report("E217", problem, setting, help=f"objective={causal} or objective={masks[0]}")
    if stage.batch < 2:
        problem = f"{causal} and {masks[0]} each need a row, and batch = 1"
        check.report("E217", problem, "objective", help="batch=2")


def _order_possible(check: Checker[CompleteStage]) -> None:
    """Report terms that change the rows of a permutation, and blocks that do not divide them."""
    stage, seq = check.settings, check.settings.seq
    terms = [term.objective for term in stage.objective]
    permuted = next((term for term in terms if term.order == "permuted"), None)
    if permuted is None:
        return
    changing = [t.title for t in terms if t.order != "permuted" and t.pairs == "none"]
    generates = stage.generator.kind != "none"
    if changing:
        written = terms_written(stage.origins["objective"], lambda i: terms[i] == permuted)
        instead = f"objective={written or permuted.kind}"
        message = f"{permuted.kind} needs unchanged rows, which {changing[0]} does not allow"
        label = "the other term may have a stage of its own"
        help = instead + " generator=none" * generates
        check.report("E217", message, "objective", label=label, help=help)
    block = permuted.states.block
    part = next((p for p in stage.format.parts(stage.seq) if 0 < block < p and p % block), None)
    if part is not None:
        near = largest_divisor(math.gcd(*stage.format.parts(stage.seq)), block)
        rows = f"rows of {seq}" if part == seq else f"parts of {part}"
        place = (terms.index(permuted), "objective")
        check.report(
            "E251",
            f"block = {block} does not divide {rows} tokens",
            "objective",
            also=("seq", f"seq = {seq}"),
            label="without block the whole row is permuted",
            way=argument("objective", stage.origins["objective"], "block", str(near), place),
        )


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
