"""Parsing of text to a tree, also of faulty text; balancing of its brackets."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from bertc.base.diagnostics import Diagnostics, Fix, Note, Source, Span
from bertc.lang.read.machine import parse_items
from bertc.lang.read.repair import repaired
from bertc.lang.read.scan import CLOSERS, MOST_MISTAKES, OPENERS, SPELLING, Token, scan
from bertc.lang.read.tree import Block, Item, Tree


class _Opened(NamedTuple):
    """An opening bracket: of a ``block``, or ``surplus`` (to be removed)."""

    token: Token
    block: bool
    surplus: bool

    @property
    def closer(self) -> str:
        return OPENERS[self.token.kind]


class _Balancer:
    def __init__(self, tokens: list[Token], source: Source, diagnostics: Diagnostics) -> None:
        self.tokens = tokens
        self.source = source
        self.diagnostics = diagnostics
        self.open: list[_Opened] = []
        self.balanced: list[Token] = []
        self.closed_later = _closed_later(tokens)

    def run(self) -> list[Token]:
        """The tokens with missing brackets added and surplus ones removed."""
        for index, token in enumerate(self.tokens):
            if len(self.diagnostics.found) > MOST_MISTAKES:
                return []
            at_margin = self.source.text[token.start - 1 : token.start] in ("", "\n")
            lost = at_margin or not self.closed_later[index]
            if lost and self.in_value() and self.begins_setting(index):
                while self.in_value():
                    self.close_last()
            if token.kind in OPENERS:
                self.open_with(token)
            elif token.kind in CLOSERS:
                self.close(token)
            else:
                self.balanced.append(token)
        while self.open:
            self.close_last()
        return self.balanced

    def span(self, first: Token, last: Token) -> Span:
        return Span(self.source, first.start, last.end)

    def in_value(self) -> bool:
        return bool(self.open) and not self.open[-1].block

    def begins_setting(self, index: int) -> bool:
        """True if an item begins here although a bracket of a value is still open."""
        kinds = [token.kind for token in self.tokens[index : index + 3]]
        before = self.balanced[-1].kind if self.balanced else ""
        if kinds[0] == "EXTENDS":
            return True
        if kinds[0] != "NAME" or before in ("PLUS", "STAR"):
            return False
        if kinds[1:2] == ["LBRACE"] or kinds[1:] == ["STRING", "LBRACE"]:
            return True
        as_argument = self.open[-1].token.kind == "LPAR" and before in ("LPAR", "COMMA")
        return kinds[1:2] == ["EQUAL"] and not as_argument

    def open_with(self, token: Token) -> None:
        before = self.balanced[-1].kind if self.balanced else ""
        if token.kind != "LPAR" and self.follows_kind(token):
            span = self.span(token, token)
            message = f"`{token.text}` does not hold arguments"
            label = "arguments of a kind stand in parentheses"
            self.diagnostics.error("E007", message, span, label=label, fix=Fix(span, "("))
            token = token._replace(kind="LPAR", text="(")
        block = token.kind == "LBRACE" and not self.in_value() and before in ("NAME", "STRING")
        surplus = token.kind == "LPAR" and before != "NAME"
        self.open.append(_Opened(token, block, surplus))
        if not surplus:
            self.balanced.append(token)

    def follows_kind(self, token: Token) -> bool:
        """True if a bracket follows a word that is a value, without space."""
        kinds = [before.kind for before in self.balanced[-2:]]
        signs = ("EQUAL", "PLUS", "STAR", "COMMA", "LPAR")
        return kinds[1:] == ["NAME"] and kinds[0] in signs and self.balanced[-1].end == token.start

    def close_last(self) -> None:
        """Report the innermost open bracket and close it after the last token."""
        opened = self.open.pop()
        opener, closer = opened.token, SPELLING[opened.closer]
        if opened.surplus:
            self.report_surplus(opener, None)
            return
        end = self.balanced[-1].end
        self.diagnostics.error(
            "E002",
            f"`{opener.text}` is never closed",
            Span(self.source, end, end),
            label=f"`{closer}` is missing here",
            notes=(Note("opened here", self.span(opener, opener)),),
            fix=Fix(Span(self.source, end, end), closer),
        )
        self.balanced.append(Token(opened.closer, closer, end, end))

    def close(self, token: Token) -> None:
        """Match a closing bracket with the innermost opening one of its kind."""
        span = self.span(token, token)
        if all(opened.closer != token.kind for opened in self.open):
            if not self.in_value():
                message = f"`{token.text}` closes nothing"
                self.diagnostics.error("E003", message, span, fix=Fix(span, ""))
                return
            opened = self.open.pop()
            right = SPELLING[opened.closer]
            self.diagnostics.error(
                "E003",
                f"`{opened.token.text}` is closed by `{token.text}`",
                span,
                notes=(Note("opened here", self.span(opened.token, opened.token)),),
                help=f"write {right}",
                fix=Fix(span, right),
            )
            if not opened.surplus:
                self.balanced.append(Token(opened.closer, right, token.start, token.end))
            return
        while self.open[-1].closer != token.kind:
            self.close_last()
        opened = self.open.pop()
        if opened.surplus:
            self.report_surplus(opened.token, token)
        else:
            self.balanced.append(token)

    def report_surplus(self, opener: Token, closer: Token | None) -> None:
        """Report parentheses that group terms: they only hold the arguments of a kind."""
        span = self.span(opener, closer or opener)
        self.diagnostics.error(
            "E007",
            "`(` does not follow a kind",
            self.span(opener, opener),
            label="parentheses hold the arguments of a kind",
            help="remove the parentheses" if closer else "remove it",
            fix=Fix(span, span.text[1:-1] if closer else ""),
        )


def _closed_later(tokens: list[Token]) -> list[bool]:
    """For each token True if the bracket open before it is closed after it, by count."""
    depths = [0]
    for token in tokens:
        depths.append(depths[-1] + (token.kind in OPENERS) - (token.kind in CLOSERS))
    lowest = depths[-1]
    closed = [False] * len(tokens)
    for index in range(len(tokens) - 1, -1, -1):
        lowest = min(lowest, depths[index + 1])
        closed[index] = lowest < depths[index]
    return closed


OVERRIDE = "--set"
"""Prefix of the names of sources from the command line, where a shell removes quotes."""


def parse(text: str, name: str = "<spec>", diagnostics: Diagnostics | None = None) -> Tree:
    """Parse a spec called ``name`` to a tree; mistakes go to ``diagnostics``, it has the rest."""
    report = Diagnostics() if diagnostics is None else diagnostics
    source = Source(name, text)
    tokens, comments = scan(source, report)
    tokens = _Balancer(tokens, source, report).run()
    items, mistake = parse_items(tokens, source)
    if mistake:
        items = _recovered(tokens, source, report)
    if diagnostics is None:
        report.raise_if_any()
    return Tree(source, tuple(items), tuple(comments))


def _recovered(tokens: Sequence[Token], source: Source, diagnostics: Diagnostics) -> list[Item]:
    """The items of faulty tokens one by one, so that a mistake affects its own setting only."""
    items: list[Item] = []
    for chunk in _chunks(tokens):
        if len(diagnostics.found) > MOST_MISTAKES:
            break
        if header := _block_header(chunk):
            inside = _recovered(chunk[header + 1 : -1], source, diagnostics)
            ((block, *_), _) = parse_items([*chunk[: header + 1], chunk[-1]], source)
            assert isinstance(block, Block), "a header and its braces are a block"
            span = Span(source, chunk[0].start, chunk[-1].end)
            items.append(replace(block, span=span, items=tuple(inside)))
        else:
            items += parse_items(repaired(chunk, source, diagnostics), source)[0]
    return items


def _chunks(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Cut balanced tokens before each setting, block and ``extends``, and after each block."""
    starts, depth, block_ends = {0}, 0, False
    for index, token in enumerate(tokens):
        if depth == 0 and _begins_item(tokens, index):
            starts.add(index)
            block_ends = block_ends or _block_header(tokens[index : index + 3]) > 0
        depth += (token.kind in OPENERS) - (token.kind in CLOSERS)
        if depth == 0 and block_ends and token.kind == "RBRACE":
            starts.add(index + 1)
            block_ends = False
    cuts = sorted(starts | {len(tokens)})
    return [tokens[a:b] for a, b in zip(cuts, cuts[1:], strict=False) if a < b <= len(tokens)]


def _begins_item(tokens: Sequence[Token], index: int) -> bool:
    kinds = [token.kind for token in tokens[index : index + 2]]
    before = tokens[index - 1].kind if index else ""
    if kinds[0] == "EXTENDS":
        return True
    if before == "EXTENDS":
        return False
    block = before != "EQUAL" and _block_header(tokens[index : index + 3]) > 0
    return block or kinds == ["NAME", "EQUAL"]


def _block_header(tokens: Sequence[Token]) -> int:
    """The number of tokens before the brace of a block; 0 if no block begins here."""
    kinds = [token.kind for token in tokens[:3]]
    if kinds[:2] == ["NAME", "LBRACE"]:
        return 1
    return 2 if kinds == ["NAME", "STRING", "LBRACE"] else 0
