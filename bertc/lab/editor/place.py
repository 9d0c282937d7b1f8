"""The place of a cursor in a text, however little of a spec is written, and what surrounds it."""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

_BEFORE_CURSOR = re.compile(r"""(?:[^"'#]|"(?:\\.|[^"\\])*+"|'(?:\\.|[^'\\])*+')*+(.?)""")
"""A line up to the cursor: closed strings and other text, then an open quote or a comment."""
_TOKEN = re.compile(
    r"""\#[^\n]*|"(?:\\.|[^"\\\n])*+"?|'(?:\\.|[^'\\\n])*+'?|[=,+*/()\[\]{}]|[^\s=,+*/()\[\]{}#"']+"""
)
"""A comment, a string, a sign, or a word or number."""
_WORD = re.compile(r"[A-Za-z_][\w-]*$")
_REST_OF_WORD = re.compile(r"[\w-]*")
_ASSIGNED = re.compile(r"[\w-]*\s*=")
_OF_A_VALUE = ("(", "[", "{", ",", "+", "*")
"""Signs after which a word in a bracket belongs to the value."""

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
    tokens = [token for token in _TOKEN.findall(before) if token[0] != "#"]
    walk = _Walk()
    for index, token in enumerate(tokens):
        walk.take(tokens[index - 1] if index else "", token, tokens[index + 1 : index + 3])
    expected = _expect_after(tokens[-1] if tokens else "", walk.brackets)
    if expected == "nothing" and before.endswith("\n"):  # a bracket that is not closed yet
        return walk.levels[-1], (), "item"
    return walk.levels[-1], tuple(walk.brackets), expected


class _Walk:
    """A walk over tokens that knows which levels and brackets are open."""

    def __init__(self) -> None:
        self.levels = [Level()]
        self.brackets: list[Bracket] = []

    def take(self, before: str, token: str, following: list[str]) -> None:
        """Take a token between the one before it and two after it."""
        match token:
            case "(":
                self.brackets.append(Bracket("(", before))
            case "{" if not self.brackets and _is_word(before):
                self.levels.append(Level(self.levels[-1].setting))
            case "[" | "{":
                self.brackets.append(Bracket(token))
            case "," if self.brackets:
                self.brackets[-1].unnamed += not self.brackets[-1].argument
                self.brackets[-1].argument = ""
            case ")" | "]" | "}" if self.brackets:
                self.brackets.pop()
            case ")" | "]" | "}" if self.levels[1:]:
                self.levels.pop()
            case _ if _is_word(token):
                self.word(before, token, following)

    def word(self, before: str, text: str, following: list[str]) -> None:
        begins = text == "extends" or following[:1] in (["="], ["{"]) or following[1:] == ["{"]
        if begins and before not in _OF_A_VALUE:  # whatever bracket was left open
            self.brackets.clear()
        if self.brackets:
            innermost = self.brackets[-1]
            if following[:1] == ["="]:
                innermost.argument = text
                innermost.given.append(text)
            elif not innermost.unnamed and not innermost.argument:
                innermost.first = text
        elif text == "extends":
            self.levels[-1].setting = ""
        elif begins and text[0] not in "\"'":
            self.levels[-1].setting = text
            self.levels[-1].given.append(text)


def _is_word(token: str) -> bool:
    """True of a name or a string."""
    return token[:1].isalpha() or token[:1] in ("_", '"', "'")


def _expect_after(last: str, brackets: list[Bracket]) -> Expected:
    """The form of what may follow a token."""
    if last == "extends":
        return "base"
    if last in ("=", "+", "*"):
        return "value"
    if not brackets:
        return "nothing" if last in (",", "/") else "item"
    if last in ("(", ",") and brackets[-1].sign == "(":
        return "argument"
    return "value" if last in ("[", "{", ",") else "nothing"
