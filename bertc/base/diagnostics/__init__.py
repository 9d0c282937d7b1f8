"""Diagnostics: mistakes as data, errors with exit codes, and their rendering."""

from bertc.diagnostics.codes import codes, explain
from bertc.diagnostics.diagnostic import Diagnostic, Diagnostics, Fix, Note, SpecError
from bertc.diagnostics.errors import (
    BertcError,
    CannotWriteError,
    DataError,
    GivenUpError,
    MachineError,
    MissingColumnError,
    MissingInputError,
    ResumeRefusedError,
    StoppedError,
    UnsafeError,
    UsageError,
)
from bertc.diagnostics.html import html_text, plain_text
from bertc.diagnostics.near import listed, nearest, several
from bertc.diagnostics.render import escaped, for_terminal, render
from bertc.diagnostics.span import Source, Span
from bertc.diagnostics.table import InNotebooks, Table

__all__ = [
    "BertcError",
    "CannotWriteError",
    "DataError",
    "Diagnostic",
    "Diagnostics",
    "Fix",
    "GivenUpError",
    "InNotebooks",
    "MachineError",
    "MissingColumnError",
    "MissingInputError",
    "Note",
    "ResumeRefusedError",
    "Source",
    "Span",
    "SpecError",
    "StoppedError",
    "Table",
    "UnsafeError",
    "UsageError",
    "codes",
    "escaped",
    "for_terminal",
    "explain",
    "html_text",
    "listed",
    "nearest",
    "plain_text",
    "render",
    "several",
]
