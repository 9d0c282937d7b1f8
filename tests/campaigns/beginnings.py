"""What beginning with a trained encoder gives: words, windows, LoRA, mined negatives, a reranker.

    nice python -m tests.campaigns.beginnings --data DIR --init DIR --out DIR [--only search,lora]

DIR of --data holds glue/SST-2, glue/STS-B, multi30k, nltk/movie_reviews.zip and squad1; --init is a
folder of all-MiniLM-L6-v2. Each figure comes from commands of bertc, and goes to ``figures.jsonl``
in --out, a line for a row and seed; those that are there are not made again. Prints medians of
three seeds, and in brackets the largest less the smallest. CPU is the user and system time of the
training command in seconds, MiB its largest resident memory.
"""

import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from tests.campaigns.options import read_options

Figures = dict[str, float]
Row = tuple[str, int, Callable[[int], Figures]]
"""Its name, its seeds, and what makes its figures."""
LOG = Path("figures.jsonl")
SEARCHED = "corpus='docs.jsonl', queries='queries.jsonl', relevant='qrels.tsv'"
PAIRS = "text=query, positive=answer, examples="
MINED = "negatives=mined('minilm', top=50)"


def main() -> None:
    parts = {part.__name__: part for part in (search, lora, words, windows, rerank)}
    options = read_options(__doc__, data=Path, init=Path, out=Path, only=",".join(parts))
    init, data = options.init.resolve(), options.data.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    os.chdir(options.out)
    if not Path("minilm").exists():
        bertc("import", str(init), "--out", "minilm")
    wanted = [parts[name] for name in options.only.split(",")]
    for seed in (1, 2, 3):
        for name, seeds, make in (row for part in wanted for row in part(data)):
            if seed <= seeds and seed not in made(name):
                with LOG.open("a", encoding="utf-8") as log:
                    log.write(json.dumps({"row": name, "seed": seed} | make(seed)) + "\n")
    for name in dict.fromkeys(row[0] for part in wanted for row in part(data)):
        for figure in made(name)[1].keys() - {"row", "seed", "loss"}:
            of_seeds = [line[figure] for line in made(name).values()]
            spread = f"({max(of_seeds) - min(of_seeds):.3g})"
            print(f"{name:28} {figure:20} {statistics.median(of_seeds):.4f} {spread}", flush=True)


def search(data: Path) -> Iterator[Row]:
    """Questions of SQuAD to paragraphs of other articles: negatives of the batch, or mined."""
    write_search(data)
    yield "search: minilm", 1, lambda _: evaluated("minilm", "--task", f"embed({SEARCHED})")
    for way, negatives in (("in batch", f"{PAIRS}640"), ("mined", f"{PAIRS}640, {MINED}")):
        task = f"task=embed('pairs.jsonl', {negatives}, {SEARCHED})"
        spec = f"{task} seq=128 batch=32 epochs=1 optimizer=adamw(2e-5)"
        yield f"search: {way}", 3, training(way, spec)


def lora(data: Path) -> Iterator[Row]:
    """SST-2 with 1,500 examples, in full and by LoRA; three seeds at the best of three rates."""
    task = sentences(data)
    adapt = "adapt=lora(rank=8, alpha=16, on=attention+ffn)"
    ways = {"in full": ("", ("3e-5", "1e-4", "3e-4")), "lora": (adapt, ("1e-4", "2e-4", "5e-4"))}
    for way, (setting, rates) in ways.items():
        yield from at_best(f"SST-2: {way}", f"{task} {setting}", rates, "accuracy")


def sentences(data: Path) -> str:
    """The task of SST-2 with 1,500 examples."""
    write("sst2.tsv", lines(data / "glue/SST-2/train.tsv.gz")[:1501])
    files = f"'sst2.tsv', '{data}/glue/SST-2/dev.tsv'"
    return f"task=classify({files}, text=sentence, label=label) seq=64 batch=32 epochs=2"


