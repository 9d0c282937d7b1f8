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
from bertc.base.diagnostics.render import InNotebooks, Table, escaped, for_terminal, render
