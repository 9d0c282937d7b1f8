"""The pass for parts of the user's own: the file of a class, and the recording of the class."""

import importlib.util
import json
import operator
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from signal import SIGXCPU
from typing import Any, TypeVar, get_args

from bertc.base import own_code
from bertc.base.diagnostics import BertcError, Diagnostics, UsageError
from bertc.base.storage.paths import is_file
from bertc.base.storage.plain_file import read_text
from bertc.check.passes.settings import Checker, layer_values, reads_on
from bertc.ir.fixes import Rule
from bertc.ir.learning import Term
from bertc.ir.methods.method import removing
from bertc.ir.network.generator import GeneratorNetwork
from bertc.ir.network.sharing import owners_of
from bertc.ir.own import Own, OwnClass, Size
from bertc.ir.program import Complete, CompleteSettings, CompleteStage, Given, Origin
from bertc.ir.terms.masking import Masks
from bertc.ir.vocabulary import table_rows

_SECONDS, _WAITS, _MOST_BYTES = 60, 10, 2**20
_Sizes = tuple[tuple[str, int], ...]
_S = TypeVar("_S", bound=CompleteSettings)


def own_classes(program: Complete, diagnostics: Diagnostics) -> Complete:
    """Look up what classes of the user have and do, each in a separate process.

    ``ffn=own("mine.py:Experts")`` is E390 without permission to run code, or where it fails.
    """

    def with_looked_up(node: Any, name: str, place: str, origin: Origin) -> Any:
        """A node with what a part of it has and does."""
        part = looked_up(getattr(node, name), place, origin)
        return node if part is getattr(node, name) else node.model_copy(update={name: part})

    def looked_up(part: Any, place: str, origin: Origin) -> Any:
        """A part with what it has and does; itself if it is no class, or refused."""
        if isinstance(part, Masks):
            return with_looked_up(part, "unit", "unit", origin)
        if not isinstance(part, OwnClass) or part.source or diagnostics.found:
            return part
        try:
            own_code.require_permission(part.code, "")
            read = part.model_copy(update={"source": _source(part, origin)})
            return read.model_copy(update=_recorded(read, place, tuple(_sizes(program, place))))
        except BertcError as error:
            diagnostics.error("E390", error.message, origin.span, help=error.help)
            return part

    def of_terms(terms: tuple[Term, ...], origin: Origin) -> tuple[Term, ...]:
        known = tuple(with_looked_up(term, "objective", "objective", origin) for term in terms)
        return terms if all(map(operator.is_, known, terms)) else known

    def of_part(name: str, value: Any, origin: Origin) -> Any:
        if name == "norm":
            return with_looked_up(value, "function", name, origin)
        if name == "optimizer":
            value = with_looked_up(value, "schedule", "schedule", origin)
        in_heads = name == "positions" and value.in_attention
        return looked_up(value, "heads" if in_heads else name, origin)

    for name in ("ffn", "attention", "norm", "residual", "activation", "positions", "body"):
        program = _replaced(program, name, partial(of_part, name))
    program = _replaced(program, "objective", of_terms)
    program = _replaced(program, "optimizer", partial(of_part, "optimizer"))
    for stage in program.stages:
        Checker(stage, diagnostics).rules(OF_OWN_PARTS)
    return program


def _replaced(program: Complete, name: str, change: Callable[[Any, Origin], Any]) -> Complete:
    """The program with other values of a setting in the run and its stages."""

    def of_block(settings: Mapping[str, Given]) -> Mapping[str, Given]:
        before = settings.get(name)
        if before is None or (value := change(before.value, before.origin)) is before.value:
            return settings
        return {**settings, name: Given(value, before.origin)}

    def typed(block: _S) -> _S:
        value = change(getattr(block, name), block.origins[name])
        return block.model_copy(update={name: value})

    if (changed := program.program.map_blocks(of_block)) is program.program:
        return program
    # Attributes also have the settings that a body of another kind does not read.
    stages = tuple(map(typed, program.stages))
    return typed(program).model_copy(update={"program": changed, "stages": stages})


def _source(part: OwnClass, origin: Origin) -> str:
    """The text of the file, which is next to the spec or below it, and the user's; or a module."""
    if part.code in own_code.SOURCES:
        return own_code.SOURCES[part.code]
    file, _, name = part.code.rpartition(":")
    if not name.isidentifier() or not (file.endswith(".py") or _module_of(file)):
        help = "a Python file or an installed module, a colon and the name of a class"
        raise UsageError(f"{part.code!r} names no class of a file", help=help)
    if module := _module_of(file):
        return read_text(Path(module), _MOST_BYTES)
    spec = Path(origin.span.source.name) if origin.span else Path()
    folder = (spec.parent if is_file(spec) else Path()).resolve()
    path = (folder / file).resolve()
    if not path.is_relative_to(folder):
        raise UsageError(f"{file} is not below {folder}", help="put it next to the spec")
    text = read_text(path, _MOST_BYTES)
    for name in re.findall(r"^\s*(?:from|import)\s+(\w+)", text, re.MULTILINE):
        if is_file(path.with_name(f"{name}.py")):
            message = f"{file} imports {name}, which is next to it, and a run keeps one file"
            raise UsageError(message, help=f"write what it needs in {file}, or install {name}")
    if path.stat().st_uid not in (0, os.geteuid()):
        raise UsageError(f"{file} belongs to another user", help="read it, and make a copy")
    return text


