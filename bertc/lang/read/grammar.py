"""The parse table of ``grammar/bertc.lark``.

lark turns the grammar into an LALR(1) table. Doing so takes longer than all the rest of
``bertc check``, so ``python -m bertc.lang.read.table`` stores it next to the grammar, as
``bertc.table.json``.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from bertc.base.storage.paths import folder

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


def table_path() -> Path:
    """The file of the compiled table."""
    return folder("grammar") / "bertc.table.json"


@cache
def grammar() -> Grammar:
    """The grammar as an automaton, from its compiled table."""
    table = json.loads(table_path().read_text(encoding="utf-8"))
    return Grammar(
        start=table["start"],
        final=table["final"],
        productions=tuple(Production(*row) for row in table["productions"]),
        actions=tuple(table["actions"]),
        gotos=tuple(table["gotos"]),
        pattern=re.compile("|".join(f"(?P<{n}>{p})" for n, p in table["terminals"])),
    )
