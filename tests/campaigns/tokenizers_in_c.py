"""Tokenizers in C next to the library: lines of files, strange texts, every code point; fuzzed.

    nice python -m tests.campaigns.tokenizers_in_c [--given TOKENIZER.json ...] [--lines FILE ...]
        [--fuzz SECONDS]

Without any given, those of every class are learned from the lines. Speed is on one core, with
TOKENIZERS_PARALLELISM=false; that of C has the start of the program in it.
"""

import argparse
import gzip
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from tests.hub.hf_tokenizers import PLAIN, Words
from tests.lab.c.rows import compiled, rows, strange_texts

POINTS = [f"a{chr(point)}b" for point in range(0x110000) if not 0xD800 <= point < 0xE000]
FUZZER = ["-O1", "-g", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"]


def tokenizers(
    folder: Path, lines: list[str], given: list[Path]
) -> Iterator[tuple[str, Tokenizer]]:
    """Names and tokenizers: those given, or of each kind of folder one."""
    yield from ((path.parent.name, Tokenizer.from_file(str(path))) for path in given)
    words = None if given else Words.of(lines[:: max(1, len(lines) // 8000)], 8000)
    for number, kind in enumerate(PLAIN if words else []):
        kind.write(folder / str(number), words)
        name = f"{kind.cls} {kind.config or kind.model_type}"
        yield name, kind.reference(folder / str(number)).backend_tokenizer


def compare(name: str, tokenizer: Tokenizer, texts: Sequence[list[str]], fuzz: int) -> None:
    """Print a row of the table: differences among texts, and seconds of the first."""
    tokenizer.no_padding()
    tokenizer.no_truncation()
    figures, seconds = [name], list[float]()
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder), tokenizer, "-O3", "-march=native")
        for some in texts:
            begin = time.perf_counter()
            received = rows(program, some, 1 << 20)
            middle = time.perf_counter()
            encodings = tokenizer.encode_batch_fast(some)
            seconds += [middle - begin, time.perf_counter() - middle]
            wanted = [(len(e.ids), e.ids, e.type_ids) for e in encodings]
            differ = sum(row != want for row, want in zip(received, wanted, strict=True))
            figures.append(f"{differ} of {len(some):,}")
        print(f"| {' | '.join(figures)} | {seconds[0]:.1f} s, {seconds[1]:.1f} s |", flush=True)
        if fuzz:
            define = f'-DFUZZED="{program.with_suffix(".bin")}"'
            subprocess.run(["clang", *FUZZER, define, f"{program}.c", "-o", program], check=True)
            limits = f"-max_total_time={fuzz}", "-max_len=300", "-verbosity=0", "-rss_limit_mb=0"
            subprocess.run([program, *limits], check=True, cwd=folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--given", nargs="*", type=Path, default=[])
    parser.add_argument("--lines", nargs="*", type=Path, default=[])
    parser.add_argument("--fuzz", type=int, default=0)
    options = parser.parse_args()
    lines = [
        line
        for path in options.lines
        for line in (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8")
    ]
    print("| tokenizer | lines | strange texts | code points | time of lines: C, library |")
    print("|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, tokenizer in tokenizers(Path(folder), lines, options.given):
            compare(name, tokenizer, [lines, strange_texts(20_000, 1), POINTS], options.fuzz)
