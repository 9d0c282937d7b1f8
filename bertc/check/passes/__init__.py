"""Passes on a program alone, run in one order; facts of other files are filled in before."""

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes.assemble import assemble
from bertc.check.passes.bodies import bodies
from bertc.check.passes.changing.beginning import begins, vectors
from bertc.check.passes.changing.growth import growth
from bertc.check.passes.checks import checks
from bertc.check.passes.dimensions import defaults, dimensions, limits
from bertc.check.passes.extends import extends
from bertc.check.passes.generator import generator, generator_widths
from bertc.check.passes.inputs import missing_inputs, vocabulary
from bertc.check.passes.lengths import in_steps
from bertc.check.passes.methods import methods
from bertc.check.passes.recipes import recipes
from bertc.check.passes.remarks import remarks
from bertc.check.passes.settings.stages import typed
from bertc.check.passes.sharing import sharing
from bertc.check.passes.tasks import tasks
from bertc.check.passes.teaching.teachers import teachers
from bertc.ir.program.complete import Complete
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.written import Program

WRITTEN = (
    extends,  # first, since settings of the base count as written
    recipes,  # before the defaults, which would hide what a recipe may set
    defaults,
    in_steps,  # lengths in tokens, by batch and seq
)
"""Passes on settings as they are written, each by its name; afterwards all are typed."""
FILLING = (
    bodies,  # after the defaults, which are of transformers
    vocabulary,  # reads files; after the defaults, since init has a vocabulary of its own
    generator_widths,  # derived from the encoder's widths, which have defaults
)
"""Passes on typed settings, of which some are still to be derived."""
CHECKS = (
    limits,
    sharing,
    generator,
    teachers,
    begins,
    growth,  # skipped where owners or widths are wrong already
    methods,  # so too
    tasks,
    checks,
    vectors,
    remarks,  # last: only about programs without errors
)
"""Checks of a complete program; findings are reported in this order."""


def complete(program: Program, diagnostics: Diagnostics) -> Complete:
    """Run every pass, so that every setting has a value and an origin."""
    for write in WRITTEN:
        program = write(program, diagnostics)
    typed_program = typed(program)
    for fill in FILLING:
        typed_program = fill(typed_program, diagnostics)
    finished = dimensions(typed_program, diagnostics)
    for check in CHECKS:
        check(finished, diagnostics)
    return finished


def resolve(program: Program, diagnostics: Diagnostics | None = None) -> Resolved:
    """Check a program and resolve it completely; raises SpecError with all mistakes there are."""
    findings = diagnostics or Diagnostics()
    finished = complete(program, findings)
    findings.raise_if_any()
    return assemble(finished)


__all__ = [
    "CHECKS", "FILLING", "WRITTEN", "assemble", "complete", "dimensions", "missing_inputs",
    "resolve",
]  # fmt: skip
