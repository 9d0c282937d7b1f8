"""Errors of other libraries on untrusted files, raised again as bertc's own."""

from collections.abc import Iterator
from contextlib import contextmanager

from bertc.base.diagnostics import BertcError, DataError


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
