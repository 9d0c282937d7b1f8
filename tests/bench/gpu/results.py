"""What was measured: written to a file after each measurement, and shown as a table."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Values = dict[str, Any]
CUT = "cut"


@dataclass
class Results:
    """The measurements of one part, in ``FOLDER/PART.json``.

    Those of a part whose time ran out are gone on with; any others are replaced.
    """

    part: str
    folder: Path
    found: dict[str, Values] = field(init=False)
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        before = read(self.folder, self.part)
        self.found = before if before.pop(CUT, None) else {}

    def measure(self, name: str, take: Callable[[], object]) -> None:
        """Take a measurement that is not there yet; one that breaks off stops no other."""
        if name not in self.found:
            try:
                take()
            except Exception as error:  # what a device may refuse is not known beforehand
                self.put(name, error=f"{type(error).__name__}: {str(error)[:500]}")

    def put(self, name: str, **values: Any) -> None:
        """Write what one measurement showed, before the next one begins."""
        self.found[name] = values
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self.part}.json"
        path.with_suffix(".tmp").write_text(json.dumps(self.found, indent=1) + "\n")
        os.replace(path.with_suffix(".tmp"), path)
        print(f"{time.monotonic() - self.started:6.1f} s  {name}: {shown(values)}", flush=True)

    def check(self, name: str, ok: bool, **values: Any) -> None:
        """Keep what should be so, and whether it is."""
        self.put(name, ok=bool(ok), **values)

    def cut(self, limit_seconds: float) -> None:
        """Keep that time ran out."""
        self.put(CUT, seconds=limit_seconds)


def read(folder: Path, part: str) -> dict[str, Values]:
    """What a part found, if it ran."""
    path = folder / f"{part}.json"
    found: dict[str, Values] = json.loads(path.read_text()) if path.is_file() else {}
    return found


def untrue(found: dict[str, Values]) -> list[str]:
    """The checks that failed, and those that broke off."""
    return [name for name, values in found.items() if not values.get("ok", "error" not in values)]


def shown(value: Any) -> str:
    """A number in four digits; a list and a dictionary by their items."""
    match value:
        case float():
            return f"{value:.4g}"
        case list():
            return " ".join(map(shown, value)) or "none"
        case dict():
            return ", ".join(f"{key} {shown(item)}" for key, item in value.items())
        case _:
            return str(value)


def table(folder: Path, parts: tuple[str, ...]) -> str:
    """All measurements, a row each."""
    lines = ["| part | measured | found |", "|---|---|---|"]
    for part in parts:
        for name, values in read(folder, part).items():
            lines.append(f"| {part} | {name} | {shown(values)} |")
    return "\n".join(lines)
