"""What is damaged: toy folders, made once in a child, and the commands that read them."""

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
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
SET = f"{NETWORK} vocab=wordpiece(150) data=hf('{{}}') device=cpu"


@dataclass(frozen=True)
class Target:
    """Folders of the material, the files of them to damage, and the commands that read them."""

    name: str
    folders: tuple[str, ...]
    files: str
    commands: dict[str, list[str]]


def _resume(spec: str, run: str) -> list[str]:
    return ["train", spec, "--out", run, "--resume"]


def _begin(spec: str) -> list[str]:
    return ["train", spec, "--out", "out"]


TARGETS = (
    Target("run", ("half",), "half/**/*", {
        "resume": _resume(TEXT, "half"),
        "eval": ["eval", "half"],
        "fill": ["fill", "half", "the [MASK] barn"],
        "results": ["runs", "--results", "half"],
        "export": ["export", "half", "--to", "out"],
    }),
    Target("finished run", ("done",), "done/model/*", {
        "resume": _resume(TEXT, "done"),
        "init": _begin(TUNED.replace("'hf'", "'done'")),
    }),
    Target("tuned run", ("task",), "task/*", {
        "predict": ["predict", "task", "dev.tsv"],
        "eval": ["eval", "task"],
    }),
    Target("model folder", ("hf",), "hf/*", {
        "import": ["import", "hf", "--out", "out"],
        "fill": ["fill", "hf", "the [MASK] barn"],
        "check": ["check", TUNED],
        "estimate": ["estimate", TUNED],
        "init": _begin(TUNED),
    }),
    Target("run with a teacher", ("taught", "hf"), "taught/*", {
        "resume": _resume(TAUGHT, "taught"),
    }),
    Target("teacher", ("taught", "hf"), "hf/*", {
        "resume": _resume(TAUGHT, "taught"),
        "check": ["check", TAUGHT],
    }),
    Target("ONNX folder", ("onnx",), "onnx/*", {
        "import": ["import", "onnx", "--out", "out"],
        "predict": ["predict", "onnx", "dev.tsv"],
        "export again": ["export", "onnx", "--onnx", "out"],
    }),
    Target("cache", ("cache",), "cache/**/*", {"train": _begin(TEXT)}),
    Target("text", (), "text.txt", {"check": ["check", TEXT], "train": _begin(TEXT)}),
    *(
        Target(f"data set ({name})", (name,), f"{name}/**/*", {
            "check": ["check", SET.format(name)],
            "train": _begin(SET.format(name)),
        })
        for name in ("saved", "parquet")
    ),
    *(
        Target(f"table ({ending})", ("hf", "task"), f"train{ending}", {
            "check": ["check", TUNED.replace(".tsv", ending)],
            "train": _begin(TUNED.replace(".tsv", ending)),
            "predict": ["predict", "task", f"train{ending}"],
        })
        for ending in (".tsv", ".parquet")
    ),
)  # fmt: skip


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
    (half / "digests.json").unlink()
    shutil.rmtree(max((half / "checkpoints").iterdir()))


def _write_sets(place: Path, draw: random.Random) -> None:
    import datasets

    texts = [_sentence(draw) for _ in range(60)]
    datasets.disable_progress_bars()
    whole = datasets.Dataset.from_dict({"text": texts})
    whole.save_to_disk(str(place / "saved"))
    (place / "parquet").mkdir()
    whole.to_parquet(str(place / "parquet" / "train.parquet"))
