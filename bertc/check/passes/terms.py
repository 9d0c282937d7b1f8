"""Checks of the terms of an objective: compatible ones, and blocks that fill the row."""

import math

from bertc.check.passes.settings import Checker
from bertc.cost.planning.plan import largest_divisor
from bertc.ir.fixes import argument, terms_written
from bertc.ir.program.complete import CompleteStage
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
        check.report("E207", problem, "objective", label=label, way=way)
    asking = {term.pairs: term.title for term in terms if term.pairs != "none"}
    if len(asking) > 1:
        first, second, *_ = sorted(asking.values())
        message = f"{first} and {second} make pairs in different ways"
        help = f"objective=mlm+{second} or objective=mlm+{first}"
        check.report("E206", message, "objective", label="a row is made in one way only", help=help)
    if any(term.order == "forward" for term in terms):
        _in_two_directions(check)
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


def _in_two_directions(check: Checker[CompleteStage]) -> None:
    """Report what rows of clm next to rows with masks cannot have, and shares without a row."""
    stage = check.settings
    ahead = [term for term in stage.objective if term.objective.order == "forward"]
    rest = [term for term in stage.objective if term.objective.order != "forward"]
    if not rest:
        return
    causal = ahead[0].objective.title
    titles = [*dict.fromkeys(term.objective.title for term in rest)]
    masks = [t.objective.title for t in rest if t.objective.masks and not translates(t.objective)]
    if titles != masks[:1]:
        refused = next(title for title in titles if title not in masks[:1])
        message = f"{causal} reads rows causally and unchanged, which {refused} does not allow"
        label = f"{causal} is combined with mlm or mntp alone, each in rows of its own"
        help = f"objective={causal} or objective={refused}"
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
    changing = [t.kind for t in terms if t.order != "permuted" and t.pairs == "none"]
    generates = stage.generator.kind != "none"
    if changing:
        written = terms_written(stage.origins["objective"], lambda i: terms[i] == permuted)
        instead = f"objective={written or permuted.kind}"
        message = f"{permuted.kind} needs unchanged rows, which {changing[0]} does not allow"
        label = "the other term may have a stage of its own"
        help = instead + " generator=none" * generates
        check.report("E250", message, "objective", label=label, help=help)
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