def words(data: Path) -> Iterator[Row]:
    """German: learned from translations, with and without new words, then a task; and English."""
    text, pairs = data / "multi30k", data / "glue/STS-B"
    both = zip(*(lines(text / f"train.{name}.gz") for name in ("de", "en")), strict=True)
    write("captions.jsonl", [json.dumps({"de": de, "en": en}) for de, en in both])
    on = "task=embed('captions.jsonl', text=de, positive=en, both=true) seq=64 batch=32 steps=100"
    new = f"vocab=extend(init, 2k) data=files('{text}/train.de.gz', sentences=lines)"
    ways = {"trained on": on, "new words": f"{on} {new}", "fine-tuned": "", "three times": ""}
    files = f"'{pairs}/stsb-de-train.csv.gz', '{pairs}/stsb-de-dev.csv.gz'"
    columns = "text='0', positive='1', score='2', examples=800, dev_examples=600"
    task = f"task=embed({files}, {columns}) seq=64 batch=32 optimizer=adamw(5e-5)"

    def row(seed: int, way: str) -> Figures:
        figures, run = Figures(), f"runs/{way}-{seed}" if ways[way] else "minilm"
        if ways[way]:
            figures |= training(way, f"{ways[way]} optimizer=adamw(1e-4)")(seed)
        tokenizer = Tokenizer.from_file(f"{run}/tokenizer/tokenizer.json")
        for language in ("de", "en"):
            held_out = lines(text / f"val.{language}.gz")
            read = tokenizer.encode_batch(held_out, add_special_tokens=False)
            tokens = sum(map(len, read)) / sum(len(line.split()) for line in held_out)
            figures[f"tokens a word, {language}"] = tokens
        sts = f"embed(sts='{pairs}/stsb-en-dev.csv.gz')"
        figures["English"] = evaluated(run, "--task", sts, "--examples", "300")["spearman"]
        of_task = f"{task} epochs={6 if way == 'three times' else 2}"
        return figures | {"spearman": training(f"task {way}", of_task, run)(seed)["spearman"]}

    for way in ways:
        yield f"German: {way}", 3, partial(row, way=way)


def windows(data: Path) -> Iterator[Row]:
    """Film reviews of 750 words in rows of 128 tokens: their beginning, or all of it.
    Of nothing but these few reviews neither learns: so what has learned sentences goes on.
    """
    with zipfile.ZipFile(data / "nltk/movie_reviews.zip") as files:
        names = [name for name in sorted(files.namelist()) if "/cv" in name]
        names = random.Random(7).sample(names, 480)
        rows = [{"text": files.read(n).decode(), "label": n.split("/")[1]} for n in names]
    write("reviews.jsonl", [json.dumps(row) for row in rows[:160]])
    write("reviews-dev.jsonl", [json.dumps(row) for row in rows[160:]])
    yield "sentences", 1, training("sentences", f"{sentences(data)} optimizer=adamw(1e-4)")
    for way, stride in (("cut", 0), ("windows", 96)):
        task = f"task=classify('reviews.jsonl', 'reviews-dev.jsonl', stride={stride})"
        spec = f"{task} seq=128 batch=8 steps=100 optimizer=adamw(5e-5)"
        yield f"reviews: {way}", 3, training(way, spec, "runs/sentences-1")


def rerank(data: Path) -> Iterator[Row]:
    """The embedder's ten nearest paragraphs, where the right one is among them, in a new order."""
    docs, queries, right = write_search(data)
    for name in ("docs", "queries"):
        if not Path(f"{name}.npy").exists():
            bertc("embed", "minilm", f"{name}.txt", "-o", f"{name}.npy", "--normalise")
    nearest = np.argsort(-np.load("queries.npy") @ np.load("docs.npy").T, axis=1)[:, :10].tolist()
    asked = [q for q in range(len(queries)) if right[q] in nearest[q]][:100]
    rows = [f"{queries[q]}\t{docs[d]}\t{int(d == right[q])}" for q in asked for d in nearest[q]]
    write("judged.tsv", ["query\tpassage\tlabel", *rows])
    order = statistics.mean(1 / (nearest[q].index(right[q]) + 1) for q in asked)
    yield "rerank: as embedded", 1, lambda _: {"mrr@10": order}
    for pairs in (2048, 4096):
        task = f"task=rerank('pairs.jsonl', 'judged.tsv', {PAIRS}{pairs}, {MINED})"
        spec = f"{task} seq=192 batch=32 epochs=1 optimizer=adamw(1e-4)"
        yield f"rerank: {pairs} pairs", 3, training(f"rerank {pairs}", spec)


