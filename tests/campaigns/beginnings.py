"""What beginning with a trained encoder gives: words, windows, LoRA, mined negatives, a reranker.

    nice python -m tests.campaigns.beginnings --data DIR --init DIR --out DIR
        [--only lora,search,rerank,words,windows]

DIR of --data holds glue/SST-2, glue/STS-B, multi30k, nltk/movie_reviews.zip and squad1; --init is a
folder of all-MiniLM-L6-v2. Each figure comes from commands of bertc, and goes to ``figures.jsonl``
in --out, a line for a row and seed; those that are there are not made again. Prints medians of
three seeds, and in brackets the largest less the smallest. CPU is the user and system time of the
training command in seconds, MiB its largest resident memory.
"""

import argparse
import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

Figures = dict[str, float]
Row = tuple[str, int, Callable[[int], Figures]]
"""Its name, its seeds, and what makes its figures."""
LOG = Path("figures.jsonl")
SEARCHED = "corpus='docs.jsonl', queries='queries.jsonl', relevant='qrels.tsv'"
TAUGHT = "'pairs.jsonl', {}text=query, positive=answer, examples=640"
MINED = ", negatives=mined('minilm', top=50)"


def main() -> None:
    """Make the rows of each part that is wanted, and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--data", "--init", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--only", default="lora,search,rerank,words,windows")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    init, data = options.init.resolve(), options.data.resolve()
    os.chdir(options.out)
    if not Path("minilm").exists():
        bertc("import", str(init), "--out", "minilm")
    parts = {part.__name__: part for part in (lora, search, rerank, words, windows)}
    for row, seeds, make in (row for name in options.only.split(",") for row in parts[name](data)):
        for seed in range(1, seeds + 1):
            if seed not in made(row):
                line = json.dumps({"row": row, "seed": seed} | make(seed))
                LOG.write_text("".join(f"{old}\n" for old in (*logged(), line)), encoding="utf-8")
        for name in made(row)[1].keys() - {"row", "seed"}:
            figures = [float(line[name]) for line in made(row).values()]
            spread = f"({max(figures) - min(figures):.3g})"
            print(f"{row:30} {name:20} {statistics.median(figures):.4f} {spread}", flush=True)


def lora(data: Path) -> Iterator[Row]:
    """SST-2 with 1,500 examples, in full and by LoRA; three seeds at the best of three rates."""
    write("sst2.tsv", lines(data / "glue/SST-2/train.tsv.gz")[:1501])
    write("sst2-dev.tsv", lines(data / "glue/SST-2/dev.tsv"))
    task = "task=classify('sst2.tsv', 'sst2-dev.tsv', text=sentence, label=label) epochs=2 batch=32"
    for way, adapt, rates in (
        ("in full", "", ("3e-5", "1e-4", "3e-4")),
        ("lora", "adapt=lora(rank=8, alpha=16, on=attention+ffn)", ("5e-4", "1e-3", "3e-3")),
    ):
        named = {f"SST-2: {way} {r}": f"{task} {adapt} seq=64 optimizer=adamw({r})" for r in rates}
        for row, spec in named.items():
            yield row, 1, training(row, spec)
        best = max(named, key=lambda row: made(row)[1]["accuracy"])
        yield best, 3, training(best, named[best])


def search(data: Path) -> Iterator[Row]:
    """Questions of SQuAD to paragraphs of other articles: negatives of the batch, or mined."""
    write_search(data)
    yield "search: minilm", 1, lambda _: evaluated("minilm", "--task", f"embed({SEARCHED})")
    for way, negatives in (("in batch", ""), ("mined", MINED)):
        task = f"task=embed({TAUGHT.format('')}{negatives}, {SEARCHED})"
        spec = f"{task} seq=128 batch=32 epochs=1 optimizer=adamw(2e-5)"
        yield f"search: {way}", 3, training(way, spec)


def rerank(data: Path) -> Iterator[Row]:
    """The embedder's ten nearest paragraphs, where the right one is among them, in a new order."""
    write_search(data)
    for name in ("docs", "queries"):
        bertc("embed", "minilm", f"{name}.txt", "-o", f"{name}.npy", "--normalise")
    docs, queries = lines(Path("docs.txt")), lines(Path("queries.txt"))
    right = [int(line.split("\t")[1]) for line in lines(Path("qrels.tsv"))[1:]]
    nearest = np.argsort(-np.load("queries.npy") @ np.load("docs.npy").T, axis=1)[:, :10].tolist()
    asked = [q for q in range(len(queries)) if right[q] in nearest[q]][:150]
    listed = [f"{queries[q]}\t{docs[d]}\t{int(d == right[q])}" for q in asked for d in nearest[q]]
    write("judged.tsv", ["query\tpassage\tlabel", *listed])
    places = [nearest[q].index(right[q]) + 1 for q in asked]
    reciprocal = statistics.mean(1 / place for place in places)
    yield "rerank: minilm's order", 1, lambda _: {"mrr@10": reciprocal}
    for epochs in (1, 3):
        judged = TAUGHT.format("'judged.tsv', ")
        spec = f"task=rerank({judged}{MINED}) seq=160 batch=32 epochs={epochs}"
        yield (
            f"rerank: {epochs} epochs",
            3,
            training(f"rerank {epochs}", f"{spec} optimizer=adamw(1e-4)"),
        )


