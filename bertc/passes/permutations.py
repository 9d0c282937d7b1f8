"""Checks of plm: compatible terms, and blocks that fill the row."""

import math

from bertc.diagnostics import Diagnostics
from bertc.ir.learning.objective import Objective, Plm
from bertc.ir.program.complete import StageSettings
from bertc.ir.terms.pairs import PairTerm
from bertc.passes.fixes import argument, note, terms_written
from bertc.planning.plan import largest_divisor


def check_order(stage: StageSettings, diagnostics: Diagnostics) -> None:
    """Report terms that change plm's rows, and blocks that do not divide them."""
    terms, span, seq = stage.objective, stage.span("objective"), stage.seq
    found = next((t.objective for t in terms if isinstance(t.objective, Plm)), None)
    if found is None:
        return
    others = [t.objective.kind for t in terms if not isinstance(t.objective, Plm | PairTerm)]
    generates = stage.generator.kind != "none"
    if others:
        diagnostics.error(
            "E250",
            f"plm needs unchanged rows, which {others[0]} does not allow",
            span,
            label="the other term may have a stage of its own",
            help=f"objective={_as_written(stage, found)}" + " generator=none" * generates,
        )
    part = next((p for p in stage.parts if 0 < found.block < p and p % found.block), None)
    if part is not None:
        near = largest_divisor(math.gcd(*stage.parts), found.block)
        rows = f"rows of {seq}" if part == seq else f"parts of {part}"
        place = (next(i for i, t in enumerate(terms) if t.objective == found), "objective")
        diagnostics.error(
            "E251",
            f"block = {found.block} does not divide {rows} tokens",
            span,
            notes=note(f"seq = {seq}", stage.span("seq")),
            label="without block the whole row is permuted",
            **argument("objective", stage.origins["objective"], "block", str(near), place),
        )


def _as_written(stage: StageSettings, wanted: Objective) -> str:
    """A term of the objective as written; its kind alone if the objective is not written."""
    terms = stage.objective
    own = terms_written(stage.origins["objective"], lambda i: terms[i].objective == wanted)
    return own or wanted.kind
