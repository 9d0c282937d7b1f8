"""``bertc build --emit``: the value at one stage of the compiler, as text."""

from collections.abc import Callable, Sequence
from pprint import pformat

from bertc.base.diagnostics import Diagnostics, UsageError
from bertc.ir.program.model import model_weights


def emit(spec: str, overrides: Sequence[str], stage: str) -> str:
    """Print the value of a spec at one stage of the compiler."""
    printers: dict[str, Callable[[str, Sequence[str]], str]] = {
        "tree": _tree,
        "program": _program,
        "resolved": _resolved,
        "weights": _weights,
        "module": _module,
    }
    if stage not in printers:
        raise UsageError(
            f"--emit {stage}: there is no such stage", help=f"one of {', '.join(printers)}"
        )
    return printers[stage](spec, overrides)


def _tree(spec: str, overrides: Sequence[str]) -> str:
    from bertc import lang
    from bertc.lang.files import spec_text

    diagnostics = Diagnostics()
    tree = lang.parse(spec_text(spec, overrides), "<spec>", diagnostics)
    diagnostics.raise_if_any()
    return pformat(tree, width=100)


def _program(spec: str, overrides: Sequence[str]) -> str:
    """The program as written; ``resolved`` adds every default, and facts from bases and files."""
    from bertc import lang

    programs = lang.load(spec, overrides)
    return "\n\n".join(lang.show(program, origins=True) for program in programs)


def _resolved(spec: str, overrides: Sequence[str]) -> str:
    """Every setting that is read, with all its arguments and its origin."""
    from bertc import lang
    from bertc.check.compiling import compile_spec
    from bertc.check.passes.tasks import without_unread

    diagnostics = Diagnostics()
    complete = compile_spec(spec, overrides, diagnostics)
    diagnostics.raise_if_any()
    return "\n\n".join(
        lang.show(without_unread(program), origins=True, full=True) for program in complete
    )


def _weights(spec: str, overrides: Sequence[str]) -> str:
    from bertc.api import resolve

    table = model_weights(resolve(spec, overrides))
    width = max(len(weight.name) for weight in table)
    lines = [
        f"{w.name:{width}}  {' x '.join(map(str, w.shape)):>14}  {' x '.join(w.axes):24}"
        f"  {w.numel:>12,}  {w.init.kind}"
        for w in table
    ]
    total = sum(weight.numel for weight in table)
    return "\n".join([*lines, f"{len(table)} tensors, {total:,} parameters"])


def _module(spec: str, overrides: Sequence[str]) -> str:
    from bertc.api import resolve
    from bertc.model import build

    return str(build(resolve(spec, overrides), device="meta"))