def words(data: Path) -> Iterator[Row]:
    """German: training on with and without new words, then a task; what is forgotten of English."""
    for name in ("train.de", "train.en", "val.de", "val.en"):
        write(f"{name}.txt", lines(data / f"multi30k/{name}.gz")[:20_000])
    for name in ("train", "dev"):
        write(f"{name}.csv", lines(data / f"glue/STS-B/stsb-de-{name}.csv.gz"))
    german, english = "files('train.de.txt', language=de)", "files('train.en.txt', language=en)"
    for way, setting in {
        "minilm": "",
        "trained on": f"data={german}",
        "new words": f"data={german} vocab=extend(init, 2k)",
        "new words, 0.3 English": f"data={german} + 0.3*{english} vocab=extend(init, 2k)",
    }.items():
        yield f"words: {way}", 3, lambda seed, way=way, said=setting: german_of(way, said, seed)


def german_of(way: str, setting: str, seed: int) -> Figures:
    """Tokens a word, losses a word of both languages, and Spearman of the task."""
    run, figures = "minilm", Figures()
    if setting:
        run = f"runs/{way}-{seed}"
        spec = f"objective=mlm seq=64 batch=32 steps=80 optimizer=adamw(3e-4) {setting}"
        figures |= training(way, spec)(seed)
    tokenizer = Tokenizer.from_file(f"{run}/tokenizer/tokenizer.json")
    for language in ("de", "en"):
        text = lines(Path(f"val.{language}.txt"))
        read = tokenizer.encode_batch(text, add_special_tokens=False)
        tokens = sum(len(row.ids) for row in read) / sum(len(row.split()) for row in text)
        figures[f"tokens a word, {language}"] = tokens
        if setting:
            loss = evaluated(run, "--data", f"val.{language}.txt")["loss"]
            figures[f"loss a word, {language}"] = loss * tokens
    task = "task=regress('train.csv', 'dev.csv', text='0', pair='1', label='2', examples=1000)"
    spec = f"{task} epochs=2 seq=64 batch=32 optimizer=adamw(1e-4)"
    return figures | {"task": training(f"task {way}", spec, run)(seed)["spearman"]}


