"""Passes on a program alone, run in one order; facts of other files are filled in before."""

from typing import Any

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes.assemble import assemble
from bertc.check.passes.changing.beginning import begins, vectors
from bertc.check.passes.changing.growth import growth, methods
from bertc.check.passes.checks import checks
from bertc.check.passes.dimensions import bodies, defaults, dimensions, limits
from bertc.check.passes.extends import extends
from bertc.check.passes.generator import generator, generator_widths
from bertc.check.passes.inputs import missing_inputs, vocabulary
from bertc.check.passes.lengths import in_steps
from bertc.check.passes.own_classes import own_classes
from bertc.check.passes.recipes import recipes
from bertc.check.passes.remarks import remarks
from bertc.check.passes.sharing import sharing
from bertc.check.passes.tasks import tasks
from bertc.check.passes.teaching.teachers import teachers
from bertc.ir.program import Complete, Program, Resolved

PASSES = (
    extends,  # first, since settings of the base count as written
    recipes,  # before the defaults, which would hide what a recipe may set
    defaults,
    in_steps,  # lengths in tokens, by batch and seq; settings become attributes
    bodies,  # after the defaults, which are of transformers
    vocabulary,  # reads files; after the defaults, since init has a vocabulary of its own
    generator_widths,  # derived from the encoder's widths, which have defaults
    dimensions,  # derives the last open settings; checks follow
    limits,
    own_classes,  # builds classes of the user with these dimensions
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
"""Passes in order. They take a program to the next form of it; checks only report findings."""


def complete(program: Program, diagnostics: Diagnostics) -> Complete:
    """Run every pass, so that every setting has a value and an origin."""
    state: Any = program
    for step in PASSES:
        state = step(state, diagnostics) or state
    finished: Complete = state
    return finished


def resolve(program: Program, diagnostics: Diagnostics | None = None) -> Resolved:
    """Check a program and resolve it completely; raises SpecError with all mistakes there are."""
    findings = diagnostics or Diagnostics()
    finished = complete(program, findings)
    findings.raise_if_any()
    return assemble(finished)
