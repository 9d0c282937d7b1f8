"""Text to tokens and comments, whatever the text is: what fits nothing is reported and dropped."""

import re
from dataclasses import dataclass

from bertc.diagnostics import Diagnostics, Fix, Source, Span
from bertc.syntax.grammar import END, grammar
from bertc.syntax.numbers import UNITS, NotANumberError, read_number
from bertc.syntax.tree import Comment

LARGEST_TEXT = 1 << 20
MOST_TOKENS = 20_000
DEEPEST = 64
MOST_STRAYS = 20

OPENERS = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
CLOSERS = frozenset(OPENERS.values())
SPELLING = {
    "EQUAL": "=", "COMMA": ",", "PLUS": "+", "STAR": "*", "SLASH": "/", "LPAR": "(", "RPAR": ")",
    "LSQB": "[", "RSQB": "]", "LBRACE": "{", "RBRACE": "}",
}  # fmt: skip

_STRAY = re.compile(r"[^\x21-\x7e \t\r\n]+|.", re.DOTALL)
_OPEN_STRING = re.compile(r"[\"'][^\s()\[\]{},\"']*")


@dataclass(frozen=True, slots=True)
class Token:
    """A terminal of the grammar and where it stands."""

    kind: str
    text: str
    start: int
    end: int

    def shown(self) -> str:
        """As a message names it."""
        if self.kind == END:
            return "the end"
        return f"`{self.text if len(self.text) <= 40 else self.text[:37] + '...'}`"


def scan(source: Source, diagnostics: Diagnostics) -> tuple[list[Token], list[Comment]]:
    """Tokens and comments of a text. A text beyond the limits gives none, and says why."""
    if len(source.text) > LARGEST_TEXT:
        message = f"a spec of {len(source.text):,} characters; at most {LARGEST_TEXT:,} are read"
        diagnostics.error("E011", message, Span(source, 0, 0))
        return [], []
    return _Scanner(source, diagnostics).run()


class _Scanner:
    def __init__(self, source: Source, diagnostics: Diagnostics) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.tokens: list[Token] = []
        self.comments: list[Comment] = []
        self.depth = 0
        self.strays = 0

    def run(self) -> tuple[list[Token], list[Comment]]:
        text, position = self.source.text, 0
        match = grammar().pattern.match
        while position < len(text):
            found = match(text, position)
            if found is None:
                position = self.stray(position)
                if self.strays > MOST_STRAYS:
                    break
                continue
            kind, position = str(found.lastgroup), found.end()
            if kind == "COMMENT":
                self.comments.append(Comment(self.span(*found.span()), found.group().rstrip()))
            elif kind != "SPACE" and not self.add(Token(kind, found.group(), *found.span())):
                return [], []
        return self.tokens, self.comments

    def span(self, start: int, end: int) -> Span:
        return Span(self.source, start, end)

    def add(self, token: Token) -> bool:
        """Keep a token; False when the text is beyond what is read."""
        if token.kind == "NUMBER":
            self.check_number(token)
        self.depth += (token.kind in OPENERS) - (token.kind in CLOSERS)
        self.tokens.append(token)
        message = ""
        if self.depth > DEEPEST:
            message = f"brackets nested more than {DEEPEST} deep"
        elif len(self.tokens) > MOST_TOKENS:
            message = f"more than {MOST_TOKENS:,} words, numbers and signs in one spec"
        if message:
            self.diagnostics.error("E011", message, self.span(token.start, token.end))
        return not message

    def check_number(self, token: Token) -> None:
        try:
            read_number(token.text)
        except NotANumberError as mistake:
            span = self.span(token.start, token.end)
            self.diagnostics.error(
                "E010",
                str(mistake),
                span,
                label="units: " + " ".join(unit for unit in UNITS if unit),
                help=f"{mistake.instead}" if mistake.instead else "",
                fix=Fix(span, mistake.instead) if mistake.instead else None,
            )

    def stray(self, position: int) -> int:
        """Report what fits no terminal; the position after it."""
        text = self.source.text
        self.strays += 1
        if text[position] in "\"'":
            return self.open_string(position)
        found = _STRAY.match(text, position)
        assert found is not None, "the pattern takes any character"
        end = found.end()
        span = self.span(position, end)
        if text[position] == ":":
            message, label, instead = "`:` between a name and its value", "write `=`", "="
            self.tokens.append(Token("EQUAL", ":", position, end))
        else:
            message, label = f"{_described(found.group())} has no meaning here", ""
            instead = ""
        help = f"write {instead}" if instead else "remove it"
        self.diagnostics.error(
            "E001", message, span, label=label, help=help, fix=Fix(span, instead)
        )
        if self.strays == MOST_STRAYS:
            self.diagnostics.error(
                "E011", f"more than {MOST_STRAYS} such mistakes; the rest is not read", span
            )
            self.strays += 1
        return end

    def open_string(self, position: int) -> int:
        """A quote without its partner: the string is taken to end with the word."""
        text = self.source.text
        found = _OPEN_STRING.match(text, position)
        assert found is not None, "the pattern takes any quote"
        quote, end = text[position], found.end()
        self.diagnostics.error(
            "E009",
            "this string is never closed",
            self.span(position, end),
            label=f"no {quote} on the rest of the line",
            help=found.group()[:60] + quote,
            fix=Fix(self.span(end, end), quote),
        )
        self.tokens.append(Token("STRING", found.group().replace("\\", "") + quote, position, end))
        return end


def _described(stray: str) -> str:
    first = stray[0]
    if first.isprintable() and len(stray) <= 20:
        return f"`{stray}`"
    return f"the character U+{ord(first):04X}" + (" and what follows" if len(stray) > 1 else "")
