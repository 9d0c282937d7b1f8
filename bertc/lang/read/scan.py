"""Scanning of any text to tokens and comments; unknown characters are reported and dropped."""

import re
from functools import cache
from typing import NamedTuple

from bertc.base.diagnostics import Diagnostics, Fix, Source, Span
from bertc.base.resources import folder
from bertc.lang.read.numbers import (
    MAX_NUMBER_CHARACTERS,
    NUMBER_UNITS,
    NotANumberError,
    range_ends,
    read_number,
)
from bertc.lang.read.tree import Comment

END = "$END"
LARGEST_TEXT = 1 << 20
MOST_TOKENS = 20_000
MAX_DEPTH = 64
LONGEST_STRING = 4096
MOST_STRAYS = 20
MOST_MISTAKES = 100
"""Mistakes after which reading stops: the text is no spec, or one mistake causes the others."""

OPENERS = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
CLOSERS = frozenset(OPENERS.values())
SPELLING = {
    "EQUAL": "=", "COMMA": ",", "PLUS": "+", "STAR": "*", "SLASH": "/", "LPAR": "(", "RPAR": ")",
    "LSQB": "[", "RSQB": "]", "LBRACE": "{", "RBRACE": "}",
}  # fmt: skip

_TERMINAL = re.compile(r'^([A-Z]+)(?:\.(\d))?: (?:/(.+)/|"(.)")$', re.MULTILINE)
_STRAY = re.compile(r"[^\x21-\x7e \t\r\n]+|.", re.DOTALL)
_CURLY_STRING = re.compile(
    '[\u201c\u201d\u201e\u2018\u2019\u00ab]([^\u201c\u201d\u2019\u00bb"\\\\\n]*)[\u201c\u201d\u2019\u00bb]'
)
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"
_PATH = re.compile(r"(?<![\w.~/-])(?:[A-Za-z_.~][\w.~-]*+)?(?:/[\w.~*?-]*+)++")
_DOTTED = re.compile(r"[A-Za-z_][\w-]*+(?:\.[A-Za-z][\w-]*+)++(?!\s*=)", re.ASCII)
_NUMBER = r"-?(?:\d+\.?\d*|\.\d+)"
_PARTS = re.compile(
    rf"{_NUMBER}(?:[eE]-?\d+)?[ \t]+(?:%|(?:[kMG]i?|T)(?![\w-])(?![ \t]*[={{(]))"  # 10 %, 4 k
    rf"|{_NUMBER}(?:[ \t]+[eE]-?|[eE][ \t]+-?)\d+(?!\w)"  # 1 e-3, 1e -3
    r"|-?\d{1,3}(?:[ ,]\d{3})*[ ,]000(?![\w.])",  # 10 000, 1,500,000
    re.ASCII,
)
"""A number written in several parts."""
_POWER = re.compile(r"(\d{1,4})[ \t]*(?:\^|\*\*)[ \t]*(\d{1,2})(?![\w.])", re.ASCII)
_SIGNS = frozenset(" \n\t\r=(),+*[]{}#")  # they begin neither a path nor a number
_OPEN_STRING = re.compile(r"[\"'][^\s()\[\]{},\"']*")


@cache
def terminals() -> re.Pattern[str]:
    """The pattern of all terminals of the grammar, by name, those of higher priority first."""
    rules = _TERMINAL.findall((folder("grammar") / "bertc.lark").read_text(encoding="utf-8"))
    rules.sort(key=lambda rule: -int(rule[1] or 0))
    return re.compile("|".join(f"(?P<{n}>{p or re.escape(sign)})" for n, _, p, sign in rules))


class Token(NamedTuple):
    """A terminal of the grammar with its place."""

    kind: str
    text: str
    start: int
    end: int

    def shown(self) -> str:
        """The token in a message."""
        if self.kind == END:
            return "the end"
        return f"`{self.text if len(self.text) <= 40 else self.text[:37] + '...'}`"


