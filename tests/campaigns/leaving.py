"""Shipped specs, shrunk, three steps, exported, then a classification: beside transformers.

    python -m tests.campaigns.leaving [NAME ...]

Prints a row a spec: the largest difference of states, of vectors in sentence-transformers, and of
probabilities of a classifier that begins there, each from all that the exported tokenizer puts out.
Exits 1 if one is above 1e-4.
"""

import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import bertc
from bertc.run.models.runs import export_run
from tests.hub.test_export import probabilities

SMALL = ("layers=2", "hidden=32", "heads=4", "ffn=64", "steps=3", "batch=8", "seq=64")
RUN = ("device=cpu", "precision=fp32")
TEXT, ENGLISH = "data=files('text.txt')", "files('en.txt', language=en)"
SPECS: dict[str, tuple[str, ...]] = {
    "bert-base": ("vocab=wordpiece(600)",),
    "mbert": ("vocab=wordpiece(600)", f"data={ENGLISH} + files('sw.txt', language=sw)"),
    "spanbert-base": ("vocab=wordpiece(600)",),
    "roberta-base": ("vocab=bpe(700)",),
    "camembert-base": ("vocab=unigram(600, lower=false, specials=roberta)",),
    "albert-base": ("vocab=unigram(600)", "embedding=16"),
    "electra-small": ("vocab=wordpiece(600)", "embedding=16"),
    "xlnet-base": ("vocab=unigram(600)",),
    "xlm-en": ("vocab=wordpiece(600)", "ffn=128", "embedding=32", f"data={ENGLISH}"),
    "deberta-v3-small": ("vocab=unigram(600)",),
    "modernbert-base": ("vocab=bpe(700)", "batch_warmup=rising(1, 1)"),
    "eurobert-210m": ("vocab=bpe(700)",),
    "nomic-bert": ("vocab=wordpiece(600)",),
}  # fmt: skip
TOLERANCE = 1e-4
WORDS = "the a one small large old new capital of in on river city people live work read has is was"


def sentences(count: int) -> list[str]:
    """Sentences of common words and of made ones."""
    drawn = random.Random(0)
    made = ["".join(drawn.choices("aeioubdfgklmnprst", k=drawn.randint(3, 8))) for _ in range(400)]
    words = WORDS.split() * 8 + made
    return [" ".join(drawn.choices(words, k=drawn.randint(4, 14))) + " ." for _ in range(count)]


TEXTS = sentences(12)


def write_texts() -> None:
    """Text and examples in the working folder."""
    lines = sentences(800)
    text = "\n\n".join("\n".join(lines[n : n + 8]) for n in range(0, len(lines), 8))
    for name in ("text", "en", "sw"):
        Path(f"{name}.txt").write_text(text)
    rows = [f"{line}\t{'good' if n % 2 else 'bad'}" for n, line in enumerate(TEXTS)]
    Path("rows.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")


@torch.no_grad()
def states(folder: Path, run: Path) -> float:
    """The largest difference of last states."""
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    model, ours = transformers.AutoModel.from_pretrained(folder).eval(), bertc.load(run)
    worst = 0.0
    for text in TEXTS:
        theirs = model(**tokenizer(text, return_tensors="pt")).last_hidden_state
        worst = max(worst, (theirs - ours.encode(**ours.tokenizer(text))).abs().max().item())
    return worst


def vectors(folder: Path, run: Path) -> float:
    """The largest difference of vectors in sentence-transformers."""
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    return float(np.abs(theirs - bertc.load(run).embed(TEXTS, "mean")).max())


def answers(folder: Path, run: Path) -> float:
    """The largest difference of probabilities."""
    pairs = zip(bertc.load(run).predict(TEXTS), probabilities(folder, TEXTS), strict=True)
    return max(abs(ours["probabilities"][n] - p) for ours, row in pairs for n, p in row.items())


def row(name: str) -> tuple[list[str], bool]:
    """The cells of a spec, and whether all is as expected."""
    run, left, tuned = Path(f"{name}-run"), Path(f"{name}-left"), Path(f"{name}-tuned")
    bertc.train(bertc.resolve(name, (TEXT, *SMALL, *RUN, *SPECS[name])), run)
    exported = export_run(run, left, "mean")
    task = f"init='{run}' task=classify('rows.tsv', 'rows.tsv') steps=3 batch=4"
    bertc.train(f"{task} {' '.join(RUN)}", tuned)
    answering = export_run(tuned, Path(f"{name}-answers"))
    worst = [states(left, run), vectors(left, run), answers(answering.folder, tuned)]
    classes = f"{exported.architecture}, {answering.architecture}"
    return [name, classes, *(f"{each:.0e}" for each in worst)], max(worst) <= TOLERANCE


def main() -> int:
    names, bad = sys.argv[1:] or [*SPECS], 0
    print("| spec | classes | states | vectors | probabilities |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_texts()
        for name in names:
            cells, good = row(name)
            bad += not good
            print(f"| {' | '.join(cells)} |", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
