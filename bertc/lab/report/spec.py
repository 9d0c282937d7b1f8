"""The spec of a run, and its difference from the one that it extends."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from bertc import BertcError
from bertc.lab.report.markup import element
from bertc.lab.report.page import Part, fold
from bertc.lab.results.diff import diff
from bertc.lab_api import RunFolder, Table, settings_texts

_EXTENDS = re.compile(r'^\s*extends\s+(?:"([^"]+)"|([\w-]+))', re.MULTILINE)


def spec_section(folder: RunFolder) -> Sequence[Part]:
    """The text of the spec, settings that its parent has otherwise, and where it was trained."""
    text = folder.spec.read_text(encoding="utf-8").strip()
    settings = settings_texts(folder.read_resolved())
    rows = [
        (
            f"{attempt.step:,}",
            datetime.fromtimestamp(attempt.time, UTC).strftime("%Y-%m-%d %H:%M UTC"), attempt.host,
            attempt.device, f"{attempt.processes}",
        )
        for attempt in folder.read_attempts()
    ]  # fmt: skip
    head = ("from step", "when", "host", "device", "processes")
    return (
        element("pre", element("code", text)),
        fold("every setting in effect", Table(("setting", "value"), [*settings.items()])),
        *_difference(folder, text),
        fold("when it was trained", Table(head, rows)),
    )


def _difference(folder: RunFolder, text: str) -> Sequence[Part]:
    """The settings that the spec that a run extends has otherwise, and what each costs."""
    extends = _EXTENDS.search(text)
    if not extends:
        return ()
    name = extends[1] or extends[2]
    title = element("h3", "Compared with ", element("code", name), ", which it extends")
    lock = folder.read_lock()
    device = "cpu" if lock is None or lock.plan.device == "cpu" else "h200"
    try:
        return (title, diff(name, str(folder.path), device=device).table())
    except BertcError as error:
        return (title, element("p", f"It cannot be compared: {error.message}."))
