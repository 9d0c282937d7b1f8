"""The stub of settings and kinds for editors and type checkers: ``python -m tests.typed``."""

from pathlib import Path

import bertc
from bertc import lab_api
from bertc.api.words import kinds
from bertc.lang.write.schema import ValueKind

PATH = Path(bertc.__file__).parent / "api" / "typed.pyi"
HEAD = '''"""Settings and kinds of the language, with their arguments: ``python -m tests.typed``."""

from typing import TypedDict

from bertc.api.words import Value, Words

class SettingValues(TypedDict, total=False):
    """The settings, and the letters of the papers, as keywords of ``Spec``."""

    lr: Value
    """the learning rate of the optimizer"""
'''


def stub() -> str:
    """Settings as a TypedDict, and a function for each kind."""
    lines = list[str]()
    for name, setting in lab_api.schema().items():
        for key in filter(None, (name, setting.alias)):
            lines += [f"    {key}: Value", f'    """{setting.meaning}"""']
    return HEAD + "\n".join([*lines, *map(function, *zip(*sorted(kinds().items()), strict=True))])


def function(name: str, kind: ValueKind) -> str:
    """The function of a kind."""
    named = [argument.name for argument in kind.arguments.values()]
    first = [f"{one}: Value = ..." for one in kind.positional]
    more = [f"{one}: Value = ..." for one in named if one not in kind.positional]
    arguments = [*first, *(["*", *more] if more else []), "**texts: Value"]
    if not kind._node.others:
        arguments.pop()
    title, *_ = kind.meaning.replace("\\", "").split("\n\n")
    body = f'    """{" ".join(title.split())}"""'
    return f"\ndef {name}(\n    {', '.join(arguments)}\n) -> Words:\n{body}\n"


if __name__ == "__main__":
    PATH.write_text(stub())
