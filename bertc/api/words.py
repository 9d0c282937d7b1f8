"""The kinds of the language, and classes of the user's own, as Python values."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import Parameter, Signature
from numbers import Integral, Real
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from bertc.api.opened import Opened
from bertc.base import own_code
from bertc.base.diagnostics import Diagnostics, UsageError
from bertc.lang import parse, quote
from bertc.lang.read.numbers import show_number
from bertc.lang.write.schema import AllowedValues, ValueKind, schema


def code_of(made: type) -> str:
    """The file or module of a class and its name, as ``own("mine.py:Experts")`` has them.

    Who passes a class permits its source, as it is now, and no other.
    """
    module = sys.modules[made.__module__]
    if module.__name__ == "__main__":
        code, source = f"__main__.py:{made.__name__}", _source(made)
    else:
        file = Path(module.__file__ or "")
        below = file.is_relative_to(Path.cwd())
        code = f"{file.relative_to(Path.cwd()) if below else module.__name__}:{made.__name__}"
        source = inspect.getsource(module)
    own_code.SOURCES[code] = source
    return code


def _source(made: type) -> str:
    """The text of a class of ``__main__``, and of what it reads there: imports, numbers, others."""
    known, texts, todo = vars(sys.modules["__main__"]), dict[str, str](), [made.__name__]
    while todo:
        name = todo.pop()
        if name not in known:
            continue
        value, before = known[name], texts.pop(name, "")  # what is read by several is above all
        match value:
            case ModuleType():
                texts[name] = f"import {value.__name__} as {name}"
            case type() | FunctionType() if value.__module__ == "__main__":
                texts[name] = before or _definition(value)
                read = (n.id for n in ast.walk(ast.parse(texts[name])) if isinstance(n, ast.Name))
                todo += [needed for needed in read if needed != name]
            case type() | FunctionType():
                texts[name] = f"from {value.__module__} import {value.__name__} as {name}"
            case _:
                texts[name] = f"{name} = {value!r}"
    return "\n\n\n".join(reversed(texts.values())) + "\n"


def _definition(value: Any) -> str:
    """The text of a class or function, which a notebook has in no file."""
    functions = [v for v in (value, *vars(value).values()) if isinstance(v, FunctionType)]
    files = [function.__code__.co_filename for function in functions]
    script = getattr(sys.modules["__main__"], "__file__", None) or ""
    cells = (file for file in reversed(linecache.cache) if "ipy" in file)  # the newest first
    for file in (*files, script, *cells):
        text = "".join(linecache.getlines(file))
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == value.__name__:
                return ast.get_source_segment(text, node) or ""
    why = f"the text of {value.__name__} is not known"
    raise UsageError(why, help='put it into a file, and write own("mine.py:Experts")')


_KIND = "kind_of_language"
"""The mark of functions that make kinds."""


@dataclass(frozen=True)
class Words:
    """A value in the notation of the language: a sum of terms, each with its weight."""

    terms: tuple[tuple[float, str], ...]

    @property
    def text(self) -> str:
        """The notation: ``mlm(p=30%) + 2*sop``."""
        return " + ".join(
            term if weight == 1 else f"{show_number(weight)}*{term}" for weight, term in self.terms
        )

    def __add__(self, other: Value) -> Words:
        """The sum of the terms of both."""
        added = other if isinstance(other, Words) else Words(((1, text_of(other)),))
        return Words(self.terms + added.terms)

    def __mul__(self, weight: float) -> Words:
        """The terms with their weights times ``weight``."""
        return Words(tuple((weight * before, term) for before, term in self.terms))

    __rmul__ = __mul__

    def __radd__(self, nothing: int) -> Words:
        """The same, as ``sum`` begins with 0."""
        return self

    def __repr__(self) -> str:
        return self.text


Value = float | str | Path | Opened | Words | Sequence["Value"] | Callable[..., Any]
"""A value of a setting: numbers, true and false, words and text, files, lists, kinds, classes."""


def text_of(value: Value) -> str:
    """The value in the notation of the language.

    A str is that notation if it reads so, such as ``mlm + sop`` or ``true``, else a text, such as
    ``my texts/*.txt``; a Path is always a text.
    """
    match value:
        case Words():
            return value.text
        case bool():
            return "true" if value else "false"
        case Integral() | Real():  # numbers of numpy too
            return show_number(int(value) if isinstance(value, Integral) else float(value))
        case str():
            report = Diagnostics()
            is_single = len(parse(f"x = {value}", diagnostics=report).items) == 1
            # With the parentheses of a kind it is meant as one.
            return value if "(" in value or (is_single and not report.found) else quote(value)
        case Path() | Opened():
            return quote(str(value if isinstance(value, Path) else value.folder))
        case list() | tuple():
            return f"[{', '.join(map(text_of, value))}]"
        case FunctionType() if _KIND in vars(value):
            return text_of(value())
        case type():
            return quote(code_of(value))
    raise TypeError(f"the language has no {type(value).__name__}: {value!r:.60}")


@cache
def kinds() -> Mapping[str, ValueKind]:
    """Every kind of the language by its Python name: ``stable_adamw``, ``kd``."""
    named: dict[str, ValueKind] = {}
    todo = [setting.values for setting in schema().values()]
    while todo:
        allowed: AllowedValues = todo.pop()
        for name, kind in allowed.kinds.items():
            python = name.partition("(")[0].replace("-", "_")
            if python not in named:
                named[python] = kind
                todo += [argument.values for argument in kind.arguments.values()]
    return named


def kind(name: str) -> Callable[..., Words]:
    """The function of a kind by its Python name; its help has the arguments."""
    known = kinds()[name]
    word, arguments = known.name.partition("(")[0], known.arguments.values()

    def call(*values: Value, **named: Value) -> Words:
        texts = [text_of(value) for value in values]
        texts += [f"{argument}={text_of(value)}" for argument, value in named.items()]
        return Words(((1, f"{word}({', '.join(texts)})" if texts else word),))

    lines = (f"    {argument.name}: {argument.values.text}" for argument in arguments)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = "\n".join((known.meaning, "", *lines))
    parameters = [
        Parameter(a.name, Parameter.POSITIONAL_OR_KEYWORD, default=_Shown(a.default or "..."))
        for a in arguments
    ]
    vars(call).update({"__signature__": Signature(parameters), _KIND: True})
    return call


class _Shown(str):
    """A default as the language writes it."""

    __repr__ = str.__str__
