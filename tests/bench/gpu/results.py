"""What was measured: kept in a file after each measurement, and shown as a table."""

import json
import os
import time
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

    def lacks(self, name: str) -> bool:
        """Whether that is still to be measured."""
        return name not in self.found

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / f"{self.part}.json"

    def put(self, name: str, **values: Any) -> None:
        """Keep what one measurement showed, before the next one begins."""
        self.found[name] = values
        self._write()
        told = ", ".join(f"{key} {shown(value)}" for key, value in values.items())
        print(f"{time.monotonic() - self.started:6.1f} s  {name}: {told}", flush=True)

    def check(self, name: str, ok: bool, **values: Any) -> None:
        """Keep what should be so, and whether it is."""
        self.put(name, ok=bool(ok), **values)

    def failed(self, name: str, error: Exception) -> None:
        """Keep that a measurement broke off, and by what."""
        self.put(name, error=f"{type(error).__name__}: {str(error)[:500]}")

    def cut(self, limit_seconds: float) -> None:
        """Keep that time ran out."""
        self.put(CUT, seconds=limit_seconds)

    def _write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".tmp")
        beside.write_text(json.dumps(self.found, indent=1) + "\n")
        os.replace(beside, self.path)


def read(folder: Path, part: str) -> dict[str, Values]:
    """What a part found, if it ran."""
    path = folder / f"{part}.json"
    found: dict[str, Values] = json.loads(path.read_text()) if path.is_file() else {}
    return found


def untrue(found: dict[str, Values]) -> list[str]:
    """The checks that failed, and those that broke off."""
    return [name for name, values in found.items() if not values.get("ok", "error" not in values)]


def shown(value: Any) -> str:
    """A number in four digits; a list by its items."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return " ".join(map(shown, value)) or "none"
    if isinstance(value, dict):
        return " ".join(f"{key}={shown(item)}" for key, item in value.items())
    return str(value)


def table(folder: Path, parts: tuple[str, ...]) -> str:
    """All measurements, a row each."""
    lines = ["| part | measured | found |", "|---|---|---|"]
    for part in parts:
        for name, values in read(folder, part).items():
            told = ", ".join(f"{key} {shown(value)}" for key, value in values.items())
            lines.append(f"| {part} | {name} | {told} |")
    return "\n".join(lines)
