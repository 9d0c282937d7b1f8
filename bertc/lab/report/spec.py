"""The spec of a run, and its difference from the one that it extends."""

from collections.abc import Sequence
from datetime import UTC, datetime

from bertc import BertcError, RunFolder, Table, parse
from bertc.base.storage.plain_file import read_text
from bertc.lab.report.markup import element
from bertc.lab.report.page import Part, folded
from bertc.lab.results.diff import diff
from bertc.lang.read.scan import LARGEST_TEXT
from bertc.lang.read.tree import Extends, String
from bertc.run.records import attempts
from bertc.run.records.groups import settings_texts


def spec_section(folder: RunFolder) -> Sequence[Part]:
    """The text of the spec, the settings that its parent has otherwise, and where it was trained.

    Raises:
        MissingInputError, DataError: if the spec cannot be read.
    """
    text = read_text(folder.spec, 4 * LARGEST_TEXT).strip()
    settings = settings_texts(folder.read_resolved())
    rows = [
        (
            f"{attempt.step:,}",
            datetime.fromtimestamp(attempt.time, UTC).strftime("%Y-%m-%d %H:%M UTC"),
            attempt.host,
            attempt.device,
            f"{attempt.processes}",
        )
        for attempt in attempts.read(folder.attempts)
    ]
    head = ("from step", "when", "host", "device", "processes")
    return (
        element("pre", element("code", text)),
        folded("every setting in effect", Table(("setting", "value"), [*settings.items()])),
        *_difference(folder, text),
        folded("when it was trained", Table(head, rows)),
    )


def _difference(folder: RunFolder, text: str) -> Sequence[Part]:
    """The settings that the spec that a run extends has otherwise, and what each costs."""
    targets = [item.target for item in parse(text).items if isinstance(item, Extends)]
    if not targets:
        return ()
    name = targets[0].value if isinstance(targets[0], String) else targets[0].text
    title = element("h3", "Compared with ", element("code", name), ", which it extends")
    lock = folder.read_lock()
    device = "cpu" if lock is None or lock.plan.device == "cpu" else "h200"
    try:
        return (title, diff(name, str(folder.path), device=device).table())
    except BertcError as error:
        return (title, element("p", f"It cannot be compared: {error.message}."))
