"""Makes the brackets of a token list match, reporting each one that does not.

A bracket left open swallows the settings after it, so it is taken to close where the next
setting begins, or at the end. Then one lost bracket is one message.
"""

from bertc.diagnostics import Diagnostics, Fix, Note, Source, Span
from bertc.syntax.scan import CLOSERS, OPENERS, SPELLING, Token


def balance(tokens: list[Token], source: Source, diagnostics: Diagnostics) -> list[Token]:
    """The same tokens with missing closing brackets added and surplus ones left out."""
    return _Balancer(tokens, source, diagnostics).run()


class _Balancer:
    def __init__(self, tokens: list[Token], source: Source, diagnostics: Diagnostics) -> None:
        self.tokens = tokens
        self.source = source
        self.diagnostics = diagnostics
        self.open: list[tuple[Token, bool]] = []  # an opening bracket, and whether of a block
        self.done: list[Token] = []
        self.closed_later = _closed_later(tokens)

    def run(self) -> list[Token]:
        for index, token in enumerate(self.tokens):
            if self.in_value() and self.begins_setting(index) and not self.closed_later[index]:
                self.close_values()
            if token.kind in OPENERS:
                block = token.kind == "LBRACE" and not self.in_value() and self.after_name()
                self.open.append((token, block))
                self.done.append(token)
            elif token.kind in CLOSERS:
                self.close(token)
            else:
                self.done.append(token)
        while self.open:
            self.close_last()
        return self.done

    def in_value(self) -> bool:
        return bool(self.open) and not self.open[-1][1]

    def after_name(self) -> bool:
        return bool(self.done) and self.done[-1].kind in ("NAME", "STRING")

    def begins_setting(self, index: int) -> bool:
        """Whether a new item starts here although a bracket of a value is still open."""
        kinds = [token.kind for token in self.tokens[index : index + 3]]
        if kinds[0] == "EXTENDS":
            return True
        if kinds[0] != "NAME" or self.done[-1].kind in ("PLUS", "STAR"):
            return False
        if kinds[1:2] == ["LBRACE"] or kinds[1:] == ["STRING", "LBRACE"]:
            return True
        as_argument = self.open[-1][0].kind == "LPAR" and self.done[-1].kind in ("LPAR", "COMMA")
        return kinds[1:2] == ["EQUAL"] and not as_argument

    def close_values(self) -> None:
        while self.in_value():
            self.close_last()

    def close_last(self) -> None:
        """Report the innermost open bracket and close it after what was read last."""
        opener, _ = self.open.pop()
        end, closer = self.done[-1].end, OPENERS[opener.kind]
        self.diagnostics.error(
            "E002",
            f"`{opener.text}` is never closed",
            Span(self.source, end, end),
            label=f"`{SPELLING[closer]}` is missing here",
            notes=(Note("opened here", Span(self.source, opener.start, opener.end)),),
            help=f"insert {SPELLING[closer]}",
            fix=Fix(Span(self.source, end, end), SPELLING[closer]),
        )
        self.done.append(Token(closer, SPELLING[closer], end, end))

    def close(self, token: Token) -> None:
        """Match a closing bracket with the innermost opening one of its kind."""
        kinds = [OPENERS[opener.kind] for opener, _ in self.open]
        if not kinds:
            span = Span(self.source, token.start, token.end)
            message = f"`{token.text}` closes nothing"
            self.diagnostics.error("E003", message, span, help="remove it", fix=Fix(span, ""))
            return
        if token.kind not in kinds or (self.open[-1][1] and token.kind != kinds[-1]):
            self.wrong_closer(token)
            return
        while OPENERS[self.open[-1][0].kind] != token.kind:
            self.close_last()
        self.open.pop()
        self.done.append(token)

    def wrong_closer(self, token: Token) -> None:
        opener, block = self.open[-1]
        span = Span(self.source, token.start, token.end)
        right = SPELLING[OPENERS[opener.kind]]
        note = Note("opened here", Span(self.source, opener.start, opener.end))
        message = f"`{opener.text}` is closed by `{token.text}`"
        if block:
            self.diagnostics.error(
                "E003", f"`{token.text}` closes nothing", span, help="remove it", fix=Fix(span, "")
            )
            return
        self.diagnostics.error(
            "E003", message, span, notes=(note,), help=f"write {right}", fix=Fix(span, right)
        )
        self.open.pop()
        self.done.append(Token(OPENERS[opener.kind], right, token.start, token.end))


def _closed_later(tokens: list[Token]) -> list[bool]:
    """For each token, whether the bracket open before it is closed after it, by count alone."""
    depths = [0]
    for token in tokens:
        depths.append(depths[-1] + (token.kind in OPENERS) - (token.kind in CLOSERS))
    lowest = depths[-1]
    closed = [False] * len(tokens)
    for index in range(len(tokens) - 1, -1, -1):
        lowest = min(lowest, depths[index + 1])
        closed[index] = lowest < depths[index]
    return closed
