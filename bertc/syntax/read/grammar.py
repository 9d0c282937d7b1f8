"""The parse table of ``grammar/bertc.lark``.

lark turns the grammar into an LALR(1) table. Doing so takes longer than all the rest of
``bertc check``, so the table is stored beside the grammar as ``bertc.table.json``, with the
checksum of the grammar; a changed grammar is compiled again.
``python -m bertc.syntax.read.table`` writes the file.
"""

import json
import re
import zlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from bertc.resources import folder

END = "$END"


class Production(NamedTuple):
    """A production ``name -> length symbols``.

    ``inline``: its children go to the parent; ``lone``: a single child replaces it.
    """

    name: str
    length: int
    inline: bool
    lone: bool


class Grammar(NamedTuple):
    """An LALR(1) automaton and the pattern of its terminals.

    ``actions[state][terminal]`` is the next state, or ``-1 - p`` to reduce by production p;
    ``gotos[state][name]`` the state after a reduced ``name``.
    """

    start: int
    final: int
    productions: tuple[Production, ...]
    actions: tuple[dict[str, int], ...]
    gotos: tuple[dict[str, int], ...]
    pattern: re.Pattern[str]


def source_path() -> Path:
    """The file of the grammar, in lark's language."""
    return folder("grammar") / "bertc.lark"


def table_path() -> Path:
    """The file of the compiled table."""
    return folder("grammar") / "bertc.table.json"


@cache
def grammar() -> Grammar:
    """The grammar as an automaton; compiled by lark if the table is outdated."""
    source = source_path().read_text(encoding="utf-8")
    path = table_path()
    table = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if table.get("checksum") != checksum(source):
        from bertc.syntax.read.table import compile_table

        table = compile_table(source)
    return Grammar(
        start=table["start"],
        final=table["final"],
        productions=tuple(Production(*row) for row in table["productions"]),
        actions=tuple(table["actions"]),
        gotos=tuple(table["gotos"]),
        pattern=re.compile("|".join(f"(?P<{n}>{p})" for n, p in table["terminals"])),
    )


def checksum(source: str) -> int:
    """The checksum of a grammar, stored in its table."""
    return zlib.crc32(source.encode())
