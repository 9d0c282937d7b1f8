"""The parse table of ``grammar/bertc.lark``.

lark turns the grammar into an LALR(1) table. Doing so takes longer than all the rest of
``bertc check``, so ``python -m bertc.lang.read.grammar`` stores it next to the grammar, as
``bertc.table.json``.
"""

import json
import re
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

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


def compile_table(source: str) -> dict[str, Any]:
    """Compile a grammar by lark to a table of plain data, the same in every run."""
    from lark import Lark
    from lark.parsers.lalr_analysis import Shift

    lark = Lark(source, parser="lalr", lexer="basic", maybe_placeholders=False)
    table = lark.parser.parser._parse_table
    terminals = {terminal.name for terminal in lark.terminals} | {END}
    rows = {rule: _production(rule) for rule in lark.rules}
    productions = sorted(set(rows.values()))
    numbers = _number_states(table.states, table.start_states["start"], Shift)
    actions: list[dict[str, int]] = [{} for _ in numbers]
    gotos: list[dict[str, int]] = [{} for _ in numbers]
    for state, number in numbers.items():
        for symbol, (action, argument) in sorted(table.states[state].items(), key=itemgetter(0)):
            into = actions if symbol in terminals else gotos
            shift = action is Shift
            into[number][symbol] = (
                numbers[argument] if shift else -1 - productions.index(rows[argument])
            )
    return {
        "terminals": [
            [terminal.name, terminal.pattern.to_regexp()]
            for terminal in sorted(lark.terminals, key=lambda t: (-t.priority, t.name))
        ],
        "start": numbers[table.start_states["start"]],
        "final": numbers[table.end_states["start"]],
        "productions": [list(row) for row in productions],
        "actions": actions,
        "gotos": gotos,
    }


def _production(rule: Any) -> tuple[str, int, bool, bool]:
    name = str(rule.origin.name)
    return name, len(rule.expansion), name.startswith("_"), bool(rule.options.expand1)


def _number_states(states: Any, start: int, shift: object) -> dict[int, int]:
    """States numbered by a walk from the start, because lark's own order varies."""
    numbers = {start: 0}
    queue = [start]
    while queue:
        for _, (action, target) in sorted(states[queue.pop(0)].items(), key=itemgetter(0)):
            if action is shift and target not in numbers:
                numbers[target] = len(numbers)
                queue.append(target)
    return numbers


def main() -> None:
    """Write the table beside the grammar."""
    table = compile_table((folder("grammar") / "bertc.lark").read_text(encoding="utf-8"))
    table_path().write_text(json.dumps(table, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
