"""Canonical layout of a spec: one setting a line; comments and order are kept."""

from collections.abc import Sequence
from typing import NamedTuple

from bertc.lang.read import tree
from bertc.lang.read.parse import parse
from bertc.lang.write.show import quote

LINE_WIDTH = 100
INDENT = "    "


def format_text(text: str, name: str = "<spec>") -> str:
    """The canonical text of a spec; formatting it again changes nothing.

    A comment behind a setting stays there; one inside a value moves to the line before it.
    """
    parsed = parse(text, name)
    lines = _Layout(text).lines(parsed.items, parsed.comments, "")
    return "\n".join(lines) + "\n" if lines else ""


class _Piece(NamedTuple):
    """Lines of output with the lines of the source that they come from."""

    lines: list[str]
    first: int
    last: int
    trailing: bool = False


class _Layout(NamedTuple):
    text: str

    def line(self, offset: int) -> int:
        return self.text.count("\n", 0, offset)

    def lines(
        self, items: Sequence[tree.Item], comments: Sequence[tree.Comment], indent: str
    ) -> list[str]:
        """Lay out items and comments in order, with at most one blank line between them."""
        pieces: list[_Piece] = []
        rest = list(comments)
        for item in items:
            pieces += self.comments(rest, item.span.start, indent)
            inside = _take(rest, item.span.end)
            first, last = self.line(item.span.start), self.line(item.span.end)
            if isinstance(item, tree.Block):
                body = self.block(item, inside, indent)
            else:
                pieces += (_Piece([indent + c.text], first, first) for c in inside)
                body = _write(item, indent)
            pieces.append(_Piece(body, first, last))
        pieces += self.comments(rest, len(self.text) + 1, indent)
        return _join(pieces)

    def comments(self, rest: list[tree.Comment], before: int, indent: str) -> list[_Piece]:
        pieces = []
        for comment in _take(rest, before):
            line = self.line(comment.span.start)
            start = self.text.rfind("\n", 0, comment.span.start) + 1
            own_line = not self.text[start : comment.span.start].strip(" \t\r{")
            pieces.append(_Piece([indent + comment.text], line, line, trailing=not own_line))
        return pieces

    def block(self, block: tree.Block, comments: list[tree.Comment], indent: str) -> list[str]:
        """Lay out a block; one written on a single line stays there if it fits."""
        label = f" {quote(block.label.value)}" if block.label else ""
        head = f"{indent}{block.name.text}{label} {{"
        if self.line(block.span.start) == self.line(block.span.end) and block.items:
            inside = [line for item in block.items for line in self.lines([item], [], "")]
            short = f"{head} {'  '.join(inside)} }}"
            if len(short) <= LINE_WIDTH and all(isinstance(i, tree.Setting) for i in block.items):
                return [short]
        body = self.lines(block.items, comments, indent + INDENT)
        return [head, *body, f"{indent}}}"] if body else [head + "}"]


def _take(comments: list[tree.Comment], before: int) -> list[tree.Comment]:
    """Remove and return the comments that start before an offset."""
    earlier = [comment for comment in comments if comment.span.start < before]
    del comments[: len(earlier)]
    return earlier


def _join(pieces: list[_Piece]) -> list[str]:
    lines: list[str] = []
    last = None
    for piece in pieces:
        if piece.trailing and last is not None and piece.first == last:
            lines[-1] += "  " + piece.lines[0].lstrip()
            continue
        if last is not None and piece.first > last + 1:
            lines.append("")
        lines += piece.lines
        last = piece.last
    return lines


def _write(item: tree.Setting | tree.Extends, indent: str) -> list[str]:
    if isinstance(item, tree.Extends):
        target = item.target
        return [f"{indent}extends {target.text if isinstance(target, tree.Name) else flat(target)}"]
    return _wrap(f"{indent}{item.name.text} = ", item.value, indent, "")


def flat(value: tree.Placed) -> str:
    """The text of a value on one line."""
    match value:
        case tree.Number() | tree.Name():
            return value.text
        case tree.Range():
            scale = f":{value.scale}" if value.scale else ""
            return f"{value.low.text}..{value.high.text}{scale}"
        case tree.String():
            return quote(value.value)
        case tree.Argument():
            return (f"{value.name.text}=" if value.name else "") + flat(value.value)
        case tree.Call():
            return f"{value.name.text}({', '.join(map(flat, value.arguments))})"
        case tree.Series():
            return f"[{', '.join(map(flat, value.items))}]"
        case tree.Ratio():
            return "/".join(map(flat, value.parts))
        case tree.Scaled():
            return f"{flat(value.factor)}*{flat(value.term)}"
        case tree.Sum():
            return " + ".join(map(flat, value.items))
        case tree.Grid():
            return f"{{{', '.join(map(flat, value.items))}}}"
    raise AssertionError(f"a {type(value).__name__} is no value")


def _wrap(head: str, value: tree.Value | tree.Argument, indent: str, tail: str) -> list[str]:
    """Lay out a value after ``head``, broken at its outermost commas if it is too long."""
    line = head + flat(value) + tail
    if len(line) <= LINE_WIDTH:
        return [line]
    match value:
        case tree.Argument():
            name = f"{value.name.text}=" if value.name else ""
            return _wrap(head + name, value.value, indent, tail)
        case tree.Sum():
            first, *rest = value.items
            lines, margin = _wrap(head, first, indent, ""), indent
            for term in rest:
                if lines[-1] == f"{margin})":
                    lines += _wrap(f"{lines.pop()} + ", term, margin, "")
                    continue
                margin = indent + INDENT
                lines += _wrap(f"{margin}+ ", term, margin, "")
            return [*lines[:-1], lines[-1] + tail]
        case tree.Scaled():
            return _wrap(f"{head}{flat(value.factor)}*", value.term, indent, tail)
        case tree.Call():
            return _bracket(f"{head}{value.name.text}(", value.arguments, f"){tail}", indent)
        case tree.Series():
            return _bracket(f"{head}[", value.items, f"]{tail}", indent)
        case tree.Grid():
            return _bracket(f"{head}{{", value.items, f"}}{tail}", indent)
    return [line]


def _bracket(
    opening: str, values: Sequence[tree.Value | tree.Argument], closing: str, indent: str
) -> list[str]:
    """Lay out values in brackets; short ones share lines, long ones have their own."""
    inner = indent + INDENT
    lines = [opening]
    row = ""
    for value in values:
        text = flat(value) + ","
        if row and len(inner) + len(row) + 1 + len(text) <= LINE_WIDTH:
            row += " " + text
            continue
        if row:
            lines.append(inner + row)
            row = ""
        if len(inner) + len(text) <= LINE_WIDTH:
            row = text
        else:
            lines += _wrap(inner, value, inner, ",")
    if row:
        lines.append(inner + row)
    return [*lines, indent + closing]