def windows(data: Path) -> Iterator[Row]:
    """Film reviews of 750 words in rows of 128 tokens: their beginning, or all of it."""
    with zipfile.ZipFile(data / "nltk/movie_reviews.zip") as files:
        names = random.Random(7).sample([n for n in sorted(files.namelist()) if "_" in n[14:]], 400)
        texts = [{"text": files.read(n).decode(), "label": n.split("/")[1]} for n in names]
    write("reviews.jsonl", map(json.dumps, texts[:200]))
    write("reviews-dev.jsonl", map(json.dumps, texts[200:]))
    for way, stride in (("cut", 0), ("windows", 96)):
        task = f"task=classify('reviews.jsonl', 'reviews-dev.jsonl', stride={stride})"
        spec = f"{task} seq=128 batch=16 steps=100 optimizer=adamw(1e-4)"
        yield f"reviews: {way}", 3, training(way, spec)


def write_search(data: Path) -> None:
    """Pairs from half of the articles; all paragraphs, and 300 questions, of the other half."""
    halves = []
    for part in ("dev", "test"):
        articles = json.loads(lines(data / f"squad1/{part}-v1.1.half.json.gz")[0])["data"]
        halves.append([p for article in articles for p in article["paragraphs"]])
    pairs = [{"query": q["question"], "answer": p["context"]} for p in halves[0] for q in p["qas"]]
    write("pairs.jsonl", map(json.dumps, pairs))
    docs = [" ".join(p["context"].split()) for p in halves[1]]
    sought = [
        (" ".join(q["question"].split()), d) for d, p in enumerate(halves[1]) for q in p["qas"]
    ]
    sought = random.Random(7).sample(sought, 300)
    queries = [q for q, _ in sought]
    for name, texts in (("docs", docs), ("queries", queries)):
        write(f"{name}.txt", texts)
        write(
            f"{name}.jsonl", (json.dumps({"_id": str(n), "text": t}) for n, t in enumerate(texts))
        )
    relevant = [f"{n}\t{d}\t1" for n, (_, d) in enumerate(sought)]
    write("qrels.tsv", ["query-id\tcorpus-id\tscore", *relevant])


def training(name: str, spec: str, init: str = "minilm") -> Callable[[int], Figures]:
    """What trains with a seed: the scores of the last evaluation, CPU seconds and MiB."""

    def train(seed: int) -> Figures:
        run = f"runs/{name}-{seed}"
        spent = bertc("train", f"init='{init}' {spec} eval_every=9999 seed={seed}", "--out", run)[1]
        return scores(json.loads(lines(Path(run, "metrics.jsonl"))[-1])) | spent

    return train


def evaluated(run: str, *options: str) -> Figures:
    """The loss or the scores of ``bertc eval``."""
    return scores(json.loads(bertc("eval", run, *options, "--json")[0])["evaluation"])


def scores(evaluation: dict[str, object]) -> Figures:
    """The loss of an evaluation, and the scores of its task."""
    found = Figures(loss=evaluation["loss"])
    for parts in dict(evaluation.get("scores", {})).values():
        found |= next(iter(parts.values()))
    return found


def bertc(*arguments: str) -> tuple[str, Figures]:
    """Run a command of bertc: what it prints, its CPU seconds and MiB; what it says is on stderr.

    Raises:
        RuntimeError: if it fails.
    """
    command = [str(Path(sys.executable).with_name("bertc")), *arguments]
    with Path("shown.txt").open("w+", encoding="utf-8") as shown:
        process = subprocess.Popen(command, stdout=shown)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise RuntimeError(f"{command} ended with {status}")
        shown.seek(0)
        spent = {"CPU": usage.ru_utime + usage.ru_stime, "MiB": usage.ru_maxrss / 1024}
        return shown.read(), spent


def made(row: str) -> dict[int, Figures]:
    """The figures of a row that are there, by seed."""
    there = map(json.loads, logged())
    return {line["seed"]: line for line in there if line["row"] == row}


def logged() -> list[str]:
    """The lines of the log."""
    return lines(LOG) if LOG.exists() else []


def lines(path: Path) -> list[str]:
    """The lines of a file, packed or not."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        return file.read().removesuffix("\n").split("\n")


def write(name: str, text: Iterable[str]) -> None:
    """Write a file of lines."""
    Path(name).write_text("".join(f"{line}\n" for line in text), encoding="utf-8")


if __name__ == "__main__":
    main()
