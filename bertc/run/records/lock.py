"""lock.json: the environment of a run's start, which decides its result beside its program."""

import json
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bertc.base.diagnostics import DataError
from bertc.base.storage import durable
from bertc.base.storage.plain_file import read_json
from bertc.cost.planning.plan import Plan

LARGEST_BYTES = 2**20
MOST_THREADS = 1024
_PACKAGES = ("torch", "numpy", "tokenizers", "safetensors", "datasets", "pydantic")


class Lock(BaseModel):
    """Facts that decide a run's result beside its program, as they were at its start.

    ``data`` is the fingerprint of the text as prepared, ``contents`` what was read, by name:
    the identity and the sha256 of each text and task file. ``init``, ``teachers``: of weights.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    layout: Literal[1] = Field(default=1, alias="schema")
    resolved: str
    data: str
    contents: dict[str, tuple[str, str]] = Field(default_factory=dict)
    init: str
    teachers: dict[str, str] = Field(default_factory=dict)
    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)]
    plan: Plan
    machine: dict[str, Any]
    versions: dict[str, str]

    @staticmethod
    def read(path: Path) -> "Lock":
        """Read the lock of a run."""
        content = json.dumps(read_json(path, LARGEST_BYTES))
        try:
            return Lock.model_validate_json(content)
        except ValidationError as error:
            place = ".".join(map(str, error.errors()[0]["loc"]))
            message = f"{path} is damaged: {place} is missing or not what a run writes"
            help = f"restore a copy, or remove {path} to go on with a plan for this machine"
            raise DataError(message, help) from None

    def content(self) -> dict[str, Any]:
        """The lock as JSON values."""
        return self.model_dump(mode="json", by_alias=True)

    def write(self, path: Path) -> None:
        """Write the lock to a file, atomically."""
        durable.replace(path, (json.dumps(self.content(), indent=1) + "\n").encode())


@cache  # packages stay what they are, and each look reads a file of theirs
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute results or write files."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