def write_search(data: Path) -> tuple[list[str], list[str], list[int]]:
    """Pairs of half of the articles; paragraphs and questions of the other, and which are right."""
    halves = []
    for part in ("dev", "test"):
        articles = json.loads("".join(lines(data / f"squad1/{part}-v1.1.half.json.gz")))["data"]
        found = [p for article in articles for p in article["paragraphs"]]
        halves.append([(p["context"], [q["question"] for q in p["qas"]]) for p in found])
    taught = [json.dumps({"query": q, "answer": text}) for text, asked in halves[0] for q in asked]
    write("pairs.jsonl", taught)
    docs = [" ".join(text.split()) for text, _ in halves[1]]
    sought = [(" ".join(q.split()), d) for d, (_, asked) in enumerate(halves[1]) for q in asked]
    queries, right = zip(*random.Random(7).sample(sought, 300), strict=True)
    for name, texts in (("docs", docs), ("queries", queries)):
        write(f"{name}.txt", texts)
        rows = [json.dumps({"_id": str(n), "text": text}) for n, text in enumerate(texts)]
        write(f"{name}.jsonl", rows)
    relevant = [f"{n}\t{d}\t1" for n, d in enumerate(right)]
    write("qrels.tsv", ["query-id\tcorpus-id\tscore", *relevant])
    return docs, [*queries], [*right]


def at_best(name: str, spec: str, rates: tuple[str, ...], figure: str) -> Iterator[Row]:
    """One seed of each learning rate, and three of that with the highest figure."""
    specs = {f"{name} {rate}": f"{spec} optimizer=adamw({rate})" for rate in rates}
    yield from ((row, 1, training(row, of_rate)) for row, of_rate in specs.items())
    best = max(specs, key=lambda row: made(row)[1][figure])
    yield best, 3, training(best, specs[best])


def training(name: str, spec: str, init: str = "minilm") -> Callable[[int], Figures]:
    """What trains with a seed: the scores of the last evaluation, CPU seconds and MiB."""

    def train(seed: int) -> Figures:
        run = f"runs/{name}-{seed}"
        whole = f"init='{init}' {spec} eval_every=9999 seed={seed}"
        spent = bertc("train", whole, "--out", run, "--resume")[1]
        return scores(json.loads(lines(Path(run, "metrics.jsonl"))[-1])) | spent

    return train


def evaluated(run: str, *options: str) -> Figures:
    """The loss and the scores of ``bertc eval``."""
    return scores(json.loads(bertc("eval", run, *options, "--json")[0])["evaluation"])


def scores(evaluation: dict[str, Any]) -> Figures:
    """The loss, and the scores of the task if there is one."""
    figures = Figures(loss=evaluation["loss"])
    for parts in evaluation.get("scores", {}).values():
        figures |= next(iter(parts.values()))
    return figures


def bertc(*arguments: str) -> tuple[str, Figures]:
    """Run a command of bertc: what it prints, its CPU seconds and MiB."""
    command = [str(Path(sys.executable).with_name("bertc")), *arguments]
    with Path("shown.txt").open("w+", encoding="utf-8") as shown:
        _, status, usage = os.wait4(subprocess.Popen(command, stdout=shown).pid, 0)
        if status:
            raise RuntimeError(f"{command} ended with {status}")
        shown.seek(0)
        spent = {"CPU": usage.ru_utime + usage.ru_stime, "MiB": usage.ru_maxrss / 1024}
        return shown.read(), spent


def made(row: str) -> dict[int, Any]:
    """The figures of a row that are there, by seed."""
    there = [json.loads(line) for line in lines(LOG)] if LOG.exists() else []
    return {line["seed"]: line for line in there if line["row"] == row}


def lines(path: Path) -> list[str]:
    """The lines of a file, packed or not."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        return file.read().removesuffix("\n").split("\n")


def write(name: str, text: Iterable[str]) -> None:
    """Write a file of lines."""
    Path(name).write_text("".join(f"{line}\n" for line in text), encoding="utf-8")


if __name__ == "__main__":
    main()
