"""Numbers with units as text: three digits and a prefix."""


def count_text(value: float) -> str:
    """A count: 110M, 1.31G."""
    return _scale(value, 1000, ("", "k", "M", "G", "T", "P", "E", "Z"), "")


def flops_text(value: float) -> str:
    """Floating-point operations: 25.6 GFLOP."""
    prefixes = ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP")
    return _scale(value, 1000, prefixes, " ")


def bytes_text(value: float) -> str:
    """Memory in powers of 1024: 1.63 GiB."""
    return _scale(value, 1024, ("B", "KiB", "MiB", "GiB", "TiB"), " ")


def duration_text(seconds: float) -> str:
    """A time: 4.10 µs, 35.2 ms, 12.0 min, 3.25 h, 4.10 days."""
    for limit, size, unit in (
        (1e-6, 1e-9, "ns"), (1e-3, 1e-6, "µs"), (1, 1e-3, "ms"), (120, 1, "s"), (7200, 60, "min"),
        (172_800, 3600, "h"),
    ):  # fmt: skip
        if seconds < limit:
            return f"{_digits(seconds / size)} {unit}"
    return f"{_digits(seconds / 86_400)} days"


def range_text(shortest: float, longest: float | None = None) -> str:
    """A time, or two with one unit where they share it: 1.20 to 4.80 h."""
    if longest is None:
        return duration_text(shortest)
    low, high = duration_text(shortest), duration_text(longest)
    number, unit = low.split()
    return f"{number if high.endswith(f' {unit}') else low} to {high}"


def change_text(value: float, first: float) -> str:
    """A difference to the first value: +7.3%, or x12.0 from ten times on."""
    if value == first:
        return "="
    if not first:
        return ""
    ratio = value / first
    return f"x{_digits(ratio)}" if ratio >= 10 else f"{100 * (ratio - 1):+.1f}%"


def _scale(value: float, base: int, units: tuple[str, ...], gap: str) -> str:
    step, value = 0, value if value >= base else round(value)
    while value >= base and step < len(units) - 1:
        value, step = value / base, step + 1
    text = str(value) if step == 0 else _digits(value)
    return f"{text}{gap}{units[step]}"


def _digits(value: float) -> str:
    """Three digits, and no exponent below a million."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
