"""Completion in a shell: specs, files of specs, and settings with their values.

Answers come at a key, so the words are read from a file and the compiler is not loaded.
"""

import json
import os
from collections.abc import Iterator
from glob import escape, glob
from typing import Any

from bertc.base.resources import folder, shipped_specs

MOST_NAMES = 500


def complete_spec(incomplete: str) -> list[str]:
    """Shipped specs, and spec files and folders whose paths begin as what is typed."""
    shipped = [name for name in shipped_specs() if name.startswith(incomplete)]
    return [*shipped, *_files(incomplete)]


def complete_setting(incomplete: str) -> list[tuple[str, str]]:
    """Settings with their meanings; behind ``name=`` the words that its value may begin with."""
    words: dict[str, Any] = json.loads(
        (folder("grammar") / "bertc.words.json").read_text(encoding="utf-8")
    )
    name, equal, typed = incomplete.partition("=")
    known = words["settings"].get(words["letters"].get(name, name))
    if equal:
        values = known["values"] if known else ()
        return [(f"{name}={word}", "") for word in values if word.startswith(typed)]
    return [
        (f"{word}=", setting["meaning"])
        for word, setting in words["settings"].items()
        if word.startswith(incomplete)
    ]


def _files(typed: str) -> Iterator[str]:
    for path in sorted(glob(f"{escape(typed)}*"))[:MOST_NAMES]:
        if os.path.isdir(path):
            yield f"{path}/"
        elif path.endswith(".bertc"):
            yield path
