"""What can go wrong outside the text of a spec; each error knows the exit code of its command."""

from typing import ClassVar


class BertcError(Exception):
    """An error a user can act on: ``message`` says what and where, ``help`` what to do instead."""

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.help = help


class UsageError(BertcError):
    """The command line does not say what to do."""

    exit_code = 2


class DataError(BertcError):
    """A file or corpus whose content cannot be used."""

    exit_code = 65


class MissingColumnError(DataError):
    """A table without a column that is read."""


class MissingInputError(BertcError):
    """A file, folder or package that is not there."""

    exit_code = 66


class CannotWriteError(BertcError):
    """A result that could not be written, a full disk above all."""

    exit_code = 74


class StoppedError(BertcError):
    """A run that stopped, or is busy, and can be resumed."""

    exit_code = 75


class ResumeRefusedError(BertcError):
    """A run that cannot be resumed because its spec or data changed."""

    exit_code = 76


class UnsafeError(BertcError):
    """An input refused because reading it could run somebody's code."""

    exit_code = 77


class MachineError(BertcError):
    """Something this machine cannot do: memory or a device that is missing."""

    exit_code = 78
