"""Layers of a network beside those of its teacher: which are compared, and whether they can be."""

import math
from typing import TypeAlias, TypeVar

from bertc.base.diagnostics import Diagnostics, Fix
from bertc.check.passes.settings import Checker, layer_values
from bertc.cost.planning.plan import largest_divisor
from bertc.ir.fixes import Way, argument, span_if_written
from bertc.ir.learning import Shape, Tags
from bertc.ir.network.body import Body
from bertc.ir.program import CompleteStage
from bertc.ir.terms.kd import OfLayers, Unfit
from bertc.ir.terms.kd_layers import KdAttention, KdRelated, KdRelations, KdStates

RELATIONS = "kd(relations)"
"""The term over attention that asks least of both networks."""
TermT = TypeVar("TermT", bound=OfLayers)


def fill_layers(term: TermT, stage: CompleteStage, teacher: Body) -> TermT:
    """A term that knows its pairs of layers, and what follows from the widths of both networks."""
    pairs = term.pairs_between(stage.layers, teacher.depth)
    assert not isinstance(pairs, Unfit), "the checks refuse it"
    known: dict[str, object] = {"matched": pairs}
    match term:
        case KdStates():
            known["width"] = teacher.hidden
            if term.project != "auto" or teacher.hidden != stage.hidden:
                known["maps"] = len(pairs) if term.project == "each" else 1
        case KdRelations():
            known["heads"] = _relation_heads(term, teacher, pairs[0][1])
    return term.model_copy(update=known)


_Misfit: TypeAlias = tuple[str, str, Way]
"""Code, problem after the name of a term, and remedy."""


def layers_fit(
    stage: CompleteStage, several: bool, shape: Shape, term: OfLayers, diagnostics: Diagnostics
) -> None:
    """Report layers that cannot be compared with those of a teacher."""
    misfit = _unlike(stage, shape.body, term) or _misfit_of(stage, several, shape.body, term)
    if misfit is None and isinstance(term, KdRelated):
        misfit = _find_unrelated(stage, shape.body, term)
    if misfit is not None:
        code, problem, way = misfit
        also = ("teacher", "the teacher is named here")
        Checker(stage, diagnostics).report(
            code, f"{term.title}{problem}", "objective", also=also, way=way
        )


def _misfit_of(
    stage: CompleteStage, several: bool, teacher: Body, term: OfLayers
) -> _Misfit | None:
    if several:
        help = "name one teacher, or average their scores, as in objective=kd(logits)"
        problem = " compares layers with one teacher's, and there are several"
        return "E286", problem, {"help": help, "fix": None}
    if term.compares == "first" and any(isinstance(task.answer, Tags) for task in stage.tasks):
        problem = " compares the first token of examples, and tags are of words"
        return "E286", problem, _other_term(stage, term, "kd(hidden)")
    pairs = term.pairs_between(stage.layers, teacher.depth)
    if isinstance(pairs, Unfit):
        return "E286", f": {pairs.problem}", _other_argument(stage, term, "layers", pairs.instead)
    return None


def _unlike(stage: CompleteStage, teacher: Body, term: OfLayers) -> _Misfit | None:
    """Something that only networks that attend have: heads, a first token, wide embeddings."""
    first = term.layer_map in ("uniform", (0,))
    first = first or (isinstance(term.layer_map, tuple) and term.layer_map[0] == 0)
    if term.attends:
        why = "compares attention"
    elif term.compares == "first":
        why = "compares first tokens, which stand for their rows where all tokens attend"
    elif first:
        why = "compares embeddings, which are as wide as states where all tokens attend"
    else:
        return None
    if not stage.body.attends:
        who = f"body = {stage.body.kind}"
    elif not teacher.attends:
        who = f"the teacher is a {teacher.body_kind}, which"
    else:
        return None
    instead = "kd(hidden, layers=last)" if first and not term.attends else "kd(logits)"
    return "E287", f" {why}, and {who} has none", _other_term(stage, term, instead)


def _find_unrelated(stage: CompleteStage, teacher: Body, term: KdRelated) -> _Misfit | None:
    """Queries, keys and values that are not there, or not alike."""
    pairs = term.pairs_between(stage.layers, teacher.depth)
    assert not isinstance(pairs, Unfit), "it is refused before"
    for layer, taught_layer in pairs:
        attention, taught = stage.attention.at(layer - 1), teacher.attention_of(taught_layer)
        kind_here = f"attention = {attention.kind}"
        kind_there = "the teacher's attention"
        by_content = attention.content_alone and not stage.positions.biases_scores
        if not attention.projects or taught is None:
            who = kind_there if attention.projects else kind_here
            problem = f" compares queries, keys and values, and {who} has none"
            return "E287", problem, _other_term(stage, term, "kd(hidden)")
        if "attention" in term.related and not (by_content and taught.content_alone):
            problem = " compares products of queries and keys, and the scores of "
            problem += f"{kind_there if by_content else kind_here} are of more than these"
            return "E287", problem, _other_term(stage, term, RELATIONS)
        mine, widths = layer_values(stage.heads, stage.layers)[layer - 1], taught.widths
        match term:
            case KdAttention() if mine != widths.heads:
                problem = f" compares head with head: layer {layer} has {mine}, and the "
                problem += f"teacher's layer {taught_layer} has {widths.heads}"
                return "E287", problem, _other_term(stage, term, RELATIONS)
            case KdRelations():
                heads, inner = _relation_heads(term, teacher, pairs[0][1]), mine * stage.head_dim
                common = math.gcd(inner, widths.inner)
                if common % heads:
                    problem = f" cuts {inner} and {widths.inner} numbers into {heads} heads, "
                    problem += "which do not divide both"
                    way = _other_argument(stage, term, "heads", str(largest_divisor(common, heads)))
                    return "E287", problem, way
    return None


def _relation_heads(term: KdRelations, teacher: Body, layer: int) -> int:
    taught = teacher.attention_of(layer)
    return term.heads or (taught.widths.heads if taught else 1)


def _place(stage: CompleteStage, term: OfLayers) -> int:
    return next(n for n, t in enumerate(stage.objective) if t.objective == term)


def _other_argument(stage: CompleteStage, term: OfLayers, name: str, value: str) -> Way:
    place = (_place(stage, term), "objective")
    return argument("objective", stage.origins["objective"], name, value, place)


def _other_term(stage: CompleteStage, term: OfLayers, instead: str) -> Way:
    origin = stage.origins["objective"]
    span = origin.parts.get((_place(stage, term), "objective")) if span_if_written(origin) else None
    titles = {t.objective.title for t in stage.objective if t.objective != term}
    present = instead.split(",")[0].rstrip(")") + ")" in titles
    return {
        "help": f"compare otherwise, as in objective={instead}",
        "fix": Fix(span, instead) if span and not present else None,
    }
