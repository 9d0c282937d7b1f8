"""How a long preparation tells where it is; whoever shows it brings the display."""

from typing import Protocol


class Progress(Protocol):
    """Receives the course of a preparation. Any method may raise to stop it cleanly."""

    def begin(self, task: str, total: int, unit: str) -> None:
        """A task starts: ``total`` of ``unit`` ("bytes" or "rows") to go, 0 if unknown."""

    def advance(self, amount: int) -> None:
        """``amount`` more units of the running task are done."""

    def end(self) -> None:
        """The running task is done."""

    def note(self, message: str) -> None:
        """Something worth a line: a smaller vocabulary, text cut off, a cache made anew."""


class Silent:
    """Progress that nobody looks at."""

    def begin(self, task: str, total: int, unit: str) -> None:
        """Say nothing."""

    def advance(self, amount: int) -> None:
        """Say nothing."""

    def end(self) -> None:
        """Say nothing."""

    def note(self, message: str) -> None:
        """Say nothing."""
