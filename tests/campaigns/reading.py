"""Batches of prepared text, equal from disk and from S3, split, killed, moved, on a bad network.

    nice python -m tests.campaigns.reading --server .../moto_server [--mb 200] [--steps 2000]

Two texts are prepared, and read by two stages, a mixture and one of them. Processes write a digest
of every row (ids, length, key) at its step; they are killed, and go on where rows are missing. A
proxy in front of S3 answers 503, late, cut short, wrongly or not at all. Prints a table, and exits
1 if a row differs. Needs s3fs, and moto's server.
"""

import hashlib
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from bertc.api import resolve
from bertc.base.diagnostics import Table
from bertc.base.storage.place import FolderAt
from bertc.run.preparing import finish_preparing
from bertc.tasks.corpus import prepare
from bertc.text.cache.store import Silent
from bertc.text.prepared.making import begin_preparing, make_parts
from bertc.text.sources import files
from tests.campaigns.options import read_options

BATCH, PORT, PROXY, PART_BYTES = 32, 5801, 5802, 1 << 20
RUN = f"layers=1 hidden=16 heads=1 seq=64 batch={BATCH} objective=mlm format=doc-sentences"
KEYS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_DEFAULT_REGION": "us-east-1"}
FAULTS = ("503", "reset", "stalled", "slow", "cut", "wrong")


