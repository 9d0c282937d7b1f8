"""Constant defaults of settings."""

from bertc.diagnostics import Diagnostics
from bertc.ir.program.settings import Settings, default_source
from bertc.ir.program.written import Given, Origin, Program

CONSTANT = {
    name: Given(field.default, Origin("default", source=default_source(name)))
    for name, field in Settings.model_fields.items()
    if not field.is_required()
}


def defaults(program: Program, diagnostics: Diagnostics) -> Program:
    """Give each unset setting its constant default, with the source of that default.

    ``hidden=256`` becomes ``hidden=256 layers=12 share=none ...``. The default of ``seq`` is at
    most the number of written positions.
    """
    complete = program.with_settings({**CONSTANT, **program.settings})
    positions, seq = program.settings.get("positions"), complete.settings["seq"]
    room = positions.value.room if positions else None
    if room is not None and "seq" not in program.settings and room < seq.value:
        shorter = Given(room, Origin("derived", source="as many tokens as there are positions"))
        return complete.with_settings({"seq": shorter})
    return complete
