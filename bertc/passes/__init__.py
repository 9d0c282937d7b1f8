"""From a program as written to one with nothing left open: functions, in order, in one tuple."""

from bertc.diagnostics import Diagnostics
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.written import Program
from bertc.passes.assemble import assemble
from bertc.passes.checks import checks
from bertc.passes.defaults import defaults
from bertc.passes.dimensions import dimensions
from bertc.passes.extends import extends
from bertc.passes.generator import generator
from bertc.passes.growth import growth
from bertc.passes.inputs import missing_inputs
from bertc.passes.recipes import recipes
from bertc.passes.remarks import remarks
from bertc.passes.sharing import sharing
from bertc.passes.tasks import tasks
from bertc.passes.vocabulary import vocabulary

PASSES = (
    extends,
    recipes,
    defaults,
    vocabulary,
    dimensions,
    sharing,
    generator,
    growth,
    tasks,
    checks,
    remarks,
)
"""Each takes a program and the findings so far, and returns a program."""


def complete(program: Program, diagnostics: Diagnostics) -> Program:
    """Run every pass: the result gives every setting a value and an origin."""
    for step in PASSES:
        program = step(program, diagnostics)
    return program


def resolve(program: Program, diagnostics: Diagnostics | None = None) -> Resolved:
    """Check a program and leave nothing open in it.

    Raises:
        SpecError: with everything found, what ``diagnostics`` brought along included.
    """
    findings = diagnostics or Diagnostics()
    finished = complete(program, findings)
    findings.raise_if_any()
    return assemble(finished)


__all__ = [
    "PASSES",
    "assemble",
    "complete",
    "missing_inputs",
    "resolve",
]
