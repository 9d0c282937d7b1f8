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
    for each, in_braces in ranges(value):
        low, high = each.low, each.high
        ends, scale = f"{low.text}..{high.text}", f":{each.scale}" if each.scale else ""
        if low.value is None or high.value is None:
            continue  # reported when they were read
        if low.value >= high.value:
            turned = f"{high.text}..{low.text}{scale}"
            wrong, instead = f"from {low.text} to {high.text}", turned
            if low.value == high.value:
                instead = low.text
        elif each.scale not in ("", LOG):
            wrong, instead = f"on a scale `{each.scale[:20]}`", f"{ends}:{LOG}"
        elif each.scale and low.value <= 0:
            wrong, instead = f"on a logarithmic scale from {low.text}", ends
        elif not in_braces:
            wrong, instead = "without braces", f"{{{ends}{scale}}}"
        else:
            continue
        diagnostics.error(
            "E117",
            f"`{name}` has a range {wrong}",
            each.span,
            notes=(Note("a range is {2..12}, {0..0.3} or {1e-5..1e-3:log}"),),
            help=instead,
            fix=Fix(each.span, instead),
        )


def refuse_ranges(values: Iterable[tuple[str, Value]], diagnostics: Diagnostics) -> None:
    """Report the ranges in the values of settings, by name, where no search draws from them."""
    reported = {each.span for each in diagnostics.found}
    for name, value in values:
        for each, in_braces in ranges(value):
            if each.span in reported:
                continue
            ends = f"{each.low.text}, {each.high.text}"
            ends = ends if in_braces else f"{{{ends}}}"
            diagnostics.error(
                "E116",
                f"`{name}` is a range, and one value of it is needed",
                each.span,
                label="`bertc sweep` draws values from it",
                help=ends,
                fix=Fix(each.span, ends),
            )
