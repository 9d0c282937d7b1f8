"""From a program as written to one with nothing left open: functions, in order, in one tuple."""

from bertc.diagnostics import Diagnostics
from bertc.ir.program.complete import Complete
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.written import Program
from bertc.passes.assemble import assemble
from bertc.passes.checks import checks
from bertc.passes.defaults import defaults
from bertc.passes.dimensions import dimensions
from bertc.passes.extends import extends
from bertc.passes.generator import generator, generator_widths
from bertc.passes.growth import growth
from bertc.passes.inputs import missing_inputs
from bertc.passes.recipes import recipes
from bertc.passes.remarks import remarks
from bertc.passes.sharing import sharing
from bertc.passes.tasks import tasks
from bertc.passes.vocabulary import vocabulary

FILLING = (
    extends,  # first of all: what the base says is written too
    recipes,  # before the defaults, which would hide what a task leaves open
    defaults,
    vocabulary,  # reads files; after the defaults, for init has its own
    generator_widths,  # from the encoder's, which has a default
)
"""Each takes a program and the findings so far, and returns a program with more settings."""
CHECKS = (
    sharing,
    generator,
    growth,  # looks at nothing where owners and widths are wrong already
    tasks,
    checks,
    remarks,  # last: only on what is sound
)
"""Each reports what it finds in a complete program, of which the order is that of the findings."""
PASSES = (*FILLING, dimensions, *CHECKS)
"""All of them in their order. ``dimensions`` stands between the two: it derives what is open."""


def complete(program: Program, diagnostics: Diagnostics) -> Complete:
    """Run every pass: the result gives every setting a value and an origin."""
    for fill in FILLING:
        program = fill(program, diagnostics)
    finished = dimensions(program, diagnostics)
    for check in CHECKS:
        check(finished, diagnostics)
    return finished


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
