"""Repair of a faulty setting: report the edit that makes it parse, and apply it."""

from collections.abc import Sequence, Set
from typing import NamedTuple

from bertc.base.diagnostics import Diagnostics, Fix, Source, Span
from bertc.base.resources import shipped_specs
from bertc.lang.read.grammar import END
from bertc.lang.read.machine import Mistake, parse_items
from bertc.lang.read.scan import CLOSERS, OPENERS, SPELLING, Token

MOST_REPAIRS = 5
_OPERATORS = ("PLUS", "STAR", "SLASH", "COMMA")
_VALUE_STARTS = {"NUMBER", "STRING", "LSQB"}


class _Edit(NamedTuple):
    """An edit: ``drop`` tokens at ``at`` are replaced by ``insert``."""

    at: int
    drop: int
    insert: tuple[Token, ...]

    def apply(self, tokens: Sequence[Token]) -> list[Token]:
        return [*tokens[: self.at], *self.insert, *tokens[self.at + self.drop :]]


def repaired(tokens: Sequence[Token], source: Source, diagnostics: Diagnostics) -> list[Token]:
    """The corrected tokens of an item; empty if the meaning is unclear."""
    current = list(tokens)
    for _ in range(MOST_REPAIRS):
        mistake = parse_items(current, source)[1]
        if mistake is None:
            return current
        edit = _best_edit(current, mistake.place, source)
        _Report(current, mistake, source, diagnostics).make(edit)
        if edit is None:
            prefix = current[: mistake.place]
            while prefix and parse_items(prefix, source)[1]:
                prefix.pop()
            return prefix
        current = edit.apply(current)
    return []


def _best_edit(tokens: list[Token], place: int, source: Source) -> _Edit | None:
    """The candidate after which most of the rest parses; None if none helps."""
    best, reach = None, place
    for edit in _candidates(tokens, place):
        mistake = parse_items(edit.apply(tokens), source)[1]
        end = len(tokens) + 1
        reached = mistake.place - len(edit.insert) + edit.drop if mistake else end
        if reached > reach + (edit.drop == 1 and reached < end):
            best, reach = edit, reached
    return best


def _candidates(tokens: list[Token], place: int) -> list[_Edit]:
    before = tokens[place - 1] if place else None
    at_end = place == len(tokens)
    edits: list[_Edit] = []
    if before and not at_end:
        signs = ("EQUAL", "COMMA") if before.kind == "NAME" else ("COMMA",)
        for kind in signs:
            sign = Token(kind, SPELLING[kind], before.end, before.end)
            edits.append(_Edit(place, 0, (sign,)))
    if not at_end:
        edits.append(_Edit(place, 1, ()))
    if before and before.kind in _OPERATORS:
        edits.append(_Edit(place - 1, 1, ()))
    return edits


class _Report:
    """A report of the first mistake of some tokens."""

    def __init__(
        self, tokens: list[Token], mistake: Mistake, source: Source, diagnostics: Diagnostics
    ) -> None:
        self.tokens = tokens
        self.place = place = mistake.place
        self.expected = mistake.expected
        self.source = source
        self.diagnostics = diagnostics
        last = tokens[-1].end
        self.here = tokens[place] if place < len(tokens) else Token(END, "", last, last)
        self.before = tokens[place - 1] if place else None

    def make(self, edit: _Edit | None) -> None:
        if edit is None:
            self.without_edit()
        elif edit.insert:
            self.missing_sign(edit.insert[0])
        else:
            self.surplus(self.tokens[edit.at])

    def span(self, token: Token) -> Span:
        return Span(self.source, token.start, token.end)

    def missing_sign(self, sign: Token) -> None:
        assert self.before is not None, "a sign is inserted between two tokens"
        place = Span(self.source, sign.start, sign.start)
        if sign.kind == "EQUAL":
            code, message = "E004", f"`=` is missing after {self.before.shown()}"
            help = f"{self.before.text} = {self.here.text}"
        else:
            code, message = "E005", f"a comma is missing before {self.here.shown()}"
            help = f"{self.before.text}, {self.here.text}"
        self.diagnostics.error(
            code, message, self.span(self.here), help=help, fix=Fix(place, sign.text)
        )

    def surplus(self, token: Token) -> None:
        code, message = "E007", f"{token.shown()} has no place here"
        label = "" if token is self.here else f"before {self.here.shown()}"
        inside = sum((t.kind in OPENERS) - (t.kind in CLOSERS) for t in self.tokens[: self.place])
        if token.kind == "COMMA" and token is self.here and not inside:
            code, message = "E006", "a comma between settings"
            label = "settings are separated by white space or new lines"
        span = self.span(token)
        self.diagnostics.error(code, message, span, label=label, fix=Fix(span, ""))

    def without_edit(self) -> None:
        before, at = self.before, self.here
        if before and before.kind == "EQUAL" and at.kind in (END, "COMMA", "RPAR"):
            name = self.tokens[self.place - 2] if self.place >= 2 else before
            span = Span(self.source, name.start, before.end)
            self.diagnostics.error(
                "E008",
                f"no value for {name.shown()}",
                span,
                label="a value is missing after `=`",
                help="write a value, or remove this",
                fix=Fix(span, ""),
            )
            return
        if before and before.kind == "NAME" and at.kind == END:
            self.lone_name(before)
            return
        expected = _in_words(self.expected)
        self.diagnostics.error("E007", f"expected {expected}, found {at.shown()}", self.span(at))

    def lone_name(self, name: Token) -> None:
        span = self.span(name)
        help, fix = "write name = value; terms are joined by +; or remove it", Fix(span, "")
        if span.text in shipped_specs():
            help, fix = f"extends {span.text}", Fix(span, f"extends {span.text}")
        self.diagnostics.error(
            "E007",
            f"{name.shown()} stands alone",
            span,
            label="neither a setting nor part of one",
            help=help,
            fix=fix,
        )


def _in_words(kinds: Set[str]) -> str:
    words = [f"`{SPELLING[kind]}`" for kind in sorted(kinds) if kind in SPELLING]
    if kinds >= _VALUE_STARTS:
        words = ["a value"] + [word for word in words if word not in ("`[`", "`{`")]
    else:
        names = {"NUMBER": "a number", "STRING": "a string", "NAME": "a name"}
        words = [text for kind, text in names.items() if kind in kinds] + words
    if kinds & {"EXTENDS", END}:
        words.append("the next setting")
    return " or ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)
