"""The TextMate grammar, which colours specs in editors: ``python docs/grammars.py``."""

import json
import re
from collections.abc import Iterable
from typing import Any

from bertc.base.storage.paths import folder
from bertc.ir.program.settings import aliases
from bertc.lang.write.schema import AllowedValues, schema

TEXT_MATE_FILE = folder("grammar") / "vscode" / "bertc.tmLanguage.json"


def text_mate() -> dict[str, Any]:
    """The TextMate grammar: comments, texts, numbers, settings, arguments and kinds."""
    named = [*schema(), *aliases()]
    values = (setting.values for setting in schema().values())
    kinds = {kind.partition("(")[0] for those in values for kind in _kinds_of(those)}
    rules = [
        ("comment.line.number-sign.bertc", "#.*$"),
        ("string.quoted.double.bertc", r'"(?:\\.|[^"\\])*"'),
        ("string.quoted.single.bertc", r"'(?:\\.|[^'\\])*'"),
        ("keyword.control.bertc", _word(["extends", "stage"])),
        ("variable.language.setting.bertc", _word(named) + r"(?=\s*[={])"),
        ("variable.parameter.bertc", r"(?<![\w-])[A-Za-z_][\w-]*(?=\s*=)"),
        ("constant.language.bertc", _word(["true", "false"])),
        ("support.type.kind.bertc", _word(kinds)),
        (
            "constant.numeric.bertc",
            r"(?<![\w-])-?\.?\d(?:[eE][+-]?\d|[A-Za-z\d_.])*%?(?:[ \t]+(?:tokens|words|epochs))?",
        ),
        ("keyword.operator.bertc", r"[=+*/]"),
    ]
    return {
        "name": "bertc",
        "scopeName": "source.bertc",
        "fileTypes": ["bertc"],
        "patterns": [{"name": scope, "match": pattern} for scope, pattern in rules],
    }


def _kinds_of(values: AllowedValues) -> set[str]:
    """The kinds among values, and among those of their arguments."""
    names: set[str] = set()
    waiting = [values]
    while waiting:
        for name, kind in waiting.pop().kinds.items():
            if name not in names:
                names.add(name)
                waiting += [argument.values for argument in kind.arguments.values()]
    return names


def _word(names: Iterable[str]) -> str:
    longest_first = sorted(set(names), key=lambda name: (-len(name), name))
    return rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w-])"


def text() -> str:
    """The text of the file."""
    return json.dumps(text_mate(), indent=1) + "\n"


if __name__ == "__main__":
    TEXT_MATE_FILE.write_text(text(), encoding="utf-8")
