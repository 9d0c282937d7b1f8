"""Errors outside the text of a spec, with the exit code of the command; words of messages."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

MOST_LINES = 20


class BertcError(Exception):
    """An error that a user can act on: ``message`` says cause and place, ``help`` the remedy.

    Tracebacks and notebooks print the remedy below the message.
    """

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.help = help
        if help:
            self.add_note(f"help: {help}")


class UsageError(BertcError):
    """A command line or an argument that cannot be used."""

    exit_code = 2


class DataError(BertcError):
    """A file or corpus whose content cannot be used."""

    exit_code = 65
    lines: Sequence[str] = ()
    """The errors that it lists, if several."""


def refuse_all(errors: Sequence[DataError]) -> None:
    """Raise one error about all of them, if there are any: a line for each of the first 20."""
    if lines := [line for error in errors for line in error.lines or [error.message]]:
        rest = [f"and {len(lines) - MOST_LINES:,} more"] * (len(lines) > MOST_LINES)
        together = DataError("\n".join([*lines[:MOST_LINES], *rest]), errors[0].help)
        together.lines = lines
        raise together


class UnknownTokensError(DataError):
    """Text that a vocabulary does not spell."""


class MissingColumnError(DataError):
    """A table that lacks a column to be read."""


class MissingInputError(BertcError):
    """A file, folder or package that does not exist or may not be read."""

    exit_code = 66


class LostStoreError(BertcError):
    """A store that stopped answering while it was read; it may answer later."""

    exit_code = 75


class CannotWriteError(BertcError):
    """A result that could not be written, a full disk above all."""

    exit_code = 74


class StoppedError(BertcError):
    """A run that stopped, or is busy, and can be resumed."""

    exit_code = 75


class GivenUpError(StoppedError):
    """A run that was stopped because it is not worth going on with; it was saved."""


class ResumeRefusedError(BertcError):
    """A run that cannot be resumed because its spec or data changed."""

    exit_code = 76


class UnsafeError(BertcError):
    """An input refused because reading it could run foreign code."""

    exit_code = 77


class MachineError(BertcError):
    """A demand that this machine cannot meet: too little memory, or no such device."""

    exit_code = 78


@contextmanager
def as_data_error(message: str, help: str) -> Iterator[None]:
    """Raise a DataError in place of any error of the library that the block calls.

    A damaged file makes libraries raise anything: KeyError, UnicodeDecodeError, bare Exception, or
    a panic of Rust, which is no Exception. Keep nothing but those calls in the block.
    """
    try:
        yield
    except (BertcError, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise DataError(message, help) from None


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name most like a mistyped one; empty if none is near."""
    from difflib import get_close_matches

    spelled: dict[str, str] = {}
    for candidate in known:
        spelled.setdefault(_plain(candidate), candidate)
    plain = _plain(name[:64])
    if plain in spelled:
        return spelled[plain]
    suffixes = [word for word in spelled if len(word) > 2 and plain.endswith(word)]
    if suffixes:  # bytebpe, num_layers
        return spelled[max(suffixes, key=len)]
    matches = get_close_matches(plain, spelled, n=1, cutoff=0.6)
    return spelled[matches[0]] if matches else ""


def listed(names: Iterable[str], limit: int = 100) -> str:
    """Names joined by commas, each once; beyond ``limit`` characters those left are counted."""
    first: list[str] = []
    all_names = list(dict.fromkeys(names))
    for index, name in enumerate(all_names):
        rest = all_names[index:]
        short = len(rest) <= 2 and len(", ".join(rest)) <= limit  # shown after the limit too
        if first and not short and len(", ".join([*first, name])) > limit:
            return ", ".join(first) + f" and {len(rest)} more"
        first.append(name)
    return ", ".join(first)


def several(count: int, noun: str) -> str:
    """A number of things: 1 example, 4,096 examples."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")
