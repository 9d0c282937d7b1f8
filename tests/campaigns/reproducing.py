"""Tables that are killed, and two processes at once on one: no run is lost or trained twice.

    OMP_NUM_THREADS=1 nice python -m tests.campaigns.reproducing --out OUT [--kills 5] [--seed 0]

Two rows of a toy table with three seeds, each with a task after its pretraining, as ``killing``
says; ``docs/how-to/tables.md`` has what came out.
"""

from pathlib import Path

from bertc.run.records import attempts, metrics
from bertc.run.records.folder import RunFolder
from tests.campaigns.killing import State, Work, campaign, sentences, weights

SEEDS = 3
TABLE = """
title = "Depth"
paper = "none"
place = "none"
asks = "Are two layers better than one?"
source = "none"
spec = '''
hidden=32 heads=2 ffn=64 vocab=wordpiece(60) data=files("farm.txt") holdout=10% objective=mlm seq=16
batch=8 steps=60 save_every=5 optimizer=adamw(lr=1e-3, warmup=10%)
device=cpu compile=off precision=fp32
'''
[[measures]]
name = "masked LM"
score = "mlm"
better = "less"
[[measures]]
name = "animals"
spec = "init=$run task=classify('said.tsv', dev='said.tsv') batch=8 epochs=2 precision=fp32"
score = "dev.accuracy"
[[rows]]
name = "one"
spec = "layers=1"
[[rows]]
name = "two"
spec = "layers=2"
[scales.tiny]
spec = ""
tasks = ""
"""


def prepare(out: Path) -> None:
    """Write the sentences, the examples and the table."""
    sentences(out / "farm.txt")
    rows = [f"the {animal} said so\t{animal}" for animal in ("hen", "duck") for _ in range(20)]
    (out / "said.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    (out / "depth.toml").write_text(TABLE)


def finished(folder: Path) -> State:
    """The finished runs of the table by their folders."""
    found: State = {}
    for file in sorted(folder.rglob("resolved.json")):
        run = RunFolder(file.parent)
        if run.is_finished(run.read_resolved()):
            losses = [line["loss"] for line in metrics.read(run.metrics) if line["kind"] == "eval"]
            times = len(attempts.read(run.attempts))
            name = str(file.parent.relative_to(folder))
            found[name] = (losses[-1], weights(file.parent), times)
    return found


WORK = Work(
    ("reproduce", "depth.toml", "--scale", "tiny", "--seeds", str(SEEDS)), 4 * SEEDS, finished
)

if __name__ == "__main__":
    campaign(__doc__.split("\n")[0], prepare, WORK)
