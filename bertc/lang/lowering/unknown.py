"""Reports of unknown settings, which may be arguments of a kind."""

from collections.abc import Sequence

from bertc.base.diagnostics import Diagnostics, Fix, Note, listed, nearest
from bertc.ir.fixes import call_text
from bertc.ir.program.settings import STAGE_SETTINGS, Settings, aliases, canonical
from bertc.ir.written import Program
from bertc.lang.lowering.mistakes import rest_of_line
from bertc.lang.read.shapes import arguments, kinds_in, setting_shape
from bertc.lang.read.tree import Call, Setting

MOST_CHARACTERS = 100
"""A longer value of an argument is not repeated in a help."""


def refuse_setting(
    item: Setting,
    block: str,
    written: Sequence[Setting],
    base: Program | None,
    diagnostics: Diagnostics,
) -> None:
    """Report an unknown setting, in a stage too; it may be an argument of a kind.

    ``written``: the other settings of the spec, the nearest first, which extends ``base``.
    """
    known = STAGE_SETTINGS if block else tuple(Settings.model_fields)
    name = item.name.text
    holders = [
        (setting, kind)
        for setting in known
        for kind, node in kinds_in(setting_shape(setting)).items()
        if name in arguments(node)
    ]
    if holders:
        in_use = (
            holder for holder in holders if _kind_in_use(holder[0], written, base) == holder[1]
        )
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


def _kind_in_use(setting: str, written: Sequence[Setting], base: Program | None) -> str:
    """The kind that a setting has as written, in the nearest base, or else by default."""
    for item in written:
        if canonical(item.name.text) == setting:
            return (item.value.name if isinstance(item.value, Call) else item.value).span.text
    while base is not None and setting not in base.settings:
        base = base.base
    default = Settings.model_fields[setting].default
    return str(getattr(base.settings[setting].value if base else default, "kind", ""))
