"""Runs found in folders, and what their evaluations showed. Loads no torch."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from bertc import MissingInputError, Resolved
from bertc.lab.results.curves import flops_until
from bertc.lab_api import RunFolder, Seen, loss_title, model_weights

Score = tuple[str, ...]
"""The name of a column: task, part and metric; or an objective, for its held-out loss."""


@dataclass(frozen=True)
class Run:
    """A run folder and its evaluations.

    ``last`` is its last evaluation, ``best`` the best of the same stage, and ``earlier`` are the
    last of the stages before.
    """

    folder: Path
    resolved: Resolved
    step: int
    finished: bool
    last: Seen | None
    best: Seen | None
    earlier: tuple[Seen, ...] = ()
    tokens: Mapping[int, int] = field(default_factory=dict)
    """Tokens that it has read until some of its steps."""
    seconds: float = 0.0
    """The time of its training and evaluations."""
    parameters_left: int | None = None
    """The number of parameters after pruning, of a run that removed some and has ended."""

    @property
    def parameters(self) -> int:
        """The number of parameters, after pruning if it has ended."""
        return self.parameters_left or sum(w.numel for w in model_weights(self.resolved))

    @property
    def flops(self) -> float:
        """The FLOPs of its training until its step."""
        return flops_until(self.resolved, self.tokens)(self.step)

    @property
    def last_scores(self) -> dict[Score, float]:
        """The last value of each score."""
        seen = [*self.earlier, *filter(None, [self.last])]
        return {score: value for evaluation in seen for score, value in evaluation.values.items()}

    @property
    def steps(self) -> int:
        """All its steps; by the clock as many as its pace gives."""
        return self.resolved.steps_by(self.step, self.seconds)

    @property
    def standing(self) -> str:
        """The step that an unfinished run is at, "1,000/2,000"; "" for a finished one."""
        return "" if self.finished else f"{self.step:,}/{self.steps:,}"

    @property
    def score(self) -> tuple[str, float] | None:
        """The score of the weights that it has now, after its name; None if it has no such."""
        step = RunFolder(self.folder).saved_step or self.resolved.steps
        return self.ranked(self.last) if self.last and self.last.step == step else None

    def evaluated(self, step: int, values: Mapping[Score, float]) -> "Run":
        """The run with one evaluation in place of its own."""
        last = Seen(step, self.resolved.stages[-1].name, 0.0, True, values)
        return replace(self, step=step, last=last, best=None, earlier=())

    def ranked(self, seen: Seen) -> tuple[str, float]:
        """The score or loss that ranks an evaluation of the last stage, after its name."""
        scored = {score[0] for score in seen.values}
        tasks = [task for task in self.resolved.stages[-1].tasks if task.title in scored]
        if not tasks or len(next(iter(seen.values))) == 1:
            kinds = dict.fromkeys(loss_title(name).partition(", ")[2] for (name,) in seen.values)
            return ", ".join(filter(None, ("held-out loss", *kinds))), -seen.rank
        return " + ".join(f"{task.title} {task.metrics[0]}" for task in tasks), seen.rank


def find_folders(folders: Sequence[Path]) -> list[Path]:
    """Every run folder among these folders and below them."""
    for folder in folders:
        if not os.path.isdir(folder):
            raise MissingInputError(f"there is no folder {folder}", help="check the path")
    paths = dict[Path, Path]()
    for name, below, files in chain.from_iterable(os.walk(folder) for folder in folders):
        below.sort()
        if "resolved.json" in files:
            below.clear()
            if "lock.json" in files:  # an imported model has none
                paths[Path(os.path.realpath(name))] = Path(name)
    if not paths:
        models = [folder for folder in folders if os.path.isfile(folder / "config.json")]
        way = f"bertc import {models[0]} --out DIR" if models else "bertc train SPEC --out DIR"
        named = ", ".join(map(str, folders))
        raise MissingInputError(f"no run in {named}", help=f"{way} makes one")
    return list(paths.values())


def read_run(path: Path) -> Run:
    """Read a run and its evaluations."""
    folder = RunFolder(path)
    resolved, lines = folder.read_resolved(), folder.read_metrics()
    seen = folder.evaluations(resolved, lines)
    last = seen[-1] if seen else None
    kind = last and (last.stage, last.of_masked)
    alike = [evaluation for evaluation in seen if (evaluation.stage, evaluation.of_masked) == kind]
    ends = {evaluation.stage: evaluation for evaluation in seen}
    pruned = folder.network_left
    tokens = {n["step"]: n["tokens"] for n in lines if "tokens" in n and "best" not in n}
    seconds = next((line["seconds"] for line in reversed(lines) if "seconds" in line), 0.0)
    logged = max((line["step"] for line in lines), default=0)
    step = max(logged, folder.saved_step)
    if step > logged and (counted := folder.counted_until(step)):
        tokens[step], seconds = counted
    return Run(
        path, resolved, step - folder.left_out, folder.is_finished(resolved), last,
        max(alike, key=lambda evaluation: evaluation.rank, default=None), tuple(ends.values())[:-1],
        tokens, seconds, sum(weight.numel for weight in model_weights(pruned)) if pruned else None,
    )  # fmt: skip
