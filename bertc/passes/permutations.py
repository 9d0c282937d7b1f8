"""Checks of the order in which tokens are told: permutations."""

import math

from bertc.diagnostics import Diagnostics
from bertc.ir.learning.objective import Objective, Plm
from bertc.ir.program.complete import StageSettings
from bertc.ir.terms.pairs import PairTerm
from bertc.passes.fixes import argument, note, terms_written
from bertc.planning.plan import largest_divisor


def check_order(stage: StageSettings, diagnostics: Diagnostics) -> None:
    """A permutation is of the row as it stands, in blocks that fill it."""
    terms, span, seq = stage.objective, stage.span("objective"), stage.seq
    found = next((t.objective for t in terms if isinstance(t.objective, Plm)), None)
    if found is None:
        return
    others = [t.objective.kind for t in terms if not isinstance(t.objective, Plm | PairTerm)]
    generates = stage.generator.kind != "none"
    if others:
        diagnostics.error(
            "E250",
            f"plm reads rows as they stand, and {others[0]} reads something else",
            span,
            label="a row is read in one way only; another stage may read it in another",
            help=f"objective={_as_written(stage, found)}" + " generator=none" * generates,
        )
    part = next((p for p in stage.parts if 0 < found.block < p and p % found.block), None)
    if part is not None:
        near = largest_divisor(math.gcd(*stage.parts), found.block)
        rows = f"rows of {seq}" if part == seq else f"parts of {part}"
        place = (next(i for i, t in enumerate(terms) if t.objective == found), "objective")
        diagnostics.error(
            "E251",
            f"{rows} tokens are no number of blocks of {found.block}",
            span,
            notes=note(f"seq = {seq}", stage.span("seq")),
            label="without block a row is permuted as a whole",
            **argument("objective", stage.origins["objective"], "block", str(near), place),
        )


def _as_written(stage: StageSettings, wanted: Objective) -> str:
    """A term of the objective with its arguments, by its kind alone where none are written."""
    terms = stage.objective
    own = terms_written(stage.origins["objective"], lambda i: terms[i].objective == wanted)
    return own or wanted.kind
