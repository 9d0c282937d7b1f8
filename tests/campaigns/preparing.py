"""Kill ``bertc prepare`` at random moments, start it twice, and compare what it ends in.

    nice python -m tests.campaigns.preparing --kills 10 --server "moto_server"

A text of about 40 parts (of sequences with --fasta), cleaned of copies in other parts, is prepared
in a folder and, with --server (a command that takes -p PORT), in a store of an S3 server on
loopback, in 1, 7 and 64 shares; there are so many kills for each place and number of shares. Shares
in turn are killed (SIGKILL), every other one with a second start beside it, then all are run to
their end in random order. Prints a row for each; exits 1 if a file differs from those of one start
without kills.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import fsspec

from bertc.base.diagnostics import Table
from bertc.text.sources import files
from tests.campaigns import forking
from tests.campaigns.options import read_options
from tests.campaigns.reading import serving
from tests.text.test_parts import write
from tests.text.test_prepared import SETTINGS, contents
from tests.text.test_sequences import write as write_sequences

PORT = 5917


def start(words: list[str]) -> int:
    """The process of a command."""
    if pid := os.fork():
        return pid
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open("errors.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    os._exit(forking.command(words, Path.cwd()))


def content(to: str) -> dict[str, bytes]:
    """Every file of a place but locks, read by a process that ends, as its threads do."""
    if "://" not in to:
        return contents(Path(to))
    system, root = fsspec.core.url_to_fs(to, use_listings_cache=False, skip_instance_cache=True)
    return {path.removeprefix(f"{root}/"): system.cat_file(path) for path in system.find(root)}


def end(pid: int) -> int:
    """The exit code of a process, minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def campaign(prepare: list[str], to: str, shares: int, kills: int) -> tuple[int, int, int]:
    """Kill shares until it was done so often, then end all: kills, second starts, failures."""
    drawn, killed, doubled, failed = random.Random(f"{to} {shares}"), 0, 0, 0
    share = ["--to", to, "--workers", "1"]
    began = time.monotonic()
    end(start([*prepare, *share[:1], f"{to}-timed", *share[2:], "--part", f"1/{shares}"]))
    longest = (time.monotonic() - began) * 1.2
    while killed < kills:
        nth = drawn.randint(1, shares)
        words = [*prepare, *share, *(["--part", f"{nth}/{shares}"] if shares > 1 else [])]
        pids = [start(words) for _ in range(1 + killed % 2)]
        time.sleep(drawn.uniform(0, longest))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        codes = [end(pid) for pid in pids]
        killed += codes.count(-signal.SIGKILL)
        doubled += len(pids) - 1
        failed += sum(code not in (0, -signal.SIGKILL) for code in codes)
    for nth in drawn.sample(range(1, shares + 1), shares):
        failed += end(start([*prepare, *share, "--part", f"{nth}/{shares}"])) != 0
    if end(start(["prepare", "--to", to, "--finish"])):  # killed while it removed copies
        failed += end(start([*prepare, *share])) != 0
    return killed, doubled, failed


def main() -> int:
    """Run all of it; print the table."""
    options = read_options(__doc__, kills=10, server="", fasta=False)
    for name in ("bertc.api", "bertc.cli.app", "bertc.run.preparing", "tokenizers", "sentencex"):
        __import__(name)
    with ExitStack() as servers, tempfile.TemporaryDirectory(prefix="preparing-") as folder:
        os.chdir(folder)
        os.environ |= {"BERTC_CACHE": f"{folder}/cache", "TOKENIZERS_PARALLELISM": "false"}
        file, settings = Path(folder, "a.jsonl"), SETTINGS
        write(file, 250)
        if options.fasta:
            file, settings = Path(folder, "a.fasta"), SETTINGS.replace("wordpiece(300)", "bytes")
            write_sequences(file, 1500)
        file.write_text(file.read_text() * 2)
        files.PART_BYTES = file.stat().st_size // 40
        data = f'{"fasta" if options.fasta else "files"}("{file}")'
        text = f"data={data} {settings} layers=1 hidden=16 heads=1"
        prepare = ["prepare", f"{text} clean=documents(unique=true)"]
        roots = [folder]
        if options.server:
            servers.enter_context(serving(options.server, PORT))
            make = "import s3fs; s3fs.S3FileSystem().mkdir('bucket')"
            subprocess.run([sys.executable, "-c", make], check=True)
            roots.append("s3://bucket")
        return rows(prepare, roots, options.kills)


def rows(prepare: list[str], roots: list[str], kills: int) -> int:
    """A row for each place and number of shares; 1 if any differs."""
    head = ("place", "shares", "kills", "second starts", "failed", "files", "differing")
    shown, wrong, places = list[tuple[str, ...]](), 0, list[tuple[str, int, tuple[int, int, int]]]()
    assert end(start([*prepare, "--to", f"{roots[0]}/straight", "--workers", "1"])) == 0
    for root in roots:
        for shares in (1, 7, 64):
            to = f"{root}/of{shares}"
            places.append((to, shares, campaign(prepare, to, shares, kills)))
    straight = content(f"{roots[0]}/straight")
    for to, shares, (killed, doubled, failed) in places:
        there = content(to)
        differing = [name for name in {*straight, *there} if straight.get(name) != there.get(name)]
        cells = (shares, killed, doubled, failed, len(there), len(differing))
        shown.append(("S3" if "://" in to else "folder", *map(str, cells)))
        print(to, sorted(differing)[:5], file=sys.stderr)
        wrong += failed + len(differing)
    print(Table(head, shown))
    print(Path("errors.txt").read_text()[-3000:] * (wrong > 0), file=sys.stderr)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
