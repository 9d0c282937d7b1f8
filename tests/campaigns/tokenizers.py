"""Tokenizers of folders beside transformers' own, over many lines of many scripts.

    python -m tests.campaigns.tokenizers FILE... [--lines 10000] [--size 8000] [--own DIR]...

Folders of every kind are made with vocabularies learned from the lines of the files (text, or text
in .gz), drawn evenly from all of them; ``--own`` adds folders that are there. Each line is read
alone, and in a pair with another: token ids, and whole rows with their segments.
"""

import argparse
import gzip
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import transformers

from bertc.base.diagnostics import BertcError
from bertc.data.examples.encode import encode
from bertc.data.layouts.example import LabelledExample
from bertc.data.vocab.existing import vocabulary_of
from bertc.data.vocab.learned import learn
from bertc.data.vocab.vocabulary import Vocabulary, from_tokenizer
from bertc.ir.learning.custom_task import Classify
from bertc.ir.vocabulary import ByteBpe, Bytes, Unigram, WordPiece
from bertc.ir.vocabulary import Words as WordList
from tests.hub.hf_tokenizers import Words, all_folders

TASK = Classify(train="-", labels=("x", "y"))
LONGEST, ROWS, AT_ONCE = 100_000, 10_000_000, 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=8000)
    parser.add_argument("--own", type=Path, action="append", default=[])
    options = parser.parse_args()
    lines = drawn(options.files, options.lines)
    print(f"{len(lines):,} lines of {len(options.files)} files, transformers "
          f"{transformers.__version__}")  # fmt: skip
    print("| folder | lines | other ids | other rows | s |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        for name, folder, theirs in cases(Path(place), lines, options.size, options.own):
            started = time.perf_counter()
            try:
                found = vocabulary_of(folder, ROWS)
                ids, rows = differing(found, theirs, lines)
                said = f"{len(lines):,} | {ids:,} | {rows:,}"
            except BertcError as error:
                said = f"refused: {error.message} | |"
            print(f"| {name} | {said} | {time.perf_counter() - started:.0f} |", flush=True)


def drawn(files: Sequence[Path], count: int) -> list[str]:
    """Lines that are not blank, as many of each file as it has, in a fixed order."""
    draw, lines, left = random.Random(7), list[str](), list[str]()
    for file in files:
        opened = gzip.open if file.suffix == ".gz" else open
        with opened(file, "rb") as content:
            whole = content.read(50_000_000).decode("utf-8", "replace").split("\n")
        whole = [line for line in whole if line.strip()]
        draw.shuffle(whole)
        share = -(-count // len(files))
        lines, left = lines + whole[:share], left + whole[share:]
    lines += draw.sample(left, min(len(left), max(0, count - len(lines))))
    draw.shuffle(lines)
    return lines[:count]


def cases(place: Path, lines: Sequence[str], size: int, own: Sequence[Path]) -> Any:
    """A name, a folder, and transformers' tokenizer of it."""
    for folder in own:
        yield f"{folder.name} (own)", folder, transformers.AutoTokenizer.from_pretrained(folder)
    for node in (WordPiece(size=size), ByteBpe(size=size), Unigram(size=size),
                 WordList(size=size), Bytes()):  # fmt: skip
        folder = place / node.kind
        from_tokenizer(learn(node, lines), node.kind).save(folder)
        yield f"a run's, {node.kind}", folder, transformers.AutoTokenizer.from_pretrained(folder)
    words = Words.of(lines, size)
    for number, kind in enumerate(all_folders(words)):
        folder = place / str(number)
        kind.write(folder, words)
        yield str(kind), folder, kind.theirs(folder)


def differing(found: Vocabulary, theirs: Any, lines: Sequence[str]) -> tuple[int, int]:
    """How many lines have other ids alone, and how many pairs of them other rows."""
    ids = rows = 0
    for at in range(0, len(lines), AT_ONCE):
        part = list(lines[at : at + AT_ONCE])
        half = len(part) // 2
        for texts in ((part,), (part[:half], part[half : 2 * half])):
            examples = [LabelledExample("", each, None) for each in zip(*texts, strict=True)]
            made = encode(TASK, examples, found, LONGEST, 256)
            wanted = theirs(*texts, return_token_type_ids=True)
            for row, (start, end) in enumerate(zip(made.begins, made.begins[1:], strict=False)):
                same = made.token_ids[start:end].tolist() == wanted["input_ids"][row]
                kinds = made.segment_ids[start:end].tolist() == wanted["token_type_ids"][row]
                ids += len(texts) == 1 and not same
                rows += len(texts) == 2 and not (same and kinds)
    return ids, rows


if __name__ == "__main__":
    main()
