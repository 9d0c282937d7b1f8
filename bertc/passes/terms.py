"""Checks of the terms of an objective: compatible ones, and blocks that fill the row."""

import math

from bertc.diagnostics import Diagnostics
from bertc.ir.data import RUNNING
from bertc.ir.learning.objective import Objective
from bertc.ir.network.generator import SameTagGenerator
from bertc.ir.program.complete import StageSettings
from bertc.ir.terms.masking import TaggedUnit
from bertc.ir.terms.node import LanguageModel
from bertc.passes.settings.fixes import argument, fix, note, terms_written
from bertc.planning.plan import largest_divisor


def check_terms(stage: StageSettings, diagnostics: Diagnostics) -> None:
    """Report terms that cannot be combined, or lack another that they need."""
    _stand_together(stage, diagnostics)
    _one_softmax(stage, diagnostics)
    _order_possible(stage, diagnostics)
    _tags_read(stage, diagnostics)


def _stand_together(stage: StageSettings, diagnostics: Diagnostics) -> None:
    terms, span = [term.objective for term in stage.objective], stage.span("objective")
    kinds = [term.title for term in terms]
    for kind in sorted({kind for kind in kinds if kinds.count(kind) > 1}):
        diagnostics.error(
            "E207",
            f"the objective has {kind} {kinds.count(kind)} times",
            span,
            label="each kind may occur once",
        )
    asking = {term.pairs: term.title for term in terms if term.pairs != "none"}
    if len(asking) > 1:
        first, second, *_ = sorted(asking.values())
        diagnostics.error(
            "E206",
            f"{first} and {second} make pairs in different ways",
            span,
            label="a row is made in one way only",
            help=f"objective=mlm+{second} or objective=mlm+{first}",
        )
    alone = next((term.title for term in terms if term.order == "forward"), "")
    if alone and set(kinds) != {alone}:
        refused = next(kind for kind in kinds if kind != alone)
        diagnostics.error(
            "E217",
            f"{alone} needs a causal encoder and unchanged text, which {refused} does not allow",
            span,
            label=f"{alone} cannot be combined",
            help=f"objective={alone} or objective={refused}",
            fix=fix(stage.origins["objective"], f"objective={alone}"),
        )
    spans = any(term.masks.unit.masks_spans for term in terms if term.masks)
    reads = next((term.title for term in terms if term.reads_spans), "")
    if reads and not spans:
        diagnostics.error(
            "E205",
            f"{reads} predicts masked spans, but no term masks spans",
            span,
            label="needs an mlm term with span units",
            help=f"objective=span+{reads}",
        )


def _one_softmax(stage: StageSettings, diagnostics: Diagnostics) -> None:
    """Check that terms with one head agree on ``z``, which needs that head to have one softmax."""
    every = enumerate(term.objective for term in stage.objective)
    terms = [(number, term) for number, term in every if isinstance(term, LanguageModel)]
    wanted = terms[0][1].z if terms and stage.head.kind != "adaptive" else 0.0
    for number, term in terms:
        if term.z != wanted:
            reason = (
                "an adaptive head has a softmax for each cluster"
                if stage.head.kind == "adaptive"
                else f"{terms[0][1].title}, with the same head, has {wanted:g}"
            )
            origin = stage.origins["objective"]
            diagnostics.error(
                "E329",
                f"{term.title} has z = {term.z:g}, but {reason}",
                origin.span,
                **argument("objective", origin, "z", f"{wanted:g}", (number, "objective")),
            )


def _order_possible(stage: StageSettings, diagnostics: Diagnostics) -> None:
    """Report terms that change the rows of a permutation, and blocks that do not divide them."""
    terms = [term.objective for term in stage.objective]
    span, seq = stage.span("objective"), stage.seq
    permuted = next((term for term in terms if term.order == "permuted"), None)
    if permuted is None:
        return
    others = [t.kind for t in terms if t.order != "permuted" and t.pairs == "none"]
    generates = stage.generator.kind != "none"
    if others:
        diagnostics.error(
            "E250",
            f"{permuted.kind} needs unchanged rows, which {others[0]} does not allow",
            span,
            label="the other term may have a stage of its own",
            help=f"objective={_as_written(stage, permuted)}" + " generator=none" * generates,
        )
    block = permuted.block_length
    part = next((p for p in stage.parts if 0 < block < p and p % block), None)
    if part is not None:
        near = largest_divisor(math.gcd(*stage.parts), block)
        rows = f"rows of {seq}" if part == seq else f"parts of {part}"
        place = (terms.index(permuted), "objective")
        diagnostics.error(
            "E251",
            f"block = {block} does not divide {rows} tokens",
            span,
            notes=note(f"seq = {seq}", stage.span("seq")),
            label="without block the whole row is permuted",
            **argument("objective", stage.origins["objective"], "block", str(near), place),
        )


def _tags_read(stage: StageSettings, diagnostics: Diagnostics) -> None:
    """Report tags of running text, and terms that mask the spans of different taggers."""
    terms = [term.objective for term in stage.objective]
    origin = stage.origins["objective"]
    units = {
        number: masks.unit
        for number, term in enumerate(terms)
        if (masks := term.masks) and isinstance(masks.unit, TaggedUnit)
    }
    judged = any(term.needs_replacements for term in terms)
    by_tag = judged and isinstance(stage.generator, SameTagGenerator)
    if (units or by_tag) and stage.format.kind in RUNNING:
        reader = "unit = tagged" if units else "generator = same-tag"
        diagnostics.error(
            "E385",
            f"{reader} reads tags of rows, but rows of a stream continue their own text",
            stage.span("format") or origin.span,
            help="format=full-sentences",
            fix=fix(stage.origins["format"], "format=full-sentences"),
        )
    first = min(units, default=0)
    for number, another in units.items():
        unit = units[first]
        if (another.source, another.labels) != (unit.source, unit.labels):
            diagnostics.error(
                "E386",
                f"{terms[first].title} and {terms[number].title} mask the spans of different "
                "taggers, but a stage reads those of one",
                origin.parts.get((number, "objective", "unit"), origin.span),
                help="name the same tagger, with the same labels, in both terms",
            )


def _as_written(stage: StageSettings, wanted: Objective) -> str:
    """A term of the objective as written; its kind alone if the objective is not written."""
    terms = stage.objective
    text = terms_written(stage.origins["objective"], lambda i: terms[i].objective == wanted)
    return text or wanted.kind
