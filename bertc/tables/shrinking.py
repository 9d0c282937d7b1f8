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
"""Settings of rows that a scale multiplies, and by which of its factors."""
Factors = Mapping[str, float]


def factors(scale: Scale, base: Mapping[str, float]) -> Factors:
    """The factors of a scale: its own, else those between its settings and the rows' common ones.

    ``base`` are these, at full size: hidden, layers, seq, batch, steps; empty if there are none.
    Where they are smaller than the scale's, nothing is enlarged.
    """
    written = {name: value for name, value in _numbers(scale.spec) if name in base}
    found = {SHRUNK[name]: min(1.0, value / base[name]) for name, value in written.items()}
    own = {name: getattr(scale, name) for name in dict.fromkeys(SHRUNK.values())}
    return {name: value or found.get(name, 1.0) for name, value in own.items()}


def no_larger(text: str, base: Mapping[str, float]) -> str:
    """The settings of a scale, without the numbers that are larger than those of a spec."""
    larger = {name for name, value in _numbers(text) if value > base.get(name, value)}
    for name, item in reversed([*_settings(text)]):
        if name in larger:
            text = text[: item.span.start] + text[item.span.end :].lstrip()
    return text


def steps_of(text: str) -> float | None:
    """The number of steps that settings say, None if they say none."""
    return dict(_numbers(text)).get("steps")


def shrunk(text: str, by: Factors, rates: float) -> str:
    """The settings of a row with its numbers multiplied by factors, and its learning rates.

    Widths become multiples of 8, the rest whole numbers, at least 1.
    """
    edits = list[tuple[int, int, str]]()
    for name, item in _settings(text):
        if name in SHRUNK and isinstance(item.value, Number) and item.value.value:
            unit = _WIDTH if SHRUNK[name] == "widths" else 1
            new = unit * max(1, round(item.value.value * by[SHRUNK[name]] / unit))
            if by[SHRUNK[name]] != 1:
                edits.append((item.value.span.start, item.value.span.end, str(new)))
        elif name == "optimizer" and rates != 1:
            edits += [
                (rate.span.start, rate.span.end, f"{rate.value * rates:.4g}")
                for rate in _rates(item.value)
                if rate.value is not None
            ]
    for start, end, instead in sorted(edits, reverse=True):
        text = text[:start] + instead + text[end:]
    return text


def _settings(text: str) -> Iterator[tuple[str, Setting]]:
    """The settings of a text by their full names."""
    names = aliases()
    for item in parse(text, "<row>", Diagnostics()).items:
        if isinstance(item, Setting):
            yield names.get(item.name.text, item.name.text), item


def _numbers(text: str) -> Iterator[tuple[str, float]]:
    """The settings of a text that are plain numbers."""
    for name, item in _settings(text):
        if isinstance(item.value, Number) and item.value.value and not item.value.unit:
            yield name, float(item.value.value)


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
    return any(name in ("steps", "epochs") for name, _ in _settings(text))


def sets_seed(text: str) -> bool:
    """True if settings have a seed, which that of a run would replace."""
    return any(name == "seed" for name, _ in _settings(text))
