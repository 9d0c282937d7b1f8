"""The place of a cursor in a text, however little of a spec is written, and what surrounds it."""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from bertc import Diagnostics, Source
from bertc.lang.read.brackets import balance
from bertc.lang.read.scan import CLOSERS, SPELLING, Token, scan

_BEFORE_CURSOR = re.compile(r"""(?:[^"'#]|"(?:\\.|[^"\\])*+"|'(?:\\.|[^'\\])*+')*+(.?)""")
"""A line up to the cursor: closed strings and other text, then an open quote or a comment."""
_WORD = re.compile(r"[A-Za-z_][\w-]*$")
_REST_OF_WORD = re.compile(r"[\w-]*")
_ASSIGNED = re.compile(r"[\w-]*\s*=")

Expected = Literal["item", "value", "argument", "base", "nothing"]


@dataclass
class Level:
    """The settings of a text, or of a block in it: those written before, and the last of them."""

    block: str = ""
    setting: str = ""
    given: list[str] = field(default_factory=list)


@dataclass
class Bracket:
    """An open bracket within a value; of arguments it has the kind and what is given before.

    ``first`` is the first argument if it is a word, which some kinds are named with.
    """

    sign: str
    kind: str = ""
    first: str = ""
    argument: str = ""
    unnamed: int = 0
    given: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CursorPlace:
    """The word at a cursor, from ``start`` to ``end``, and what surrounds it.

    ``expected`` is what may stand there. ``named`` is true of a word before ``=``.
    """

    text: str
    start: int
    end: int
    cursor: int
    expected: Expected
    level: Level
    brackets: tuple[Bracket, ...] = ()
    named: bool = False

    @property
    def typed(self) -> str:
        """The part before the cursor."""
        return self.text[self.start : self.cursor]

    @property
    def word(self) -> str:
        """All of the word."""
        return self.text[self.start : self.end]


def place_at(text: str, cursor: int) -> CursorPlace:
    """The place of an offset in any text."""
    cursor = min(max(cursor, 0), len(text))
    line = text[text.rfind("\n", 0, cursor) + 1 : cursor]
    match = _BEFORE_CURSOR.match(line)
    assert match is not None, "the pattern takes any line"
    if match[1]:  # in a comment or a string
        return CursorPlace(text, cursor, cursor, cursor, "nothing", Level())
    word = _WORD.search(line)
    start = cursor - len(word.group()) if word else cursor
    rest = _REST_OF_WORD.match(text, cursor)
    end = rest.end() if rest and word else cursor
    level, brackets, expected = _surroundings(text[:start])
    named = bool(_ASSIGNED.match(text, cursor))
    return CursorPlace(text, start, end, cursor, expected, level, brackets, named=named)


@lru_cache(32)
def _surroundings(before: str) -> tuple[Level, tuple[Bracket, ...], Expected]:
    """The level and the brackets that a text leaves open, and what may follow it.

    While a word is typed the text before it is the same.
    """
    source = Source("<spec>", before)
    tokens = balance(scan(source, Diagnostics())[0], source, Diagnostics())
    while tokens and tokens[-1].kind in CLOSERS and tokens[-1].start == tokens[-1].end:
        tokens.pop()  # put there to close what is still being written
    walk = _Walk()
    for index in range(len(tokens)):
        walk.take(tokens[index - 1 if index else 0 : index + 3], first=not index)
    expected = _expected(tokens[-1].kind if tokens else "", walk.brackets)
    if expected == "nothing" and before.endswith("\n"):  # a bracket that is not closed yet
        return walk.levels[-1], (), "item"
    return walk.levels[-1], tuple(walk.brackets), expected


class _Walk:
    """A walk over tokens that knows which levels and brackets are open."""

    def __init__(self) -> None:
        self.levels = [Level()]
        self.brackets: list[Bracket] = []

    def take(self, around: list[Token], first: bool) -> None:
        """Take a token; ``around`` is the one before it, it, and two after it."""
        before, (token, *after) = ("", "") if first else around[0][:2], around[not first :]
        following = [follower.kind for follower in after]
        match token.kind:
            case "EXTENDS":
                self.brackets.clear()
                self.levels[-1].setting = ""
            case "NAME":
                self.name(token.text, following, before[0])
            case "LPAR":
                self.brackets.append(Bracket("(", before[1]))
            case "LBRACE" if not self.brackets and before[0] in ("NAME", "STRING"):
                self.levels.append(Level(self.levels[-1].setting))
            case "LSQB" | "LBRACE":
                self.brackets.append(Bracket(SPELLING[token.kind]))
            case "COMMA" if self.brackets:
                self.brackets[-1].unnamed += not self.brackets[-1].argument
                self.brackets[-1].argument = ""
            case "RPAR" | "RSQB" | "RBRACE":
                self.close()

    def name(self, text: str, following: list[str], before: str) -> None:
        if self.brackets:
            innermost = self.brackets[-1]
            if following[:1] == ["EQUAL"]:
                innermost.argument = text
                innermost.given.append(text)
            elif not innermost.unnamed and not innermost.argument:
                innermost.first = text
        elif following[:1] in (["EQUAL"], ["LBRACE"]) or following == ["STRING", "LBRACE"]:
            self.levels[-1].setting = text
            self.levels[-1].given.append(text)

    def close(self) -> None:
        if self.brackets:
            self.brackets.pop()
        elif self.levels[1:]:
            self.levels.pop()


def _expected(last: str, brackets: list[Bracket]) -> Expected:
    """The form of what may follow a token."""
    if last == "EXTENDS":
        return "base"
    if last in ("EQUAL", "PLUS", "STAR"):
        return "value"
    if not brackets:
        return "nothing" if last in ("COMMA", "SLASH") else "item"
    if last in ("LPAR", "COMMA") and brackets[-1].sign == "(":
        return "argument"
    return "value" if last in ("LSQB", "LBRACE", "COMMA") else "nothing"
