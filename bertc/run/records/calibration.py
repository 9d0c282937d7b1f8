"""``calibration.json`` of a run: what ``bertc eval`` fitted of each task on dev."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from bertc.base.storage import durable
from bertc.base.storage.paths import StrPath, is_file
from bertc.base.storage.plain_file import read_json
from bertc.hub.keys import part_of
from bertc.ir.learning import AnyTask, Spans, label_names
from bertc.ir.program import Resolved
from bertc.model import Model
from bertc.tasks.metrics.calibration import NO_FIT, HeadFit

CALIBRATION = "calibration.json"
LARGEST_CALIBRATION_BYTES = 16 << 20


def write_fit(run: Path, model: Model, title: str, fit: HeadFit) -> None:
    """Add the fit of a task's head."""
    known = _read(run) | {title: {"head": _digest(_weights(model, title)), **asdict(fit)}}
    durable.replace(run / CALIBRATION, json.dumps(known, indent=1).encode())


def fit_of_head(run: StrPath, model: Model, title: str) -> HeadFit:
    """The fit of a task's head; none after more training, or without one."""
    return _fit(_read(Path(run)).get(title), _weights(model, title))


def divide_by_temperatures(
    run: StrPath, resolved: Resolved, tensors: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Tensors with temperatures in the heads' last layers, and notes on these and on thresholds."""
    ready, notes, known = dict(tensors), list[str](), _read(Path(run))
    for title, task in {task.title: task for task in resolved.stages[-1].tasks}.items():
        start = f"heads.{title}."
        head = {n.removeprefix(start): t for n, t in tensors.items() if part_of(n) == title}
        fit = _fit(known.get(title), head)
        if fit.temperature != 1:
            last = head.keys() & {"weight", "bias"}
            ready |= {start + name: head[name] / fit.temperature for name in last}
            notes.append(f"{title}: its head has the temperature {fit.temperature:.4g} of dev")
        if isinstance(task, Spans) and fit.thresholds:
            call = f"predict_entities(text, labels, threshold={fit.thresholds[0]:.4g})"
            notes.append(f"{title}: spans are those of {call}; gliner takes 0.5 unless it is given")
        elif fit.thresholds:
            notes.append(
                f"{title}: labels are those of a probability above {thresholds(task, fit)}; "
                "pipelines of transformers take 0.5"
            )
    return ready, tuple(notes)


def thresholds(task: AnyTask, fit: HeadFit) -> str:
    """The labels of a task with their thresholds."""
    names = zip(label_names(task.answer), fit.thresholds, strict=True)
    return ", ".join(f"{name} {least:.4g}" for name, least in names)


def _read(run: Path) -> dict[str, Any]:
    path = run / CALIBRATION
    return read_json(path, LARGEST_CALIBRATION_BYTES) if is_file(path) else {}


def _weights(model: Model, title: str) -> Mapping[str, Tensor]:
    heads = dict(model.heads.named_children())  # vectors may have none
    return heads[title].state_dict() if title in heads else {}


def _fit(known: Any, head: Mapping[str, Tensor]) -> HeadFit:
    """A fit that was read, if it is of these weights."""
    if not isinstance(known, dict) or known.get("head") != _digest(head):
        return NO_FIT
    return HeadFit(float(known["temperature"]), tuple(map(float, known["thresholds"])))


def _digest(head: Mapping[str, Tensor]) -> str:
    ordered = (head[name] for name in sorted(head, reverse=True))
    weights = (tensor.detach().float().cpu().numpy().tobytes() for tensor in ordered)
    return hashlib.sha256(b"".join(weights)).hexdigest()
