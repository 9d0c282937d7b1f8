"""Searches that are killed, and two at once on one store: nothing finished is lost or done twice.

    OMP_NUM_THREADS=1 nice python -m tests.campaigns.sweeps --out OUT [--kills 5] [--seed 0]

Twelve trials on toy sentences, as ``killing`` says; ``docs/how-to/search.md`` says what came out.
"""

from pathlib import Path

from bertc.base.diagnostics import MissingInputError
from bertc.lab.search.store import read_store, run_folder
from bertc.run.records import attempts
from tests.campaigns.killing import State, Work, campaign, sentences, weights

TRIALS = 12
SPEC = """
layers = {1..2}  hidden = 32  heads = 2  ffn = 64  dropout = {0..0.2}
vocab = wordpiece(60)  data = files("farm.txt")  holdout = 10%
objective = mlm  seq = 16  batch = 8  steps = 60  eval_every = 20  save_every = 5
optimizer = adamw(lr={1e-4..3e-2:log}, warmup=10%)
device = cpu  compile = off  precision = fp32
"""


def prepare(out: Path) -> None:
    """Write the sentences and the spec."""
    sentences(out / "farm.txt")
    (out / "toy.bertc").write_text(SPEC)


def finished(folder: Path) -> State:
    """The finished trials of a sweep by number and values; {} before there is a store."""
    try:
        store, _ = read_store(folder)
    except MissingInputError:
        return {}
    return {
        f"trial {trial.number + 1}, {trial.params}": (
            trial.value,
            weights(path),
            len(attempts.read(path / "attempts.jsonl")),
        )
        for trial in store.trials
        if trial.state.name == "COMPLETE"
        for path in [run_folder(folder, trial.number)]
    }


WORK = Work(("sweep", "toy.bertc", "--for", "mlm", "--trials", str(TRIALS)), TRIALS, finished)

if __name__ == "__main__":
    campaign(__doc__.split("\n")[0], prepare, WORK)
