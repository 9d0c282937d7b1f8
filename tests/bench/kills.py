r"""SIGKILL a run at random moments, resume it each time, and compare with a run left alone.

    python tests/bench/kills.py --kills 25
    python tests/bench/kills.py --set objective=clm --set attention=relative --set memory=48
    python tests/bench/kills.py --also 'stage "a" {layers=1 steps=20} stage "b" {steps=100}'
    python tests/bench/kills.py --begun 'init="base" task=classify("rows.tsv", "rows.tsv")'
    python tests/bench/kills.py --set 'data=fasta("farm-*.fasta")' --set vocab=bytes \
        --set 'format=doc-sentences(cut=random)' --set 'augment=reverse_complement(50%)'
    python tests/bench/kills.py --of sweep --kills 20
    python tests/bench/kills.py --of reproduce --kills 20

With ``--begun`` the run begins with another, ``base``, and ``rows.tsv`` has examples of tasks. A
search and a table of small runs go on by the same command; their runs have to be the same.

Weights, optimiser state and metrics (but for their seconds) must be the same to the bit. Prints a
JSON object with the figures; exits 1 if anything differs or a run needs a person's hand.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

WORDS = ("hens", "ducks", "geese", "cackle", "quack", "hiss", "the", "old", "red", "barn", "pond")
TEXT = """
layers=2 hidden=64 heads=2 vocab=wordpiece(300) objective=mlm
data=files("farm.txt", sentences=lines) holdout=10%
"""
STEPS = """
seq=32 batch=16 steps=120 optimizer=adamw(lr=1e-3, warmup=10)
save_every=7 eval_every=20 log_every=3 keep=2 device=cpu
"""
SHORT = """
layers=1 hidden=32 heads=2 vocab=wordpiece(300) objective=mlm seq=32 batch=16 steps=20
data=files("farm.txt", sentences=lines) holdout=10% save_every=7 eval_every=10 log_every=3
keep=2 device=cpu
"""
SEARCH = f"{SHORT} optimizer=adamw({{1e-4..1e-2:log}}, decay={{0.001..0.1:log}})"
TABLE = Path(__file__).with_name("farms.toml").read_text()
COLUMNS = (
    "text", "positive", "negative", "label", "labels", "score", "tags", "long", "tags_of_long",
)  # fmt: skip


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kills", type=int, default=25)
    options.add_argument("--set", action="append", default=[], help="a setting of the runs")
    options.add_argument("--also", default="", help="more of the spec, such as stages")
    options.add_argument("--begun", default="", help="a program that begins with the run base")
    options.add_argument("--of", choices=("train", "sweep", "reproduce"), default="train")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        folder = Path(name)
        os.chdir(folder)
        command = _command(folder, chosen.begun, chosen.also, chosen.of)
        command += [word for setting in chosen.set for word in ("--set", setting)]
        started = time.monotonic()
        _must(subprocess.run([*command, "--out", folder / "straight"], capture_output=True))
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")  # vocabularies, mined negatives again
        resume = [*command, "--out", folder / "killed", *["--resume"] * (chosen.of == "train")]
        figures = _torment(folder, resume, chosen.kills, time.monotonic() - started)
        different = _differences(folder / "straight", folder / "killed")
    print(json.dumps({"kills": chosen.kills, **figures, "different": different}))
    return 1 if different else 0


def _command(folder: Path, begun: str, also: str, of: str) -> list[str | Path]:
    draw, corpus, spec = random.Random(1), folder / "farm.txt", folder / "farm.bertc"
    lines = (" ".join(draw.choices(WORDS, k=9)) + "." for _ in range(12 * 200))
    documents = ("\n".join(islice(lines, 12)) for _ in range(200))
    corpus.write_text("\n\n".join(documents) + "\n")
    for nth in range(2):
        records = (
            f">{n}\n{''.join(draw.choices('ACGT', k=draw.randint(9, 99)))}" for n in range(150)
        )
        (folder / f"farm-{nth}.fasta").write_text("\n".join(records))
    bertc = (sys.executable, "-m", "bertc.cli")
    if of == "sweep":
        return [*bertc, "sweep", SEARCH, "--trials", "4"]
    if of == "reproduce":
        (folder / "farms.toml").write_text(TABLE.format(spec=SHORT))
        return [*bertc, "reproduce", folder / "farms.toml", "--scale", "full", "--data", folder]
    train: list[str | Path] = [*bertc, "train"]
    if begun:
        (folder / "rows.tsv").write_text("\n".join(["\t".join(COLUMNS), *_rows(draw, 200)]) + "\n")
        base = [*train, f"{TEXT} {STEPS}", "--out", folder / "base"]
        _must(subprocess.run(base, capture_output=True))
    spec.write_text(f"{begun or TEXT} {STEPS} {also}")
    return [*train, spec]


def _rows(draw: random.Random, number: int) -> Iterator[str]:
    """Rows of examples, of which a task reads some columns."""
    for _ in range(number):
        words, long = draw.choices(WORDS, k=9), draw.choices(WORDS, k=60)
        positive, negative = (" ".join(draw.choices(WORDS, k=9)) for _ in range(2))
        label, labels = words[0], ",".join(sorted({*words} & {"hens", "barn"}))
        tags, tags_of_long = (" ".join("B-" + w[0] for w in text) for text in (words, long))
        texts = (" ".join(words), positive, negative, label, labels, str(draw.random()), tags)
        yield "\t".join((*texts, " ".join(long), tags_of_long))


def _torment(
    folder: Path, resume: list[str | Path], kills: int, life_seconds: float
) -> dict[str, object]:
    """Kill ``kills`` runs at moments drawn over their whole life, then let one finish."""
    run = folder / "killed"
    done = saving = finished = 0
    stages, draw = Counter[str](), random.Random(0)
    while done < kills:
        # A run whose work is nearly done would leave before it is killed, so it begins again.
        started = time.monotonic()
        process = subprocess.Popen(resume, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            process.wait(draw.uniform(0.2, life_seconds))
            _must(process)
            # The one left alone may have lived longer, on a busier machine.
            life_seconds = min(life_seconds, time.monotonic() - started)
            finished += 1
            run.rename(folder / f"finished-{finished}")
            continue
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        done += 1
        print(f"kill {done} of {kills}", file=sys.stderr)
        saving += any(run.rglob("checkpoints/.tmp-*"))
        stages[_stage(run)] += 1
    _must(subprocess.run(resume, capture_output=True))
    for other in folder.glob("finished-*"):
        if different := _differences(folder / "straight", other):
            raise SystemExit(f"{other.name}: {different}")
    return {"in_stage": stages, "while_saving": saving, "runs_finished": finished + 1}


def _stage(run: Path) -> str:
    """The stage whose metrics were written last."""
    file = run / "metrics.jsonl"
    complete = file.read_text().split("\n")[:-1] if file.exists() else []
    return json.loads(complete[-1])["stage"] if complete else "none yet"


def _must(process: "subprocess.CompletedProcess[bytes] | subprocess.Popen[bytes]") -> None:
    if process.returncode:
        text = process.stderr if isinstance(process.stderr, bytes) else b""
        raise SystemExit(f"a run failed with {process.returncode}: {text.decode()[-2000:]}")


def _differences(one: Path, other: Path) -> list[str]:
    """The things in which two finished runs differ."""
    first, second = _content(one), _content(other)
    return [name for name in {**first, **second} if first.get(name) != second.get(name)]


def _content(of: Path) -> dict[str, object]:
    """The content of a run, or of all runs below a folder."""
    runs = sorted(path.parent for path in of.rglob("metrics.jsonl"))
    assert runs, f"no run in {of}"
    return {f"{run.relative_to(of)}: {n}": v for run in runs for n, v in _content_of(run).items()}


def _content_of(run: Path) -> dict[str, object]:
    last = max((run / "checkpoints").glob("step-*"))
    model = (path for path in (run / "model").rglob("*") if path.is_file())
    files = [*last.glob("*.safetensors"), *model]
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        del line["seconds"]
    return {"metrics.jsonl": lines} | {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }


if __name__ == "__main__":
    sys.exit(main())
