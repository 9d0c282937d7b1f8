"""Progress reports of long preparations; the caller brings the display."""

from typing import Protocol


class Progress(Protocol):
    """Receiver of progress reports. Any method may raise to stop the preparation cleanly."""

    def begin(self, task: str, total: int, unit: str) -> None:
        """Start a task of ``total`` ``unit`` ("bytes" or "rows"), 0 if unknown."""

    def advance(self, amount: int) -> None:
        """Count ``amount`` more units of the current task as done."""

    def end(self) -> None:
        """Finish the current task."""

    def note(self, message: str) -> None:
        """Report a remark: a smaller vocabulary, text cut off, a damaged cache rebuilt."""


class Silent:
    """A receiver that ignores all reports."""

    def begin(self, task: str, total: int, unit: str) -> None:
        """Ignore it."""

    def advance(self, amount: int) -> None:
        """Ignore it."""

    def end(self) -> None:
        """Ignore it."""

    def note(self, message: str) -> None:
        """Ignore it."""
