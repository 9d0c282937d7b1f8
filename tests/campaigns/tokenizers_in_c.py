"""Tokenizers in C next to the library: lines of files, strange texts, every code point; fuzzed.

    nice python -m tests.campaigns.tokenizers_in_c [--given TOKENIZER.json ...] [--lines FILE ...]
        [--strange 20000] [--fuzz SECONDS]

Without any given, those of every class are learned from the lines. Speed is on one core, with
TOKENIZERS_PARALLELISM=false; that of C has the start of the program in it.
"""

import argparse
import gzip
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer

from tests.hub.hf_tokenizers import PLAIN, Words
from tests.lab.c.rows import compiled, rows, strange_texts

POINTS = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
FUZZER = [
    "-O1",
    "-g",
    "-std=c99",
    "-fsanitize=fuzzer,address,undefined",
    "-fno-sanitize-recover=all",
]


def lines_of(path: Path) -> list[str]:
    """The lines of a file, which may be compressed."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return raw.decode().splitlines()


def tokenizers(
    folder: Path, lines: list[str], given: list[Path]
) -> Iterator[tuple[str, Tokenizer]]:
    """Names and tokenizers: those given, and of each kind of folder one."""
    yield from ((path.parent.name, Tokenizer.from_file(str(path))) for path in given)
    if given:
        return
    words = Words.of(lines[:: max(1, len(lines) // 8000)], 8000)
    for number, kind in enumerate(PLAIN):
        kind.write(folder / str(number), words)
        name = f"{kind.cls} {kind.config or kind.model_type}"
        yield name, kind.reference(folder / str(number)).backend_tokenizer


def compare(
    name: str, tokenizer: Tokenizer, lines: list[str], strange: list[str], fuzz: int
) -> None:
    """Print a row of the table: differences among lines, strange texts and code points."""
    tokenizer.no_padding()
    tokenizer.no_truncation()
    figures, seconds = list[str](), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder), tokenizer, "-O3", "-march=native")
        for texts in (lines, strange, [f"a{point}b" for point in POINTS]):
            begin = time.perf_counter()
            received = rows(program, texts, 1 << 20)
            middle = time.perf_counter()
            encodings = tokenizer.encode_batch_fast(texts)
            wanted = [(len(e.ids), e.ids, e.type_ids) for e in encodings]
            seconds += [middle - begin, time.perf_counter() - middle]
            differ = sum(row != want for row, want in zip(received, wanted, strict=True))
            figures.append(f"{differ} of {len(texts):,}")
        print(
            f"| {name} | {' | '.join(figures)} | {seconds[0]:.1f} s, {seconds[1]:.1f} s |",
            flush=True,
        )
        if fuzz:
            define = f'-DFUZZED="{program.with_suffix(".bin")}"'
            subprocess.run(["clang", *FUZZER, define, f"{program}.c", "-o", program], check=True)
            quiet = [f"-max_total_time={fuzz}", "-verbosity=0", "-max_len=400", "-close_fd_mask=0"]
            subprocess.run([program, *quiet], check=True, cwd=folder)


def main() -> None:
    """Compare all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--given", nargs="*", type=Path, default=[])
    parser.add_argument("--lines", nargs="*", type=Path, default=[])
    parser.add_argument("--strange", type=int, default=20_000)
    parser.add_argument("--fuzz", type=int, default=0)
    options = parser.parse_args()
    lines = [line for path in options.lines for line in lines_of(path)]
    print("| tokenizer | lines | strange texts | code points | time of lines: C, library |")
    print("|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, tokenizer in tokenizers(Path(folder), lines, options.given):
            compare(name, tokenizer, lines, strange_texts(options.strange, 1), options.fuzz)


if __name__ == "__main__":
    main()
