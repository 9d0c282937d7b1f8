"""The parse table of ``grammar/bertc.lark``.

lark turns the grammar into an LALR(1) table. Doing so takes longer than all the rest of
``bertc check``, so the table lies beside the grammar as ``bertc.table.json``, marked with the
checksum of the grammar it was made from; a changed grammar is compiled anew.
``python -m bertc.syntax.grammar`` writes the file.
"""

import json
import re
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bertc.resources import folder

END = "$END"


@dataclass(frozen=True)
class Production:
    """``name -> length symbols``.

    ``inline``: its children go to the parent; ``lone``: a single child stands for it.
    """

    name: str
    length: int
    inline: bool
    lone: bool


@dataclass(frozen=True)
class Grammar:
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
    """The grammar, written in lark's language."""
    return folder("grammar") / "bertc.lark"


def table_path() -> Path:
    """The table made from it."""
    return folder("grammar") / "bertc.table.json"


@cache
def grammar() -> Grammar:
    """The grammar, ready to drive a parser."""
    source = source_path().read_text(encoding="utf-8")
    path = table_path()
    table = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if table.get("checksum") != _checksum(source):
        table = compile_table(source)
    return Grammar(
        start=table["start"],
        final=table["final"],
        productions=tuple(Production(*row) for row in table["productions"]),
        actions=tuple(table["actions"]),
        gotos=tuple(table["gotos"]),
        pattern=re.compile("|".join(f"(?P<{n}>{p})" for n, p in table["terminals"])),
    )


def _checksum(source: str) -> int:
    return zlib.crc32(source.encode())


def compile_table(source: str) -> dict[str, Any]:
    """Have lark build the automaton, and write it down as plain data."""
    from lark import Lark
    from lark.parsers.lalr_analysis import Shift

    lark = Lark(source, parser="lalr", lexer="basic", maybe_placeholders=False)
    table = lark.parser.parser._parse_table
    rules = {rule: index for index, rule in enumerate(lark.rules)}
    states = range(len(table.states))
    actions: list[dict[str, int]] = [{} for _ in states]
    gotos: list[dict[str, int]] = [{} for _ in states]
    terminals = {terminal.name for terminal in lark.terminals} | {END}
    for state, row in table.states.items():
        for symbol, (action, argument) in row.items():
            into = actions if symbol in terminals else gotos
            into[state][symbol] = argument if action is Shift else -1 - rules[argument]
    return {
        "checksum": _checksum(source),
        "terminals": [
            [terminal.name, terminal.pattern.to_regexp()]
            for terminal in sorted(lark.terminals, key=lambda t: (-t.priority, t.name))
        ],
        "start": table.start_states["start"],
        "final": table.end_states["start"],
        "productions": [
            [
                str(rule.origin.name),
                len(rule.expansion),
                str(rule.origin.name).startswith("_"),
                bool(rule.options.expand1),
            ]
            for rule in lark.rules
        ],
        "actions": actions,
        "gotos": gotos,
    }


def main() -> None:
    """Write the table beside the grammar."""
    table = compile_table(source_path().read_text(encoding="utf-8"))
    table_path().write_text(json.dumps(table, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
