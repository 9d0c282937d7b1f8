"""What networks learn of sequences and of sessions, next to what their grammars allow.

    nice python -m tests.campaigns.alphabets FOLDER [--steps 3000] [--seeds 3]

Proteins are of a hidden Markov chain of six states, which each letter's state labels: the loss of
masked letters that the chain allows is exact, by forward and backward sums. A tagger of states
begins with that network, and with random weights. Sessions go from item a to 3a + 7, or anywhere.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

LETTERS = "LAGVSERTIDPKQNFYMHWC"
STATES = "HEBTGC"
STAYS, LENGTH = 0.9, 100
ITEMS, FOLLOWS = 60, 0.9
PROTEIN = """extends esm2-8m
layers = 3  hidden = 128  heads = 4
data = fasta("{folder}/proteins.fasta")
seq = 104  batch = 32  steps = {steps}  seed = {seed}
optimizer = adamw(2e-3, warmup=10%)
holdout = 5%  eval_every = {steps}
"""
SESSIONS = """extends bert4rec
layers = 2  hidden = 64  heads = 2
vocab = listed("{folder}/items.txt")
data = files("{folder}/sessions.jsonl", column=items)
seq = 16  batch = 64  steps = {steps}  seed = {seed}
objective = mlm(30%, last=20%, replace=100/0/0)
optimizer = adamw(3e-3, warmup=10%)
holdout = 10%  eval_every = {steps}
"""
TAGGER = """init = "{init}"
task = tag(
    "{folder}/residues.jsonl", "{folder}/dev.jsonl", words=sequence, tags=states, letters=true,
)
batch = 16  epochs = 40  seed = {seed}
optimizer = adamw(1e-3, warmup=10%)
"""


def chain() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Chances of the next state (k, k), and of letters (k, v)."""
    count = len(STATES)
    moves = np.full((count, count), (1 - STAYS) / (count - 1))
    np.fill_diagonal(moves, STAYS)
    letters = np.random.default_rng(1).dirichlet(np.full(len(LETTERS), 0.25), count)
    return moves, letters


def proteins(number: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Letters and states (n, s) of the chain."""
    random, (moves, letters) = np.random.default_rng(seed), chain()
    states = np.empty((number, LENGTH), dtype=np.int64)
    states[:, 0] = random.integers(len(STATES), size=number)
    for place in range(1, LENGTH):
        draws = random.random((number, 1))
        states[:, place] = (moves[states[:, place - 1]].cumsum(1) < draws).sum(1)
    drawn = (letters[states].cumsum(2) < random.random((number, LENGTH, 1))).sum(2)
    return drawn.clip(max=len(LETTERS) - 1), states


def allowed(text: NDArray[np.int64], share: float, replaced: float, seed: int) -> float:
    """Nats a hidden letter by the chain itself: the least that any network can reach.

    Masks as in training: of the ``share`` 1 - ``replaced`` are hidden, the rest is left out of the
    sum, and is read as it was.
    """
    random, (moves, letters) = np.random.default_rng(seed), chain()
    hidden = random.random(text.shape) < share * (1 - replaced)
    seen = np.where(hidden[..., None], 1.0, letters.T[text])  # (n, s, k)
    before, after = np.empty_like(seen), np.ones_like(seen)
    state = np.full((len(text), len(STATES)), 1 / len(STATES))
    for place in range(text.shape[1]):
        before[:, place] = state
        state = (state * seen[:, place]) @ moves
        state /= state.sum(1, keepdims=True)
    for place in range(text.shape[1] - 1, 0, -1):
        back = (after[:, place] * seen[:, place]) @ moves.T
        after[:, place - 1] = back / back.sum(1, keepdims=True)
    chance = before * after
    chance /= chance.sum(2, keepdims=True)
    right = (chance * letters.T[text]).sum(2)
    return float(-np.log(right[hidden]).mean())


def write(folder: Path) -> None:
    """Write proteins, residues with their states, and sessions."""
    text, _ = proteins(20_000, 2)
    spelled = ("".join(LETTERS[n] for n in row) for row in text)
    (folder / "proteins.fasta").write_text("".join(f">{n}\n{s}\n" for n, s in enumerate(spelled)))
    for name, number, seed in (("residues", 20, 3), ("dev", 200, 4)):
        rows = zip(*proteins(number, seed), strict=True)
        lines = (
            {"sequence": "".join(LETTERS[n] for n in row), "states": "".join(STATES[k] for k in of)}
            for row, of in rows
        )
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    random, sessions = np.random.default_rng(5), list[str]()
    for _ in range(4000):
        items = [int(random.integers(ITEMS))]
        for _ in range(random.integers(3, 12)):
            followed = random.random() < FOLLOWS
            items.append((3 * items[-1] + 7) % ITEMS if followed else int(random.integers(ITEMS)))
        sessions.append(json.dumps({"items": [f"item-{item}" for item in items]}))
    (folder / "sessions.jsonl").write_text("\n".join(sessions) + "\n")
    (folder / "items.txt").write_text("".join(f"item-{n}\n" for n in range(ITEMS)))


def run(*arguments: str) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "bertc.cli", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def trained(spec: str, out: Path, *extra: str) -> dict[str, float]:
    """Train, and give the last evaluation of the run as plain figures."""
    out.with_suffix(".bertc").write_text(spec)
    run("train", str(out.with_suffix(".bertc")), "--out", str(out), *extra)
    return json.loads(run("eval", str(out), "--json"))["evaluation"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True)
    write(folder)
    text, _ = proteins(2000, 6)
    counts = np.bincount(text.ravel(), minlength=len(LETTERS)) / text.size
    letters = -(counts * np.log(counts)).sum()
    least = allowed(text, 0.15, 0.2, 7)
    print(f"letters {letters:.3f} nats; by the chain {least:.3f}")
    for seed in range(options.seeds):
        known = {"folder": folder, "seed": seed}
        esm = folder / f"esm-{seed}"
        figures = trained(PROTEIN.format(**known, steps=options.steps), esm)
        loss = figures["losses"]["mlm_masked"]
        gained = (letters - loss) / (letters - least)
        tags = []
        for init, name in ((esm, "tuned"), (None, "random")):
            spec = TAGGER.format(**known, init=init or esm)
            if init is None:  # the same network, with its first weights
                fresh = folder / f"fresh-{seed}"
                trained(PROTEIN.format(**known, steps=1), fresh)
                spec = TAGGER.format(**known, init=fresh)
            scores = trained(spec, folder / f"{name}-{seed}")["scores"]["tag"]
            tags.append(next(iter(scores.values())))
        session = folder / f"sessions-{seed}"
        trained(SESSIONS.format(**known, steps=1000), session)
        ranked = json.loads(run("eval", str(session), "--last", "--json"))["evaluation"]["scores"]
        print(f"seed {seed}: masked {loss:.3f} ({gained:.0%} of it), tags {tags}, last {ranked}")


if __name__ == "__main__":
    main()
