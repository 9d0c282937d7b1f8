"""The spec of a run, and its difference from the one that it extends."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bertc.report.markup import Content, element, folded, note_below, table_of
from bertc.runs import attempts
from bertc.runs.attempts import Attempt
from bertc.runs.changes import POINT, overrides_of
from bertc.runs.folder import RunFolder
from bertc.runs.groups import settings_texts
from bertc.storage.plain_file import read_text
from bertc.syntax.files import OVERRIDE
from bertc.syntax.read.scan import LARGEST_TEXT

NOTED = (OVERRIDE, POINT)
LONG_SPEC = 1200
"""Characters from which a spec is folded."""


@dataclass(frozen=True)
class Parent:
    """The spec that a run extends: what each of its other settings costs alone, as texts."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remark: str


def spec_section(folder: RunFolder, parent: Parent | None) -> Sequence[Content]:
    """The text of the spec, the settings that its parent has otherwise, and where it was trained.

    Raises:
        MissingInputError, DataError: if the spec cannot be read.
    """
    text = _without_changes(read_text(folder.spec, 4 * LARGEST_TEXT))
    changes = ((element("code", each), " ") for each in overrides_of(folder.spec))
    changed = element("p", "In place of what is written there: ", changes)
    spec = element("pre", element("code", text))
    shown = spec if len(spec) < LONG_SPEC else folded("the spec", spec)
    settings = settings_texts(folder.read_resolved())
    tried = attempts.read(folder.attempts)
    return (
        shown,
        changed if overrides_of(folder.spec) else None,
        folded("every setting in effect", table_of(("", ""), settings.items(), numbers=2)),
        *(() if parent is None else _difference(parent)),
        *(() if not tried else _attempts(tried)),
    )


def _without_changes(text: str) -> str:
    """The text of a spec without the lines that note other settings of this run."""
    lines = text.rstrip().splitlines()
    while lines and (not lines[-1].strip() or lines[-1].startswith(NOTED)):
        lines.pop()
    return "\n".join(lines).strip()


def _difference(parent: Parent) -> Sequence[Content]:
    title = element("h3", "Beside ", element("code", parent.name), ", which it extends")
    if not parent.rows:
        return (title, element("p", "No setting differs."))
    return (title, table_of(parent.columns, parent.rows, numbers=3), note_below(parent.remark))


def _attempts(tried: Sequence[Attempt]) -> Sequence[Content]:
    rows = (
        (
            f"{each.step:,}",
            datetime.fromtimestamp(each.time, UTC).strftime("%Y-%m-%d %H:%M UTC"),
            each.host,
            each.device,
            f"{each.processes}",
        )
        for each in tried
    )
    head = ("from step", "when", "host", "device", "processes")
    title = "Trained in one go" if len(tried) == 1 else f"Taken up {len(tried)} times"
    return (element("h3", title), table_of(head, rows, numbers=9))
