"""Ranges, which a search draws values from: those that are none, and those outside of a search."""

from collections.abc import Iterable, Iterator

from bertc.base.diagnostics import Diagnostics, Fix, Note
from bertc.lang.lowering.grids import inner_values
from bertc.lang.read.tree import Grid, Range, Value

LOG = "log"
"""The scale of a range that is drawn from by its logarithm."""


def ranges(value: Value, in_braces: bool = False) -> Iterator[tuple[Range, bool]]:
    """The ranges within a value, and of each whether it stands in braces."""
    match value:
        case Range():
            yield value, in_braces
        case Grid():
            for choice in value.choices:
                yield from ranges(choice, True)
        case _:
            for part in inner_values(value)[0]:
                yield from ranges(part)


def check_ranges(value: Value, name: str, diagnostics: Diagnostics) -> None:
    """Report ranges that are none: their ends, their scale, or no braces around them."""
    for written, in_braces in ranges(value):
        low, high = written.low, written.high
        ends, scale = f"{low.text}..{high.text}", f":{written.scale}" if written.scale else ""
        if low.value is None or high.value is None:
            continue  # reported when they were read
        if low.value >= high.value:
            turned = f"{high.text}..{low.text}{scale}"
            wrong, instead = f"from {low.text} to {high.text}", turned
            if low.value == high.value:
                instead = low.text
        elif written.scale not in ("", LOG):
            wrong, instead = f"on a scale `{written.scale[:20]}`", f"{ends}:{LOG}"
        elif written.scale and low.value <= 0:
            wrong, instead = f"on a logarithmic scale from {low.text}", ends
        elif not in_braces:
            wrong, instead = "without braces", f"{{{ends}{scale}}}"
        else:
            continue
        diagnostics.error(
            "E116",
            f"`{name}` has a range {wrong}",
            written.span,
            notes=(Note("a range is {2..12}, {0..0.3} or {1e-5..1e-3:log}"),),
            fix=Fix(written.span, instead),
        )


def refuse_ranges(values: Iterable[tuple[str, Value]], diagnostics: Diagnostics) -> None:
    """Report the ranges in the values of settings, by name, where no search draws from them."""
    reported = {written.span for written in diagnostics.found}
    for name, value in values:
        for written, in_braces in ranges(value):
            if written.span in reported:
                continue
            ends = f"{written.low.text}, {written.high.text}"
            ends = ends if in_braces else f"{{{ends}}}"
            diagnostics.error(
                "E116",
                f"`{name}` is a range, and one value of it is needed",
                written.span,
                label="`bertc sweep` draws values from it",
                fix=Fix(written.span, ends),
            )
