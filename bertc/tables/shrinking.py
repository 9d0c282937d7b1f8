"""Settings of rows at a smaller scale."""

from collections.abc import Iterator, Mapping

from bertc.diagnostics import Diagnostics
from bertc.ir.program.settings import aliases
from bertc.syntax import parse
from bertc.syntax.read.tree import Call, Number, Setting, Value
from bertc.tables.table import Scale

_WIDTH = 8
"""Shrunk widths are multiples of it."""
SHRUNK: Mapping[str, str] = {
    "hidden": "widths", "embedding": "widths", "ffn": "widths", "layers": "layers",
    "seq": "seq", "memory": "seq", "batch": "batch", "steps": "steps",
}  # fmt: skip
"""Settings of rows that a scale multiplies, and by which of its ratios."""


def shrunk(text: str, scale: Scale) -> str:
    """The settings of a row with its numbers multiplied by a scale's ratios.

    Widths become multiples of 8; the rest whole numbers, at least 1; learning rates are multiplied.
    """
    names, edits = aliases(), list[tuple[int, int, str]]()
    for item in parse(text, "<row>", Diagnostics()).items:
        if not isinstance(item, Setting):
            continue
        name = names.get(item.name.text, item.name.text)
        if name in SHRUNK and isinstance(item.value, Number) and item.value.value:
            ratio = getattr(scale, SHRUNK[name])
            unit = _WIDTH if SHRUNK[name] == "widths" else 1
            new = unit * max(1, round(item.value.value * ratio / unit))
            if ratio != 1:
                edits.append((item.value.span.start, item.value.span.end, str(new)))
        elif name == "optimizer" and scale.rates != 1:
            edits += [
                (rate.span.start, rate.span.end, f"{rate.value * scale.rates:.4g}")
                for rate in _rates(item.value)
                if rate.value is not None
            ]
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _rates(value: Value) -> Iterator[Number]:
    """The numbers of an optimiser that are learning rates: the first, or ``lr``."""
    if not isinstance(value, Call):
        return
    for argument in value.arguments:
        if isinstance(argument.value, Number) and (
            argument.name is None or argument.name.text == "lr"
        ):
            yield argument.value


def sets_steps(text: str) -> bool:
    """True if settings say for how long to train."""
    return any(
        isinstance(item, Setting) and item.name.text in ("steps", "epochs")
        for item in parse(text, "<row>", Diagnostics()).items
    )
