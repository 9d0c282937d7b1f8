"""Reading of text in many shards: how often what is opened, and which rows are read when."""

from pathlib import Path

import pytest

from bertc.data.prepared import manifest
from bertc.data.prepared.manifest import read_corpus

from .test_parts import write
from .test_prepared import made, reading, small_parts, spec  # noqa: F401


@pytest.fixture
def place(tmp_path: Path):
    write(tmp_path / "a.jsonl", 60)
    return made(spec(tmp_path / "a.jsonl"), f"memory://{tmp_path.name}", tmp_path / "cache")


def test_a_manifest_is_parsed_once_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place
) -> None:
    parsed = []
    monkeypatch.setattr(
        manifest, "_fields", lambda raw, fields=manifest._fields: parsed.append(1) or fields(raw)
    )
    before = read_corpus(place)
    assert read_corpus(place) is before
    assert len(parsed) == 1
    made(spec(tmp_path / "a.jsonl", "format=blocks"), place.address, tmp_path / "other")
    assert read_corpus(place) is not before
