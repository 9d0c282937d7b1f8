"""Classes of the user's own as values: where their source is, or that of a notebook's cells."""

import ast
import inspect
import linecache
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from bertc.base import own_code
from bertc.base.diagnostics import UsageError


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
                todo += [other for other in read if other != name]
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
