"""The parser's automaton: tokens to nodes, and the place of the first mistake."""

from collections.abc import Sequence
from typing import NamedTuple

from bertc.base.diagnostics import Source
from bertc.lang.read.build import Builder, Child
from bertc.lang.read.grammar import END, grammar
from bertc.lang.read.scan import Token
from bertc.lang.read.tree import Item


class Mistake(NamedTuple):
    """The index of the first token that the grammar does not allow, and the kinds that it does.

    The index is the number of tokens if they end too early.
    """

    place: int
    expected: frozenset[str]


def parse_items(tokens: Sequence[Token], source: Source) -> tuple[list[Item], Mistake | None]:
    """The items of a correct token list, or none and its first mistake."""
    machine = _Machine(Builder(source))
    end = tokens[-1].end if tokens else 0
    for place, token in enumerate((*tokens, Token(END, "", end, end))):
        states = machine.states.copy()
        if not machine.feed(token):
            kinds = {kind for row in grammar().actions for kind in row}
            return [], Mistake(place, frozenset(kind for kind in kinds if _allows(states, kind)))
    return machine.items, None


def _allows(states: list[int], kind: str) -> bool:
    """True if a terminal may come next; no nodes are built."""
    machine = _Machine(None)
    machine.states = states.copy()
    return machine.feed(Token(kind, "", 0, 0))


class _Machine:
    def __init__(self, builder: Builder | None) -> None:
        self.builder = builder
        self.table = grammar()
        self.states = [self.table.start]
        self.values: list[Child | list[Child]] = []
        self.items: list[Item] = []

    def feed(self, token: Token) -> bool:
        """Advance over a token, building the rules that it completes; False if not allowed."""
        actions, final, kind = self.table.actions, self.table.final, token.kind
        while (state := self.states[-1]) != final:
            action = actions[state].get(kind)
            if action is None:
                return False
            if action >= 0:
                self.states.append(action)
                self.values.append(token)
                return True
            self.reduce(-1 - action)
        return kind == END

    def reduce(self, index: int) -> None:
        production = self.table.productions[index]
        cut = len(self.states) - production.length
        del self.states[cut:]
        self.states.append(self.table.gotos[self.states[-1]][production.name])
        if self.builder is None:
            return
        parts = self.values[cut - 1 :]
        del self.values[cut - 1 :]
        if production.inline:
            self.values.append(_joined(parts))
        elif production.name == "start":
            self.items = [child for child in _joined(parts) if isinstance(child, Item)]
        elif production.lone and len(parts) == 1:
            self.values.append(parts[0])
        else:
            self.values.append(self.builder.node(production.name, _joined(parts)))


def _joined(parts: list[Child | list[Child]]) -> list[Child]:
    """A flat list of the parts; a first list grows in place, so that long lists stay cheap."""
    first = parts[0] if parts else []
    joined = first if isinstance(first, list) else [first]
    for part in parts[1:]:
        if isinstance(part, list):
            joined += part
        else:
            joined.append(part)
    return joined
