"""Reports of unknown settings, which may be arguments of a kind."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bertc.base.diagnostics import Diagnostics, Fix, Note, listed, nearest
from bertc.ir.fixes import call_text
from bertc.ir.program.settings import STAGE_SETTINGS, Settings, aliases
from bertc.ir.written import Program
from bertc.lang.lowering.mistakes import rest_of_line
from bertc.lang.read.shapes import arguments, kinds_in, setting_shape
from bertc.lang.read.tree import Call, Setting

MOST_CHARACTERS = 100
"""A longer value of an argument is not repeated in a help."""


@dataclass
class SpecContext:
    """The context of a setting: the other settings of the spec, and the spec that it extends."""

    written: Mapping[str, Setting] = field(default_factory=dict)
    base: Program | None = None

    def current(self, setting: str) -> str:
        """The kind that a setting has as written, in the nearest base, or else by default."""
        if setting in self.written:
            value = self.written[setting].value
            return (value.name if isinstance(value, Call) else value).span.text
        base = self.base
        while base is not None and setting not in base.settings:
            base = base.base
        default = Settings.model_fields[setting].default
        return str(getattr(base.settings[setting].value if base else default, "kind", ""))


def refuse_setting(item: Setting, block: str, spec: SpecContext, diagnostics: Diagnostics) -> None:
    """Report an unknown setting, in a stage too; it may be an argument of a kind."""
    known = STAGE_SETTINGS if block else tuple(Settings.model_fields)
    name = item.name.text
    holders = [
        (setting, kind)
        for setting in known
        for kind, node in kinds_in(setting_shape(setting)).items()
        if name in arguments(node)
    ]
    if holders:
        in_use = (holder for holder in holders if spec.current(holder[0]) == holder[1])
        setting, kind = next(in_use, holders[0])
        value = item.value.span.text if len(item.value.span.text) <= MOST_CHARACTERS else "..."
        diagnostics.error(
            "E101",
            f"unknown setting `{name[:40]}`",
            item.name.span,
            label=f"`{name}` is an argument of {listed((kind for _, kind in holders), limit=40)}",
            help=f"{setting}={call_text(kind, '...', f'{name}={value}')}",
        )
        return
    near = nearest(name, known)
    if not near and name.upper() in aliases():
        near = name.upper()
    note = Note(f"settings: {listed(known, limit=900)}")
    diagnostics.error(
        "E101",
        f"unknown setting `{name[:40]}`",
        item.name.span,
        label=f"did you mean `{near}`?" if near else "",
        notes=() if any(note in earlier.notes for earlier in diagnostics.found) else (note,),
        help=near + rest_of_line(item.name, item) if near else "remove it",
        fix=Fix(item.name.span, near) if near else Fix(item.span, ""),
    )
