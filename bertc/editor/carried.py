"""Findings of a text, carried over to the text that it has become."""

from dataclasses import replace
from os.path import commonprefix

from bertc.diagnostics import Diagnostic, Fix, Note, Span
from bertc.editor.reading import Reading


def carried_over(before: Reading, after: Reading) -> Reading:
    """A text with those findings of an earlier one whose places and edits were not typed in."""
    return replace(after, findings=tuple(_Move(before, after).all()))


class _Move:
    """The parts at the beginning and the end that two texts share, and how far the end moved."""

    def __init__(self, before: Reading, after: Reading) -> None:
        self.before, self.after = before, after
        old, new = before.source.text, after.source.text
        self.head = len(commonprefix([old, new]))
        rest = old[self.head :][::-1], new[self.head :][::-1]
        self.tail = len(old) - len(commonprefix(rest))
        self.distance = len(new) - len(old)

    def all(self) -> list[Diagnostic]:
        kept = [each for each in self.before.findings if all(map(self.stays, _spans(each)))]
        return [self.moved(each) for each in kept]

    def stays(self, span: Span) -> bool:
        """True of a place whose characters are those of before, and their neighbours too."""
        here = span.source == self.before.source
        return not here or span.end < self.head or span.start > self.tail

    def moved(self, found: Diagnostic) -> Diagnostic:
        notes = tuple(Note(each.message, self.at(each.span)) for each in found.notes)
        fix = self.edit(found.fix) if found.fix else None
        return replace(found, span=self.at(found.span), notes=notes, fix=fix)

    def edit(self, fix: Fix) -> Fix:
        moved = self.at(fix.span)
        assert moved is not None
        return Fix(moved, fix.replacement, tuple(map(self.edit, fix.also)))

    def at(self, span: Span | None) -> Span | None:
        if span is None or span.source != self.before.source:
            return span
        by = self.distance if span.start > self.tail else 0
        return Span(self.after.source, span.start + by, span.end + by)


def _spans(found: Diagnostic) -> list[Span]:
    """Every place that a finding has, and those of its edits."""
    edits = (found.fix, *found.fix.also) if found.fix else ()
    places = (found.span, *(note.span for note in found.notes), *(edit.span for edit in edits))
    return [span for span in places if span]
