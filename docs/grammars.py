"""The words of the language as files for other programs: ``python docs/grammars.py``.

A TextMate grammar colours specs in editors; a list of words lets a shell complete settings without
loading the settings themselves, which takes longer than a key.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bertc.base.resources import folder
from bertc.ir.program.settings import aliases
from bertc.lang.write.schema import AllowedValues, schema

WORDS_FILE = "bertc.words.json"
TEXT_MATE_FILE = "vscode/bertc.tmLanguage.json"


def word_table() -> dict[str, Any]:
    """Each setting with its meaning and the words that its value may begin with."""
    settings = {}
    for name, setting in schema().items():
        kinds = (kind.name for kind in setting.values.kinds.values() if not kind.unit)
        values = list(dict.fromkeys([*kinds, *setting.values.words]))
        settings[name] = {"meaning": setting.meaning, "values": values}
    return {"settings": settings, "letters": aliases()}


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
            r"(?<![\w-])-?\.?\d(?:[eE][+-]?\d|[A-Za-z\d_.])*%?(?:[ \t]+tokens)?",
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


def files() -> dict[Path, str]:
    """The texts of both files."""
    return {
        folder("grammar") / name: json.dumps(content, indent=1) + "\n"
        for name, content in ((WORDS_FILE, word_table()), (TEXT_MATE_FILE, text_mate()))
    }


def write_grammars() -> None:
    """Write the files."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_grammars()
