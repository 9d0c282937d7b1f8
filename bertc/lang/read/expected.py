"""Reports of a faulty setting: where it ends to make sense, and what is expected there."""

from collections.abc import Sequence, Set

from bertc.base.diagnostics import Diagnostics, Fix, Note, Source, Span
from bertc.base.resources import shipped_specs
from bertc.lang.read.grammar import END
from bertc.lang.read.machine import Mistake
from bertc.lang.read.scan import CLOSERS, OPENERS, SPELLING, Token

_VALUE_STARTS = {"NUMBER", "STRING", "LSQB"}


def report_mistake(
    tokens: Sequence[Token], mistake: Mistake, source: Source, diagnostics: Diagnostics
) -> None:
    """Report the first mistake of a setting: a bracket, a word that stands alone, or another."""
    place, last = mistake.place, tokens[-1]
    here = tokens[place] if place < len(tokens) else Token(END, "", last.end, last.end)
    before = tokens[place - 1] if place else None
    span = Span(source, here.start, here.end)
    opened = [token for token in tokens[:place] if token.kind in OPENERS or token.kind in CLOSERS]
    opener = _innermost(opened)
    if here.kind == END and before and before.kind == "NAME" and not opener:
        _report_alone(before, source, diagnostics)
    elif here.kind == END and opener and "COMMA" in mistake.expected:
        report_unclosed(opener, here.start, source, diagnostics)
    elif here.kind in CLOSERS and not opener:
        diagnostics.error("E002", f"`{here.text}` closes nothing", span, fix=Fix(span, ""))
    elif here.kind in CLOSERS and opener and here.kind != OPENERS[opener.kind]:
        diagnostics.error(
            "E002",
            f"`{opener.text}` is closed by `{here.text}`",
            span,
            notes=(Note("opened here", Span(source, opener.start, opener.end)),),
            help=f"write {SPELLING[OPENERS[opener.kind]]}",
            fix=Fix(span, SPELLING[OPENERS[opener.kind]]),
        )
    else:
        expected = _in_words(mistake.expected)
        diagnostics.error("E007", f"expected {expected}, found {here.shown()}", span)


def report_unclosed(opener: Token, end: int, source: Source, diagnostics: Diagnostics) -> None:
    """Report a bracket that is open at the end of a setting or of the text."""
    closer, place = SPELLING[OPENERS[opener.kind]], Span(source, end, end)
    diagnostics.error(
        "E002",
        f"`{opener.text}` is never closed",
        place,
        label=f"`{closer}` is missing here",
        notes=(Note("opened here", Span(source, opener.start, opener.end)),),
        fix=Fix(place, closer),
    )


def _innermost(brackets: Sequence[Token]) -> Token | None:
    """The last opening bracket that none of those after it closes."""
    opened: list[Token] = []
    for bracket in brackets:
        if bracket.kind in OPENERS:
            opened.append(bracket)
        elif opened:
            opened.pop()
    return opened[-1] if opened else None


def _report_alone(name: Token, source: Source, diagnostics: Diagnostics) -> None:
    """Report a word that is neither a setting nor part of one."""
    span = Span(source, name.start, name.end)
    help, fix = "write name = value; terms are joined by +; or remove it", Fix(span, "")
    if name.text in shipped_specs():
        help, fix = f"extends {name.text}", Fix(span, f"extends {name.text}")
    diagnostics.error(
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