class Proxy(BaseHTTPRequestHandler):
    """S3 as a bad network shows it; ``share`` of the answers to readers are faults."""

    share, faults = 0.0, FAULTS
    done, draw = Counter[str](), random.Random(7)

    def do_GET(self) -> None:  # noqa: N802
        """Ask the server, and answer well or not."""
        fault = self.draw.choice(self.faults) if self.draw.random() < self.share else ""
        self.done[fault] += 1
        if fault == "reset":
            self.connection.close()
            return
        if fault == "stalled":
            time.sleep(120)
        asked = HTTPConnection("127.0.0.1", PORT)
        asked.request(self.command, self.path, headers=dict(self.headers))
        answer = asked.getresponse()
        body, status = answer.read(), 503 if fault == "503" else answer.status
        time.sleep(2 * (fault == "slow"))
        self.send_response(status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "server", "date"):
                self.send_header(name, value)
        self.end_headers()
        if fault == "wrong" and body:
            body = body[:-1] + bytes([body[-1] ^ 1])
        if self.command == "GET":
            self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)
        self.close_connection = True

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(command: str, port: int) -> Iterator[None]:
    """An S3 server on loopback, which commands here and below reach."""
    null = subprocess.DEVNULL
    server = subprocess.Popen([*shlex.split(command), "-p", str(port)], stdout=null, stderr=null)
    os.environ |= {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
    try:
        time.sleep(8)
        yield
    finally:
        server.kill()


def write(path: Path, size: int, seed: int) -> None:
    """JSON lines of made words."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("aeioubdfgklmnprst", k=draw.randint(2, 9))) for _ in range(5000)]
    with path.open("w") as file:
        while file.tell() < size:
            text = " ".join(draw.choices(words, k=draw.randint(20, 400)))
            file.write(json.dumps({"text": f"{text}."}) + "\n")


def make(folder: Path, size: int) -> None:
    """Prepare two texts with one tokenizer, here and in S3."""
    files.PART_BYTES = PART_BYTES
    import s3fs

    store = s3fs.S3FileSystem(endpoint_url=f"http://127.0.0.1:{PORT}")
    store.mkdir("text")
    for name, vocab in (("a", "wordpiece(4000)"), ("b", f'"{folder}/a/tokenizer"')):
        write(folder / f"{name}.jsonl", size if name == "a" else size // 4, ord(name))
        data = f'vocab={vocab} holdout=1% data=files("{folder}/{name}.jsonl")'
        place = FolderAt(str(folder / name))
        work = begin_preparing(resolve(f"{RUN} {data} steps=1", []), place, folder / "c", Silent())
        make_parts(work, work.plan.parts, Silent())
        finish_preparing(place, Silent())
        store.put(str(folder / name), "text/", recursive=True)


def spec(folder: Path, at: str, steps: int, cache: str) -> str:
    """The run that reads both texts at an address."""
    a, b = (f'prepared("{at}/{name}"{cache})' for name in "ab")
    stages = (("main", steps * 3 // 4, f"{a}*0.7 + {b}*0.3"), ("decay", steps // 4, b))
    blocks = (f'stage "{n}" {{ steps = {count}  data = {data} }}' for n, count, data in stages)
    return f'{RUN.replace(" ", chr(10))}\nvocab="{folder}/a/tokenizer"\n' + "\n".join(blocks)


def read(text: str, cache: Path, out: Path, rank: int, world: int) -> None:
    """Write the digests of this process's rows of every step that lacks them."""
    program = resolve(text, [])
    corpus, digests = prepare(program, cache, Silent()), np.load(out, mmap_mode="r+")
    rows = slice(rank * BATCH // world, (rank + 1) * BATCH // world)
    for step in range(program.steps):
        stage = program.stage_at(step)
        if not digests[step, rows].all():
            data = corpus.stages[program.stages.index(stage)]
            batch = data.train(stage.first_batch + step - stage.first_step, rows)
            fields = batch.token_ids, batch.lengths, batch.example_ids, batch.copies
            for nth, row in enumerate(zip(*fields, strict=True), rows.start):
                digest = hashlib.sha256(b"".join(value.tobytes() for value in row)).digest()
                digests[step, nth] = int.from_bytes(digest[:8], "little") | 1


def reading(text: str, cache: Path, out: Path, rank: int, world: int, **how: Any) -> Any:
    """A process that reads."""
    words = [text, str(cache), str(out), str(rank), str(world)]
    return subprocess.Popen([sys.executable, "-m", __spec__.name, "--read", *words], **how)


def scenario(folder: Path, name: str, texts: list[str], world: int, kills: int) -> tuple[Any, int]:
    """Read in processes that are killed so often, one text after the other; digests and kills."""
    out, cache = folder / f"{name}.npy", folder / f"{name}-cache"
    steps, turns = resolve(texts[-1], []).steps, kills // world + 1
    np.save(out, np.zeros((steps, BATCH), np.uint64))
    done, killed = np.load(out, mmap_mode="r"), 0
    for nth in range(turns):
        goal, text = steps * (nth + 1) // turns, texts[nth * len(texts) // turns]
        processes = [reading(text, cache, out, rank, world) for rank in range(world)]
        while any(process.poll() is None for process in processes):
            time.sleep(0.05)
            if goal < steps and int((done != 0).all(1).sum()) >= goal:
                for process in processes:
                    killed += process.poll() is None
                    process.kill()
        assert goal < steps or all(process.returncode == 0 for process in processes), name
    return done, killed


def main() -> None:
    """Make the texts, read them in every way, and compare."""
    if sys.argv[1:2] == ["--read"]:
        text, cache, out, rank, world = sys.argv[2:]
        read(text, Path(cache), Path(out), int(rank), int(world))
        return
    options = read_options(__doc__, server="moto_server", mb=2000, steps=2000, kills=40)
    proxy = ThreadingHTTPServer(("127.0.0.1", PROXY), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    rows, wrong = [], 0
    with serving(options.server, PORT), tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name).resolve()
        make(folder, options.mb << 20)
        disk = spec(folder, str(folder), options.steps, "")
        far = [spec(folder, "s3://text", options.steps, c) for c in ("", ", cache=30M")]
        expected, _ = scenario(folder, "disk", [disk], 1, 0)
        for title, texts, world, kills, share in (
            ("S3", far[:1], 1, 0, 0), ("S3, four processes", far[:1], 4, 0, 0),
            ("S3, small cache, killed", far[1:], 1, options.kills // 2, 0),
            ("S3, two processes, killed", far[1:], 2, options.kills // 2, 0),
            ("S3, then moved to a disk", [far[0], disk], 1, 1, 0),
            ("S3 with faults", far[1:], 1, 0, 0.05),
        ):  # fmt: skip
            Proxy.share, begun = share, time.time()
            port = PROXY if share else PORT
            os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
            read_rows, killed = scenario(folder, title, texts, world, kills)
            differing = int((read_rows != expected).sum())
            wrong += differing
            rows.append((title, killed, differing, round(time.time() - begun)))
        print(Table(("read from", "kills", "rows that differ", "seconds"), rows))
        print("answers:", dict(Proxy.done))
        for fault in FAULTS:
            Proxy.share, Proxy.faults, begun = 1.0, (fault,), time.time()
            out, cache = folder / "disk.npy", folder / f"always {fault}"
            np.save(out, np.zeros((options.steps, BATCH), np.uint64))
            with reading(far[0], cache, out, 0, 1, stderr=subprocess.PIPE) as process:
                said = process.communicate()[1].decode().splitlines()[-1:]
            print(f"always {fault}: {time.time() - begun:.0f} s: {said}"[:300], flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
