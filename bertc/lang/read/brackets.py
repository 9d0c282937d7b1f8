"""Balancing of brackets in a token list, with a report of each that does not match.

An open bracket would swallow the settings after it, so it is closed where the next setting begins,
or at the end. Then one missing bracket gives one message.
"""

from typing import NamedTuple

from bertc.base.diagnostics import Diagnostics, Fix, Note, Source, Span
from bertc.lang.read.scan import CLOSERS, MOST_MISTAKES, OPENERS, SPELLING, Token


def balance(tokens: list[Token], source: Source, diagnostics: Diagnostics) -> list[Token]:
    """The tokens with missing brackets added and surplus ones removed."""
    return _Balancer(tokens, source, diagnostics).run()


class _Opened(NamedTuple):
    """An opening bracket: of a ``block``, ``surplus`` (to be removed), or of ``arguments``.

    Those of ``arguments`` should be round.
    """

    token: Token
    block: bool = False
    surplus: bool = False
    arguments: bool = False

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
        for index, token in enumerate(self.tokens):
            if len(self.diagnostics.found) > MOST_MISTAKES:
                return []
            lost = self.at_margin(token) or not self.closed_later[index]
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

    def at_margin(self, token: Token) -> bool:
        """True if a token begins a line without indentation."""
        return self.source.text[token.start - 1 : token.start] in ("", "\n")

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
        round = self.open[-1].arguments or self.open[-1].token.kind == "LPAR"
        as_argument = round and before in ("LPAR", "COMMA")
        return kinds[1:2] == ["EQUAL"] and not as_argument

    def open_with(self, token: Token) -> None:
        before = self.balanced[-1].kind if self.balanced else ""
        arguments = token.kind != "LPAR" and self.follows_kind(token)
        block = token.kind == "LBRACE" and not self.in_value() and before in ("NAME", "STRING")
        block, surplus = block and not arguments, token.kind == "LPAR" and before != "NAME"
        self.open.append(_Opened(token, block, surplus, arguments))
        if arguments:
            self.balanced.append(Token("LPAR", "(", token.start, token.end))
        elif not surplus:
            self.balanced.append(token)

    def follows_kind(self, token: Token) -> bool:
        """True if a bracket follows a word that is a value, without space."""
        kinds = [each.kind for each in self.balanced[-2:]]
        before = ("EQUAL", "PLUS", "STAR", "COMMA", "LPAR")
        return kinds[1:] == ["NAME"] and kinds[0] in before and self.balanced[-1].end == token.start

    def close_last(self) -> None:
        """Report the innermost open bracket and close it after the last token."""
        opened = self.open.pop()
        opener, closer = opened.token, SPELLING[opened.closer]
        if opened.surplus:
            self.report_surplus(opener, None)
            return
        if opened.arguments:
            self.report_not_round(opener, None)
            closer = ")"
        end = self.balanced[-1].end
        self.diagnostics.error(
            "E002",
            f"`{opener.text}` is never closed",
            Span(self.source, end, end),
            label=f"`{closer}` is missing here",
            notes=(Note("opened here", self.span(opener, opener)),),
            fix=Fix(Span(self.source, end, end), closer),
        )
        kind = "RPAR" if opened.arguments else opened.closer
        self.balanced.append(Token(kind, closer, end, end))

    def close(self, token: Token) -> None:
        """Match a closing bracket with the innermost opening one of its kind."""
        if all(opened.closer != token.kind for opened in self.open):
            if not self.in_value():
                self.close_nothing(token)
                return
            opened = self.open.pop()
            if opened.arguments:
                self.report_not_round(opened.token, token)
                self.balanced.append(Token("RPAR", ")", token.start, token.end))
                return
            self.report_wrong(opened.token, token)
            if not opened.surplus:
                self.balanced.append(
                    Token(opened.closer, SPELLING[opened.closer], token.start, token.end)
                )
            return
        while self.open[-1].closer != token.kind:
            self.close_last()
        opened = self.open.pop()
        if opened.surplus:
            self.report_surplus(opened.token, token)
        elif opened.arguments:
            self.report_not_round(opened.token, token)
            self.balanced.append(Token("RPAR", ")", token.start, token.end))
        else:
            self.balanced.append(token)

    def close_nothing(self, token: Token) -> None:
        """Report a closing bracket without an opening one; insert that if its place is clear."""
        span = self.span(token, token)
        place = self.lost_opener(token)
        if place is None:
            message = f"`{token.text}` closes nothing"
            self.diagnostics.error("E003", message, span, fix=Fix(span, ""))
            return
        kind = next(opener for opener, closer in OPENERS.items() if closer == token.kind)
        end = self.balanced[place - 1].end
        at = Span(self.source, end, end)
        self.diagnostics.error(
            "E003",
            f"`{token.text}` has no `{SPELLING[kind]}`",
            span,
            notes=(Note(f"`{SPELLING[kind]}` may be missing here", at),),
            help=f"insert {SPELLING[kind]}",
            fix=Fix(at, SPELLING[kind]),
        )
        self.balanced[place:place] = [Token(kind, SPELLING[kind], end, end)]
        self.balanced.append(token)

    def lost_opener(self, token: Token) -> int | None:
        """The index where the opening bracket is probably missing: after the kind or `=`."""
        depth = int(bool(self.balanced) and self.balanced[-1].kind in CLOSERS)
        for place in range(len(self.balanced) - 1, max(1, len(self.balanced) - 40), -1):
            first, before, after = self.balanced[place - 2 : place + 1]
            depth += (before.kind in CLOSERS) - (before.kind in OPENERS)
            if depth < 0:
                return None
            if depth or before.kind in OPENERS:
                continue
            if token.kind == "RSQB" and before.kind == "EQUAL" and after.kind == "NUMBER":
                return place
            if token.kind == "RPAR" and before.kind == "NAME" and after.kind != "LPAR":
                if first.kind in ("EQUAL", "PLUS", "STAR"):
                    if after.kind in ("EQUAL", "COMMA"):  # `lamblr=1e-3)`: two words run together
                        del self.balanced[place]
                    return place
                if after.kind == "EQUAL" and first.kind != "COMMA":
                    return None
        return None

    def report_wrong(self, opener: Token, token: Token) -> None:
        right = SPELLING[OPENERS[opener.kind]]
        span = self.span(token, token)
        self.diagnostics.error(
            "E003",
            f"`{opener.text}` is closed by `{token.text}`",
            span,
            notes=(Note("opened here", self.span(opener, opener)),),
            help=f"write {right}",
            fix=Fix(span, right),
        )

    def report_not_round(self, opener: Token, closer: Token | None) -> None:
        """Report arguments of a kind in brackets other than parentheses."""
        wrong = closer is not None and closer.kind != "RPAR"
        self.diagnostics.error(
            "E007",
            f"`{opener.text}` does not hold arguments",
            self.span(opener, opener),
            label="arguments of a kind stand in parentheses",
            help="write ( and )" if wrong else "write (",
            fix=Fix(
                self.span(opener, opener),
                "(",
                (Fix(self.span(closer, closer), ")"),) if closer and wrong else (),
            ),
        )

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