def _module_of(name: str) -> str:
    """The Python file of an installed module; empty if there is none."""
    try:
        module = None if name.endswith(".py") else importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):
        return ""
    except Exception as error:  # of the packages that it is in, which are imported
        message = f"{name} cannot be imported: {type(error).__name__}: {error}"
        raise UsageError(message, "mend that package, or name a Python file") from error
    origin = (module and module.origin) or ""
    return origin if origin.endswith(".py") else ""


def _sizes(program: Complete, name: str) -> Iterator[_Sizes]:
    """The sizes of every layer, by name; for norms of every width that there is."""
    layers = max(stage.layers for stage in program.stages)
    heads, width = layer_values(program.heads, layers), program.head_dim
    sizes = [(program.hidden, many, width, layer) for layer, many in enumerate(heads)]
    if isinstance(network := program.generator, GeneratorNetwork) and name != "objective":
        shape = network.hidden, network.heads, network.hidden // network.heads
        sizes += [(network.ffn, *shape[1:], 0)]
        sizes += [(*shape, layer) for layer in range(network.layers or layers)]
    if name in ("norm", "activation", "positions", "heads"):  # which any width may have
        inner = [*layer_values(program.ffn, layers), *(many * width for many in heads)]
        shapes = sorted({program.embedding, width, *inner})
        sizes += [(shape, heads[0], width, 0) for shape in shapes]
    for numbers in sizes:
        yield tuple(zip(get_args(Size), (*numbers, table_rows(program.vocab), 0), strict=True))


@lru_cache(64)
def _recorded(part: OwnClass, name: str, sizes: tuple[_Sizes, ...]) -> dict[str, Any]:
    """Record a class; raises UsageError with the lines of its file that failed."""
    stated = part.model_dump(include={"code", "arguments", "source"})
    request = {"own": stated, "place": name, "sizes": [*map(dict, dict.fromkeys(sizes))]}
    result = run_recorder(request)
    if "refused" in result:
        help = "; ".join(result.get("lines", ())) or "docs/own.md has what it gets"
        raise UsageError(f"{part.code}: {result['refused']}", help=help)
    kind: Any = type(part)
    return {fact: getattr(kind(code=part.code, **result), fact) for fact in result}


def run_recorder(request: dict[str, Any]) -> dict[str, Any]:
    """The answer of ``model.recorder`` in a process that may not take long."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    command = [sys.executable, "-P", "-m", "bertc.model.recorder", str(_SECONDS)]
    inherited = {**os.environ, "PYTHONPATH": path}
    late = f"it was not built and called within {_SECONDS} s of processor time"
    try:
        done = subprocess.run(
            command, input=json.dumps(request).encode(), env=inherited, capture_output=True,
            timeout=_WAITS * _SECONDS,
        )  # fmt: skip
        return dict(json.loads(done.stdout))
    except subprocess.TimeoutExpired:
        return {"refused": late}
    except ValueError:
        return {"refused": late if done.returncode == -SIGXCPU else "it ended its process"}


def _parts(stage: CompleteStage) -> list[Own]:
    names = "ffn", "attention", "residual", "activation", "positions", "body"
    values: list[Any] = [getattr(stage, name, None) for name in names]
    values += [getattr(getattr(stage, "norm", None), "function", None)]
    values += [term.objective for term in stage.objective]
    return [value for value in values if isinstance(value, Own)]


def _lacking(stage: CompleteStage, fact: str) -> list[str]:
    """The codes of parts of which a fact is not true."""
    return [part.code for part in _parts(stage) if not getattr(part, fact)]


def _is_own(stage: CompleteStage, name: str) -> bool:
    """True if the setting, which bodies of other kinds lack, is a class of the user."""
    return isinstance(getattr(stage, name, None), Own)


def _mixes(stage: CompleteStage) -> bool:
    """True if layers that share attention have full attention and a class of the user."""
    every = getattr(stage.attention, "full_every", 0)
    owners = enumerate(owners_of(stage.share, stage.layers)[0] if every else ())
    return any((layer % every == 0) != (owner % every == 0) for layer, owner in owners)


OF_OWN_PARTS: tuple[Rule[CompleteStage], ...] = (
    Rule("E390", "pack", lambda s: s.pack and _lacking(s, "packs"),
         lambda s: f"{_lacking(s, 'packs')[0]} reads other documents of a row", help="pack=false"),
    Rule("E390", "objective", lambda s: reads_on(s.objective) and _lacking(s, "causal"),
         lambda s: f"{_lacking(s, 'causal')[0]} reads later tokens", help="objective=mlm"),
    Rule("E390", "attention",
         lambda s: _is_own(s, "attention") and (s.memory or s.head.decoder or any(
             term.objective.order == "permuted" for term in s.objective)),
         "memory, a mask decoder and plm have other queries than keys", help="attention=full"),
    Rule("E390", "share", _mixes, "full_every gives layers that share attention two kinds of it",
         help="share=none"),
    Rule("E390", "norm",
         lambda s: (_is_own(s, "attention") and s.norm.within("attention"))
         or (_is_own(s, "ffn") and s.norm.within("ffn")),
         "this norm is within a part, and that is your own", help="norm=pre"),
    Rule("E390", removing,
         lambda s: any(_is_own(s, name) for method in s.methods for name in method.removes),
         "what is to be removed is within a part of your own",
         help=lambda s: f"{removing(s)}=none"),
    Rule("E390", "dropout", lambda s: _is_own(s, "ffn") and s.dropout.ffn,
         "this dropout is within the feed-forward part, and that is your own", help="dropout=0.1"),
)  # fmt: skip
