"""Every shipped system, shrunk to toy width, trained for 30 steps on a text of yours.

    python tests/bench/systems.py 'corpus.jsonl.gz'

Prints the training loss of the first and the last five steps of each, and of a spec that mixes
their ideas; exits 1 if one does not fall.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from bertc.api import points, resolve
from bertc.base.resources import shipped_specs
from bertc.run.train.loop import train

TOY = ["layers=2", "hidden=64", "heads=2", "ffn=128", "seq=64", "batch=16", "steps=30"]
TOY += ["log_every=1", "eval_every=30", "save_every=30", "compile=off"]
MIXED = (
    "share=attention E=32 positions=learned(66, offset=2) segments=1 format=single-segment "
    "objective=span+sbo optimizer=lamb(lr=1e-2, warmup=10%)"
)


def losses(spec: str, overrides: list[str], folder: Path) -> list[float]:
    """The loss of every step of a run."""
    train(resolve(spec, overrides), folder, quiet=True)
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if line["kind"] == "train"]


def settings(name: str, corpus: str) -> list[str]:
    """What shrinks a system: its own kind of vocabulary and update rule, at toy size and rate."""
    (resolved, *_) = points(name)
    vocab = {"wordpiece": "wordpiece(1000)", "bpe": "bpe(1000)", "unigram": "unigram(1000)"}
    rule = "lamb(lr=1e-2" if resolved.stages[0].optimizer.kind == "lamb" else "adamw(lr=3e-3"
    offset = resolved.encoder.positions.offset
    return [
        *TOY,
        f"vocab={vocab[resolved.vocabulary.kind]}",
        f"optimizer={rule}, warmup=10%)",
        f"positions=learned({64 + offset}, offset={offset})",
        f'data=files("{corpus}")',
    ]


def main() -> int:
    """Train them all and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus")
    corpus = str(Path(parser.parse_args().corpus).resolve())
    names = [name for name in shipped_specs() if "grid" not in name]
    risen = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in [*names, "mixed"]:
            spec, base = (MIXED, "roberta-base") if name == "mixed" else (name, name)
            overrides = settings(base, corpus)
            if name == "mixed":
                written = ("positions", "optimizer")
                overrides = [o for o in overrides if o.split("=")[0] not in written]
            found = losses(spec, overrides, Path(folder) / name)
            first, last = sum(found[:5]) / 5, sum(found[-5:]) / 5
            risen += last >= first
            print(f"{name:22} {first:7.3f} -> {last:7.3f}", flush=True)
    return int(risen > 0)


if __name__ == "__main__":
    sys.exit(main())
