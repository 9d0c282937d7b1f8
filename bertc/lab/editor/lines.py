"""Offsets in a text as the protocol's lines and columns, and back.

A line ends with a new line, a carriage return or both; columns count what client and server have
agreed on, UTF-16 units unless they said otherwise.
"""

import re
from bisect import bisect_right

from lsprotocol.types import Position, Range
from pygls.workspace import PositionCodec

_LINE_END = re.compile(r"\r\n|\n|\r")


class TextLines:
    """The lines of a text."""

    def __init__(self, text: str, codec: PositionCodec) -> None:
        self.text = text
        self.codec = codec
        self.starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def position(self, offset: int) -> Position:
        """The position of an offset."""
        line = bisect_right(self.starts, offset) - 1
        before = self.text[self.starts[line] : offset]
        # A character of ASCII is one unit, whichever the unit; the codec goes one by one.
        units = len(before) if before.isascii() else self.codec.client_num_units(before)
        return Position(line, units)

    def offset(self, position: Position) -> int:
        """The offset of a position; beyond the end of a line that end is meant."""
        if position.line >= len(self.starts):
            return len(self.text)
        start = self.starts[position.line]
        end = _LINE_END.search(self.text, start)
        stop = end.start() if end else len(self.text)
        units = 0
        for offset in range(start, stop):
            if units >= position.character:
                return offset
            units += self.codec.client_num_units(self.text[offset])
        return stop

    def range(self, start: int, end: int) -> Range:
        """The range between two offsets."""
        return Range(self.position(start), self.position(end))
