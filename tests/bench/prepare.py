"""How fast a corpus is prepared: ``python tests/bench/prepare.py CORPUS [--set SETTINGS]``.

CORPUS is a file of JSON lines with a text each, plain or in gzip. The whole of ``prepare`` (unpack,
parse, split into sentences, tokenise, write tokens and rows, into a fresh cache) takes turns with
the bare tokenizer, which gets the same texts from memory, cut into paragraphs and into sentences:
``encode_batch`` on all cores, the best of several batch sizes. Both are given the vocabulary; once
it is learned as well. Memory is the largest sum of resident pages over the processes of one
preparation, pages they share counted in each. Prints JSON.
"""

import argparse
import gzip
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes import resolve
from bertc.data.cache.progress import Silent
from bertc.data.corpus import prepare
from bertc.data.sources.sentences import split_sentences
from bertc.lang import load

BATCHES = (1000, 10_000)
TRIED_BYTES = 6 << 20
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Timing(Silent):
    """Seconds of each task, and how often it was heard of."""

    def __init__(self) -> None:
        self.tasks: dict[str, float] = {}
        self.heard = 0

    def begin(self, task: str, total: int, unit: str) -> None:
        """Start the clock."""
        self._task, self._start = task, time.perf_counter()

    def advance(self, amount: int) -> None:
        """Count."""
        self.heard += 1

    def end(self) -> None:
        """Stop the clock."""
        self.tasks[self._task] = round(time.perf_counter() - self._start, 2)


def tree_bytes() -> int:
    """Resident memory of this process and of all below it."""
    parents, sizes = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            parents[int(entry.name)], sizes[int(entry.name)] = int(fields[1]), int(fields[21])
    total, found = 0, {os.getpid()}
    while found:
        total += sum(sizes[pid] for pid in found)
        found = {pid for pid, parent in parents.items() if parent in found}
    return total * PAGE_BYTES


def once(corpus: str, vocabulary: str, settings: str, save: str) -> dict[str, Any]:
    """Prepare the corpus into a fresh cache, and save the vocabulary; what it took."""
    peak, done, timing, diagnostics = [0], threading.Event(), Timing(), Diagnostics()

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], tree_bytes())

    spec = f'layers=1 hidden=64 steps=100k data="{corpus}" vocab={vocabulary} {settings}'
    resolved = resolve(load(spec, [], diagnostics)[0], diagnostics)
    threading.Thread(target=watch, daemon=True).start()
    with tempfile.TemporaryDirectory() as cache:
        start = time.perf_counter()
        made = prepare(resolved, Path(cache), timing)
        seconds = time.perf_counter() - start
    done.set()
    made.vocabulary.tokenizer.save(save)
    facts = made.facts[0]
    return {
        "seconds": round(seconds, 2),
        "tasks": timing.tasks,
        "progress_reports": timing.heard,
        "peak_mb": peak[0] >> 20,
        "tokens": facts["train"]["tokens"] + facts["heldout"]["tokens"],
        "fingerprint": made.fingerprint,
    }


def apart(*arguments: str) -> dict[str, Any]:
    """``once`` in a process of its own, so that its memory is its own."""
    command, before = [sys.executable, __file__, "--once", *arguments], cpu_seconds()
    found: dict[str, Any] = json.loads(subprocess.check_output(command))
    return {**found, "cpu_seconds": round(cpu_seconds() - before, 2)}


def cpu_seconds() -> float:
    """Processor time of all ended processes below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def bare(tokenizer: Tokenizer, texts: list[str], at_once: int) -> float:
    """Seconds of the tokenizer alone."""
    start = time.perf_counter()
    for first in range(0, len(texts), at_once):
        tokenizer.encode_batch(texts[first : first + at_once], add_special_tokens=False)
    return time.perf_counter() - start


def fastest(tokenizer: Tokenizer, documents: list[str]) -> tuple[str, int]:
    """How the bare tokenizer likes its texts best: cut how, and how many at once."""
    part, held = list[str](), 0
    for text in documents:
        part.append(text[: TRIED_BYTES - held])
        held += len(part[-1])
    tried = {
        (how, at_once): bare(tokenizer, cut(part, how), at_once)
        for how in ("paragraphs", "sentences")
        for at_once in BATCHES
    }
    return min(tried, key=lambda case: tried[case])


def cut(documents: list[str], how: str) -> list[str]:
    """The texts in pieces for the bare tokenizer."""
    if how == "sentences":
        return [sentence for text in documents for sentence in split_sentences(text, "split")]
    return [paragraph for text in documents for paragraph in text.split("\n\n")]


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus")
    parser.add_argument("--set", default="seq=128 batch=256 objective=mlm", dest="settings")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    opener = gzip.open if given.corpus.endswith(".gz") else open
    with opener(given.corpus, "rb") as lines:
        documents = [json.loads(line)["text"] for line in lines]
    size_bytes = sum(len(text.encode()) for text in documents)
    with tempfile.TemporaryDirectory() as folder:
        saved = f"{folder}/tokenizer.json"
        learning = apart(given.corpus, "wordpiece(30k)", given.settings, saved)
        tokenizer = Tokenizer.from_file(saved)
        how, at_once = fastest(tokenizer, documents)
        texts, bare_s, whole, bare_cpu_s = cut(documents, how), [], [], []
        for _ in range(given.rounds):
            start = time.process_time()
            bare_s.append(bare(tokenizer, texts, at_once))
            bare_cpu_s.append(time.process_time() - start)
            whole.append(apart(given.corpus, f'"{saved}"', given.settings, saved))
    whole_s = [float(found["seconds"]) for found in whole]
    result = {
        "cores": len(os.sched_getaffinity(0)),
        "corpus_mb": round(size_bytes / 1e6, 1),
        "settings": given.settings,
        "bare": {"cut": how, "at_once": at_once, "seconds": [round(s, 2) for s in bare_s]},
        "bare_mb_per_s": round(size_bytes / 1e6 / statistics.median(bare_s), 2),
        "prepare_mb_per_s": round(size_bytes / 1e6 / statistics.median(whole_s), 2),
        "ratio": round(statistics.median(b / w for b, w in zip(bare_s, whole_s, strict=True)), 3),
        "ratio_of_cpu_seconds": round(
            statistics.median(
                b / found["cpu_seconds"] for b, found in zip(bare_cpu_s, whole, strict=True)
            ),
            3,
        ),
        "peak_mb": max(found["peak_mb"] for found in (*whole, learning)),
        "prepare": whole,
        "with_learning": learning,
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    if sys.argv[1] == "--once":
        print(json.dumps(once(*sys.argv[2:])))
    else:
        main()
