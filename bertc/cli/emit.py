"""``bertc build --emit``: the value at one stage of the compiler, as text."""

from collections.abc import Sequence
from pprint import pformat

from bertc import lang
from bertc.api import resolve, show
from bertc.base.diagnostics import UsageError
from bertc.ir.program import Given, Resolved, model_weights
from bertc.lang.files import spec_text
from bertc.lang.write.show import without_origin

STAGES = ("tree", "program", "resolved", "weights", "module", "python")


def emit(spec: str, overrides: Sequence[str], stage: str) -> str:
    """Print the value of a spec at one stage of the compiler."""
    match stage:
        case "tree":
            return pformat(lang.parse(spec_text(spec, overrides)), width=100)
        case "program":
            return "\n\n".join(lang.show(p, _with_origin) for p in lang.load(spec, overrides))
        case "resolved":
            return str(show(spec, overrides))
        case "weights":
            return _weights(resolve(spec, overrides))
        case "module":
            from bertc.model import build

            return str(build(resolve(spec, overrides), device="meta"))
        case "python":
            from bertc.use.source.checking import emit_checked

            return emit_checked(resolve(spec, overrides).merged, str(show(spec, overrides)))
    raise UsageError(f"--emit {stage}: there is no such stage", help=f"one of {', '.join(STAGES)}")


def _with_origin(name: str, setting: Given, indent: str) -> list[str]:
    """The line of a setting, with a comment of where it is written."""
    origin, (line,) = setting.origin, without_origin(name, setting, indent)
    parts = (origin.kind, origin.source, str(origin.span or ""))
    return [f"{line}  # {': '.join(filter(None, parts))}"]


def _weights(resolved: Resolved) -> str:
    table = model_weights(resolved)
    width = max(len(weight.name) for weight in table)
    lines = [
        f"{w.name:{width}}  {' x '.join(map(str, w.shape)):>14}  {' x '.join(w.axes):24}"
        f"  {w.numel:>12,}  {w.init.kind}"
        for w in table
    ]
    total = sum(weight.numel for weight in table)
    return "\n".join([*lines, f"{len(table)} tensors, {total:,} parameters"])
