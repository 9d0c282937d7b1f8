"""What bertc says about a mistake in a spec, as data: a code, a message, places, and a way out."""

from dataclasses import dataclass, field

from bertc.diagnostics.span import Span


@dataclass(frozen=True)
class Note:
    """A fact behind a diagnostic, shown at its own place when it has one."""

    message: str
    span: Span | None = None


@dataclass(frozen=True)
class Fix:
    """An edit that removes the error: ``replacement`` in place of ``span``.

    ``also`` are edits that go with it: all of them are made, or none.
    """

    span: Span
    replacement: str
    also: tuple["Fix", ...] = ()

    @property
    def told(self) -> str:
        """The edit in words, for a diagnostic that says no more of it."""
        written = self.replacement.strip()
        if not written:
            return "remove it"
        return written if self.span.text else f"insert {written}"


@dataclass(frozen=True)
class Diagnostic:
    """One mistake or remark. ``message`` stands alone: lower case, no full stop, value and limit.

    The code of a mistake begins with E, that of a remark with R: it says what is likely not meant,
    and the spec can be used as it is.
    """

    code: str
    message: str
    span: Span | None = None
    label: str = ""
    notes: tuple[Note, ...] = ()
    help: str = ""
    fix: Fix | None = None


def _told(diagnostic: Diagnostic) -> str:
    """A diagnostic in a line: where a notebook shows no more, place and help are there too."""
    at = f"{diagnostic.span}: " if diagnostic.span else ""
    help = f" (help: {diagnostic.help})" if diagnostic.help else ""
    return f"{at}{diagnostic.code}: {diagnostic.message}{help}"


class SpecError(Exception):
    """A spec that cannot be used; carries every diagnostic found in the run."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__("; ".join(map(_told, diagnostics)))
        self.diagnostics = diagnostics


@dataclass
class Diagnostics:
    """The findings of a run so far, in the order found: mistakes, and remarks on what stands."""

    found: list[Diagnostic] = field(default_factory=list)
    remarks: list[Diagnostic] = field(default_factory=list)

    def error(
        self,
        code: str,
        message: str,
        span: Span | None = None,
        *,
        label: str = "",
        notes: tuple[Note, ...] = (),
        help: str = "",
        fix: Fix | None = None,
    ) -> None:
        """Record one mistake and go on; without ``help`` it is what ``fix`` does."""
        told = help or (fix.told if fix else "")
        self.found.append(Diagnostic(code, message, span, label, notes, told, fix))

    def remark(
        self,
        code: str,
        message: str,
        span: Span | None = None,
        *,
        label: str = "",
        notes: tuple[Note, ...] = (),
        help: str = "",
        fix: Fix | None = None,
    ) -> None:
        """Say once what is allowed and likely not meant."""
        said = Diagnostic(code, message, span, label, notes, help, fix)
        if said not in self.remarks:
            self.remarks.append(said)

    def raise_if_any(self) -> None:
        """Stop here if there is a mistake.

        Raises:
            SpecError: with all mistakes found so far.
        """
        if self.found:
            raise SpecError(tuple(self.found))
