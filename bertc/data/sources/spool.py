"""Slow sources, read once and copied as text into the cache."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from bertc.data.cache.progress import Progress
from bertc.data.cache.store import fingerprint, obtain
from bertc.data.sources.source import Piece, TextSource

TEXT_FILE = "text.jsonl"


def spooled(source: TextSource, cache: Path, progress: Progress) -> TextSource:
    """The same source, read from a copy in the cache if it is slow."""
    if not source.slow:
        return source
    folder = cache / "text" / fingerprint(source.identity)
    facts = obtain(folder, partial(_write, source, progress), progress, source.text_bytes)
    return replace(
        source,
        total=facts["bytes"],
        unit="bytes",
        text_bytes=facts["bytes"],
        read=partial(_read, folder / TEXT_FILE),
    )


def _write(source: TextSource, progress: Progress, folder: Path) -> dict[str, int]:
    """Write a JSON line [starts a document, text] for each piece."""
    size_bytes = 0
    progress.begin(f"reading {source.name}", source.total, source.unit)
    with (folder / TEXT_FILE).open("w", encoding="ascii") as file:
        for text, first, amount, _ in source.read():
            size_bytes += file.write(json.dumps([first, text]) + "\n")
            progress.advance(amount)
    progress.end()
    return {"bytes": size_bytes}


def _read(path: Path) -> Iterator[Piece]:
    with path.open(encoding="ascii") as file:
        for line in file:
            first, text = json.loads(line)
            yield Piece(text, first, len(line))
