"""Toy folders that are damaged: runs, models, caches, data sets, tables. Made once, in a child."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

WORDS = ("hens", "ducks", "geese", "cackle", "quack", "hiss", "the", "old", "red", "barn", "pond")
NETWORK = "layers=1 hidden=32 heads=2 ffn=64 seq=32 batch=4 steps=6"
SETTINGS = (
    "device=cpu compile=off save_every=2 eval_every=3 log_every=1 keep=3 eval_examples=8 "
    "holdout=10% optimizer=adamw(lr=1e-3, warmup=1)"
)
TEXT = f'{NETWORK} vocab=wordpiece(150) data=files("text.txt", sentences=lines) {SETTINGS}'
TAUGHT = f"{TEXT} objective=kd(logits)+mlm teacher='hf'".replace("vocab=wordpiece(150) ", "")
TASK = "task=classify('train.tsv', 'dev.tsv', text=review, label=stars)"

TUNED = f"init='hf' {TASK} seq=32 batch=4 steps=4 device=cpu"


def make(place: Path, train: Callable[[list[str]], None]) -> None:
    """Fill a folder. ``train(words)`` runs a command there and must end well."""
    place.mkdir(parents=True)
    os.chdir(place)
    draw = random.Random(7)
    write_text(place, draw)
    write_tables(place, draw)
    train(["train", TEXT, "--out", "done"])
    train(["train", f"init='done/model' {TASK} seq=32 batch=4 steps=4 device=cpu", "--out", "task"])
    shutil.copytree("done/model", "hf")
    train(["train", TAUGHT, "--out", "taught"])
    train(["export", "task", "--onnx", "onnx"])
    halve(place / "done", place / "half")
    halve(place / "taught", place / "taught")
    _write_sets(place, draw)


def _sentence(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(4, 9))).capitalize() + "."


def write_text(place: Path, draw: random.Random) -> None:
    """Write a text of forty documents."""
    documents = ["\n".join(_sentence(draw) for _ in range(6)) for _ in range(40)]
    (place / "text.txt").write_text("\n\n".join(documents) + "\n")


def _rows(draw: random.Random, count: int) -> list[tuple[str, str]]:
    return [(_sentence(draw), draw.choice(["good", "bad"])) for _ in range(count)]


def write_tables(place: Path, draw: random.Random) -> None:
    """Write tables of labelled texts, as text and as Parquet."""
    import pyarrow
    from pyarrow import parquet

    for name in ("train", "dev"):
        rows = _rows(draw, 12)
        tsv = "".join(f"{review}\t{stars}\n" for review, stars in rows)
        (place / f"{name}.tsv").write_text("review\tstars\n" + tsv)
        columns = {"review": [r for r, _ in rows], "stars": [s for _, s in rows]}
        parquet.write_table(pyarrow.table(columns), place / f"{name}.parquet")


def halve(whole: Path, half: Path) -> None:
    """A run that was stopped: two checkpoints, no model yet."""
    if half != whole:
        shutil.copytree(whole, half)
    shutil.rmtree(half / "model")
    (half / "losses.png").unlink()
    shutil.rmtree(max((half / "checkpoints").iterdir()))


def _write_sets(place: Path, draw: random.Random) -> None:
    import datasets

    texts = [_sentence(draw) for _ in range(60)]
    datasets.disable_progress_bars()
    whole = datasets.Dataset.from_dict({"text": texts})
    whole.save_to_disk(str(place / "saved"))
    (place / "parquet").mkdir()
    whole.to_parquet(str(place / "parquet" / "train.parquet"))
