"""Diagnostics: mistakes as data, errors with exit codes, and their rendering."""

from bertc.base.diagnostics.diagnostic import (
    Diagnostic,
    Diagnostics,
    Fix,
    Note,
    Source,
    Span,
    SpecError,
    codes,
    explain,
)
from bertc.base.diagnostics.errors import (
    BertcError,
    CannotWriteError,
    DataError,
    GivenUpError,
    LostStoreError,
    MachineError,
    MissingColumnError,
    MissingInputError,
    ResumeRefusedError,
    StoppedError,
    UnsafeError,
    UsageError,
    as_data_error,
    listed,
    nearest,
    refuse_all,
    several,
)
from bertc.base.diagnostics.render import (
    InNotebooks,
    Table,
    escaped,
    for_terminal,
    html_text,
    render,
)

__all__ = [
    "BertcError", "CannotWriteError", "DataError", "Diagnostic", "Diagnostics", "Fix",
    "GivenUpError", "InNotebooks", "LostStoreError", "MachineError", "MissingColumnError",
    "MissingInputError", "Note", "ResumeRefusedError", "Source", "Span", "SpecError",
    "StoppedError", "Table", "UnsafeError", "UsageError", "as_data_error", "codes", "escaped",
    "for_terminal", "explain", "html_text", "listed", "nearest", "refuse_all", "render", "several",
]  # fmt: skip
