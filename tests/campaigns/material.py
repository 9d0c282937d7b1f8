"""What is damaged: toy folders, made once in a child, and the commands that read them."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.campaigns.forking import command
from tests.net.programs import FARM

NETWORK = "layers=1 hidden=32 heads=2 ffn=64 seq=32 batch=4 steps=6"
SETTINGS = "device=cpu compile=off save_every=2 eval_every=3 log_every=1 keep=3 eval_examples=8 "
SETTINGS += "holdout=10% optimizer=adamw(lr=1e-3, warmup=1)"
TEXT = f'{NETWORK} vocab=wordpiece(150) data=files("text.txt", sentences=lines) {SETTINGS}'
TAUGHT = f"{TEXT} objective=kd(logits)+mlm teacher='hf'".replace("vocab=wordpiece(150) ", "")
TASK = "task=classify('train.tsv', 'dev.tsv')"

TUNED = f"init='hf' {TASK} seq=32 batch=4 steps=4 device=cpu"
SET = f"{NETWORK} vocab=wordpiece(150) data=hf('{{}}') device=cpu"


@dataclass(frozen=True)
class Target:
    """Folders of the material, the files of them to damage, and the commands that read them.
    Where a run is ``made``, entries of the cache are swapped, and it is the one without that.
    """

    name: str
    folders: tuple[str, ...]
    files: str
    commands: dict[str, list[str]]
    made: str = ""


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
    Target("swaps", ("cache",), "cache/*/**/*", {"train": _begin(TEXT)}, "out"),
    Target("swaps", ("cache", "half"), "cache/*/**/*", {"resume": _resume(TEXT, "half")}, "half"),
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


def make(place: Path) -> int:
    """Fill a folder; 0 if all went well.

    Raises:
        SystemExit: if a command does not end well.
    """

    def train(words: list[str]) -> None:
        if code := command(words, place):
            raise SystemExit(f"{words} ended with {code}")

    place.mkdir(parents=True)
    os.chdir(place)
    os.environ["BERTC_CACHE"] = str(place / "cache")
    shutil.copyfile(FARM / "farm.txt", "text.txt")
    for part in ("train", "dev"):
        shutil.copyfile(FARM / f"birds.{part}.tsv", f"{part}.tsv")
    _write_sets(place)
    train(["train", TEXT, "--out", "done"])
    others = Path("text.txt").read_text().split("\n\n")[::2]
    Path("other.txt").write_text("\n\n".join(others))
    train(["train", TEXT.replace("text.txt", "other.txt"), "--out", "other"])
    train(["train", f"init='done/model' {TASK} seq=32 batch=4 steps=4 device=cpu", "--out", "task"])
    shutil.copytree("done/model", "hf")
    train(["train", TAUGHT, "--out", "taught"])
    train(["export", "task", "--onnx", "onnx"])
    halve(place / "done", place / "half")
    halve(place / "taught", place / "taught")
    return 0


def halve(whole: Path, half: Path) -> None:
    """A run that was stopped: two checkpoints, no model yet."""
    if half != whole:
        shutil.copytree(whole, half)
    shutil.rmtree(half / "model")
    (half / "digests.json").unlink()
    shutil.rmtree(max((half / "checkpoints").iterdir()))


def _write_sets(place: Path) -> None:
    import datasets
    from pyarrow import csv, parquet

    for part in ("train", "dev"):
        table = csv.read_csv(f"{part}.tsv", parse_options=csv.ParseOptions(delimiter="\t"))
        parquet.write_table(table, f"{part}.parquet")
    datasets.disable_progress_bars()
    whole = datasets.Dataset.from_dict({"text": (place / "text.txt").read_text().split("\n\n")})
    whole.save_to_disk(str(place / "saved"))
    (place / "parquet").mkdir()
    whole.to_parquet(str(place / "parquet" / "train.parquet"))
