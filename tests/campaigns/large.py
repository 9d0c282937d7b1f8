"""Text of 10 TB that is never on a disk: start, memory, and the budget of the cache.

    nice python -m tests.campaigns.large [--shards 40000] [--shard-mb 256] [--steps 20000]

A store gives 40,000 parts; their tokens are those of one file, their manifests differ. A reader
takes 20 stretches of steps, spread over the pass, as a run that was resumed so often.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import numpy as np
from fsspec.implementations.memory import MemoryFileSystem

from bertc.api import resolve
from bertc.base.diagnostics import Table
from bertc.base.storage.place import FolderAt
from bertc.run.preparing import finish_preparing
from bertc.tasks.corpus import prepare
from bertc.text.batches.arranged import arrangements, count_rows, how
from bertc.text.cache.store import MANIFEST_FILE, RESERVED, Silent, seal
from bertc.text.prepared import opening
from bertc.text.prepared.making import begin_preparing, make_parts
from bertc.text.rows.tokens import TokenWriter, open_tokens
from tests.campaigns.options import read_options

STRETCHES = 20
SPEC = "layers=1 hidden=16 heads=1 seq=128 batch=256 steps=2000000 objective=mlm format=blocks"


class OnDemand(MemoryFileSystem):
    """A store whose parts are links to the files of one, under manifests with their numbers."""

    protocol = "ondemand"
    folder: ClassVar[Path]
    manifest: ClassVar[str]

    def cat_file(self, path: str, *args: Any, **kwargs: Any) -> bytes:
        part, name = self._there(path)
        if part.isdecimal():
            return numbered(self.manifest, part)
        return (self.folder / part / name).read_bytes()

    def get_file(self, rpath: str, lpath: str, **kwargs: Any) -> None:
        part, name = self._there(rpath)
        os.link(self.folder / ("part" if part.isdecimal() else part) / name, lpath)

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        return {"name": path, "size": (self.folder / "/".join(self._there(path))).stat().st_size}

    def _there(self, path: str) -> tuple[str, str]:
        part, _, name = path.split("//x/")[-1].partition("/")
        return part, name


def numbered(content: str, part: str) -> bytes:
    """The manifest of a part."""
    facts = content.replace('"number": ""', f'"number": "{part}"')
    return f"{hashlib.sha256(facts.encode()).hexdigest()}\n{facts}\n".encode()


def make(folder: Path, shards: int, shard_bytes: int, cache: str) -> str:
    """A corpus of so many parts; return the settings that read it."""
    text, part = folder / "text.jsonl", folder / "part"
    text.write_text("".join(f'{{"text": "Hen {n} sat on egg {n % 7}."}}\n' for n in range(4000)))
    program = resolve(f'{SPEC} vocab=wordpiece(300) holdout=10% data=files("{text}")', [])
    small = FolderAt(str(folder / "small"))
    work = begin_preparing(program, small, folder / "made", Silent())
    make_parts(work, work.plan.parts, Silent())
    corpus = finish_preparing(small, Silent())
    for name in ("heldout", "tokenizer"):
        shutil.copytree(folder / "small" / name, folder / name)
    part.mkdir()
    rng = np.random.default_rng(7)
    writer = TokenWriter(part, "train", np.uint16, work.plan.separator)
    while writer.tokens < shard_bytes // 2:
        writer.begin()
        writer.add(rng.integers(5, 200, 50_000).astype(np.uint16), np.full(2000, 25))
    writer.close()
    for name in ("heldout.ids", "heldout.sentences", "heldout.documents", "train.counts"):
        shutil.copy(folder / "small/00000" / name, part / name)
    stage, tokens = program.stages[0], open_tokens(part, "train", np.uint16)
    (arrangement,) = arrangements(stage, program)
    counts = {"tokens": tokens.count, "sentences": len(tokens.sentences) - 1, "documents": 1}
    rows = {how(arrangement, stage): count_rows(tokens, arrangement, stage)}
    seal(part, {**corpus.parts[0].facts, "train": counts, "rows": rows, "number": ""})
    OnDemand.folder = folder
    OnDemand.manifest = (part / MANIFEST_FILE).read_text().split("\n")[1]
    facts, parts = json.loads(OnDemand.manifest)["facts"], []
    for name in (f"{number:05}" for number in range(shards)):
        digest = hashlib.sha256(numbered(OnDemand.manifest, name)).hexdigest()
        parts.append(opening.PreparedPart(name, digest, {**facts, "number": name}))
    plan = replace(corpus.plan, parts=tuple(part.name for part in parts))
    opening.write_corpus(FolderAt(str(folder)), plan, parts, corpus.heldout)
    fsspec.register_implementation("ondemand", OnDemand)
    return f'{SPEC} vocab="{folder}/tokenizer" data=prepared("ondemand://x", cache={cache})'


def memory() -> int:
    """MiB of this process that are not files."""
    (line,) = re.findall(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(line) >> 10


def cached(shards: Path) -> int:
    """MiB of the cache, from which files may be gone while it is looked at."""
    sizes = 0
    for folder, _, names in os.walk(shards):
        for name in {*names} - {RESERVED}:
            with contextlib.suppress(FileNotFoundError):
                sizes += os.stat(Path(folder) / name).st_size
    return sizes >> 20


def main() -> None:
    """Begin, read every stretch, and print a table."""
    options = read_options(__doc__, shards=40_000, shard_mb=256, steps=20_000, cache="20G")
    with tempfile.TemporaryDirectory(dir=".", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        settings = make(folder, options.shards, options.shard_mb << 20, options.cache)
        begun, processor = time.time(), time.process_time()
        data = prepare(resolve(settings, []), folder / "cache", Silent()).stages[0]
        took = time.time() - begun, time.process_time() - processor
        print(f"begun in {took[0]:.1f} s ({took[1]:.1f} s of the processor), {memory()} MiB")
        rows, each = [], options.steps // STRETCHES
        for nth in range(STRETCHES):
            first = nth * data.examples // STRETCHES // data.batch
            data.train(first)  # waits for the shards
            processor, tokens = time.thread_time(), 0
            for step in range(first, first + each):
                tokens += int(data.train(step).lengths.sum())
            rate = tokens / (time.thread_time() - processor) / 1e6
            rows.append((f"{first:,}", memory(), cached(folder / "cache/shards"), round(rate, 1)))
        head = ("from step", "MiB of memory", "MiB of cache", "M tokens/s of a core")
        print(Table(head, rows))


if __name__ == "__main__":
    main()