def scan(source: Source, diagnostics: Diagnostics) -> tuple[list[Token], list[Comment]]:
    """Scan a text to tokens and comments; none, and a report, if it exceeds the limits."""
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
        self.glued = False  # True if a stray directly follows the last word

    def run(self) -> tuple[list[Token], list[Comment]]:
        text, position = self.source.text, 0
        pattern = terminals()
        while position < len(text):
            if text[position] not in _SIGNS:
                path = _PATH.match(text, position) or _DOTTED.match(text, position)
                if path and path.group().upper() != path.group().lower():  # it has letters
                    position = self.unquoted_path(path)
                    continue
                if parts := self.in_parts(position):
                    position = parts
                    continue
            match = pattern.match(text, position)
            if match is None:
                if self.strays >= MOST_STRAYS:
                    message = f"more than {MOST_STRAYS} such mistakes; the rest is not read"
                    self.too_much(message, position, position + 1)
                    break
                position = self.stray(position)
                continue
            kind, position = str(match.lastgroup), match.end()
            if kind == "STRING" and text[position : position + 1].isalnum():
                # It swallowed the next opening quote.
                position = self.open_string(match.start())
                continue
            if self.glued and kind in ("NAME", "NUMBER"):
                self.extend(match.group(), position)
                continue
            self.glued = False
            if kind == "COMMENT":
                self.comments.append(Comment(self.span(*match.span()), match.group().rstrip()))
                if len(self.comments) > MOST_TOKENS:
                    self.too_much(f"more than {MOST_TOKENS:,} comments", *match.span())
                    return [], []
            elif kind != "SPACE" and not self.add(Token(kind, match.group(), *match.span())):
                return [], []
        return self.tokens, self.comments

    def span(self, start: int, end: int) -> Span:
        return Span(self.source, start, end)

    def add(self, token: Token) -> bool:
        """Add a token; False if the text exceeds the limits."""
        if token.kind == "NUMBER":
            self.check_number(self.span(token.start, token.end))
        if token.kind == "RANGE":
            for start, end in range_ends(token.text):
                self.check_number(self.span(token.start + start, token.start + end))
        change = (token.kind in OPENERS) - (token.kind in CLOSERS)
        self.depth = max(0, self.depth + change)
        self.tokens.append(token)
        message = ""
        if self.depth > MAX_DEPTH:
            message = f"brackets nested more than {MAX_DEPTH} deep"
        elif token.kind == "STRING" and len(token.text) > LONGEST_STRING:
            message = f"a string of more than {LONGEST_STRING:,} characters"
        elif len(self.tokens) + len(self.comments) > MOST_TOKENS:
            message = f"more than {MOST_TOKENS:,} words, numbers and signs in one spec"
        if message:
            self.too_much(message, token.start, token.end)
        return not message

    def too_much(self, message: str, start: int, end: int) -> None:
        self.diagnostics.error("E011", message, self.span(start, end))

    def extend(self, more: str, end: int) -> None:
        """Append to a word that a stray character has cut in two."""
        last = self.tokens[-1]
        self.tokens[-1] = Token("NAME", last.text + more, last.start, end)
        self.glued = False

    def check_number(self, span: Span) -> None:
        try:
            read_number(span.text)
        except NotANumberError as mistake:
            self.diagnostics.error(
                "E010",
                str(mistake),
                span,
                label="units: " + " ".join(unit for unit in NUMBER_UNITS if unit),
                help=mistake.instead or "numbers are written 12, 0.1, -1, 1e-4, 30k or 15%",
                fix=Fix(span, mistake.instead) if mistake.instead else None,
            )

    def in_parts(self, position: int) -> int:
        """Read a number written in several parts; returns its end, or 0 if there is none."""
        if not self.tokens or self.tokens[-1].kind not in ("EQUAL", "SLASH", "LPAR", "COMMA"):
            return 0
        text, before = self.source.text, self.tokens[-1].kind
        match, digits = _PARTS.match(text, position), ""
        if match and not ("000" in match.group()[-3:] and before != "EQUAL"):
            digits = re.sub(r"[ \t,]", "", match.group())
        elif match := _POWER.match(text, position):
            digits = str(int(match.group(1)) ** int(match.group(2)))
        if not match or not digits or len(digits) > MAX_NUMBER_CHARACTERS:
            return 0
        span = self.span(*match.span())
        self.diagnostics.error(
            "E010",
            f"`{match.group()[:60]}` is not a number",
            span,
            label="a number stands in one piece",
            help=digits,
            fix=Fix(span, digits),
        )
        self.tokens.append(Token("NUMBER", digits, *match.span()))
        return match.end()

    def stray(self, position: int) -> int:
        """Report a stray character; returns the position after it."""
        text = self.source.text
        self.strays += 1
        if text[position] in "\"'":
            return self.open_string(position)
        if curly := _CURLY_STRING.match(text, position):
            return self.curly_string(curly)
        match = _STRAY.match(text, position)
        assert match is not None, "the pattern takes any character"
        end = match.end()
        span = self.span(position, end)
        if text[position] == ":":
            message, label, instead = "`:` between a name and its value", "write `=`", "="
            self.tokens.append(Token("EQUAL", ":", position, end))
        else:
            message, label = f"{_described(match.group())} has no meaning here", ""
            instead = _plain(match.group())
            self.glue(position, instead)
        help = f"write {instead}" if instead.strip() else "remove it"
        self.diagnostics.error(
            "E001", message, span, label=label, help=help, fix=Fix(span, instead)
        )
        return end

    def glue(self, position: int, instead: str) -> None:
        """Remember that a stray directly follows a word, so the next word is appended to it."""
        last = self.tokens[-1] if self.tokens else None
        self.glued = instead != " " and bool(last and last.kind == "NAME" and last.end == position)
        if self.glued and last and instead:
            self.tokens[-1] = Token("NAME", last.text + instead, last.start, last.end)

    def curly_string(self, match: re.Match[str]) -> int:
        """Report typographic quotes, which word processors put in place of plain ones."""
        start, end = match.span()
        plain = f'"{match.group(1)}"'
        self.diagnostics.error(
            "E001",
            f"`{match.group()[0]}` is no quote that bertc reads",
            self.span(start, end),
            help=plain if len(plain) <= 60 else "write plain quotes",
            fix=Fix(self.span(start, end), plain),
        )
        self.tokens.append(Token("STRING", plain, start, end))
        return end

    def unquoted_path(self, match: re.Match[str]) -> int:
        """Report a path without quotes; a quote directly after it belongs to it."""
        start, end = match.span()
        end += self.source.text[end : end + 1] in ("'", '"')
        span, plain = self.span(start, end), f'"{match.group()}"'
        help = plain if len(plain) <= 60 else "write quotes around it"
        self.diagnostics.error(
            "E009", "a path stands in quotes", span, help=help, fix=Fix(span, plain)
        )
        self.tokens.append(Token("STRING", plain, start, end))
        return end

    def unopened_string(self, word: Token, quote: str) -> int:
        """Report a word with a closing quote only."""
        place = self.span(word.start, word.start)
        self.diagnostics.error(
            "E009",
            "this string has no opening quote",
            self.span(word.start, word.end + 1),
            help=f"{quote}{word.text[:60]}{quote}",
            fix=Fix(place, quote),
        )
        self.tokens[-1] = Token("STRING", f"{quote}{word.text}{quote}", word.start, word.end + 1)
        return word.end + 1

    def open_string(self, position: int) -> int:
        """Report a quote that is never closed; the string ends with the word."""
        text = self.source.text
        match = _OPEN_STRING.match(text, position)
        assert match is not None, "the pattern takes any quote"
        quote, end = text[position], match.end()
        line = text.find("\n", position)
        # Each open quote costs a look at the rest of its line.
        self.strays += ((line if line >= 0 else len(text)) - position) // 50_000
        last = self.tokens[-1] if self.tokens else None
        if last and last.kind == "NAME" and last.end == position and end == position + 1:
            return self.unopened_string(last, quote)
        self.diagnostics.error(
            "E009",
            "this string is never closed",
            self.span(position, end),
            label="the closing quote is missing",
            help=match.group()[:60] + quote,
            fix=Fix(self.span(end, end), quote),
        )
        self.tokens.append(Token("STRING", match.group().replace("\\", "") + quote, position, end))
        return end


def _plain(stray: str) -> str:
    """The replacement of a stray character: a space, a hyphen, or nothing."""
    if stray.isspace():
        return " "
    return "-" if stray in _DASHES else ""


def _described(stray: str) -> str:
    first = stray[0]
    if first.isprintable() and len(stray) <= 20:
        return f"`{stray}`"
    return f"the character U+{ord(first):04X}" + (" and what follows" if len(stray) > 1 else "")
