"""``bertc build --int8``: matrices as whole numbers, and what a run loses by them."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from bertc import DataError, MissingInputError, load
from bertc.lab.c.writing import PANEL
from bertc.lab.proof.targets import Network, opened, outputs_of
from bertc.lab.proof.texts import proof_rows
from bertc.lab_api import evaluate_run, mean_score, shown_figures


def whole_numbers(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Rows as whole numbers from -127 to 127, and the scale of each."""
    rows = matrix.detach().float()
    most = rows.abs().amax(-1, keepdim=True).clamp(min=1e-30)
    return (rows * (127 / most)).round(), most / 127


def int8_bytes(matrix: Tensor) -> bytes:
    """Scales of rows, their sums, and panels of rows with four columns side by side."""
    padded = F.pad(matrix, (0, -matrix.shape[1] % 4, 0, -matrix.shape[0] % PANEL))
    rounded, scales = (part.numpy() for part in whole_numbers(padded))
    panels = rounded.reshape(-1, PANEL, padded.shape[1] // 4, 4).swapaxes(1, 2)
    numbers = (scales, "<f4"), (rounded.sum(1), "<i4"), (panels, np.int8)
    return b"".join(array.astype(kind).tobytes() for array, kind in numbers)


class Int8(TorchFunctionMode):
    """Networks in torch compute as their programs of int8 do."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), more: Any = None
    ) -> Any:
        """Products and tables with matrices, and rows of products, of whole numbers."""
        if function is F.linear:
            x, (matrix, scales) = args[0].float(), whole_numbers(args[1])
            low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
            spread = (high - low).clamp(min=1e-30)
            rounded, middle = ((x - low) * (255 / spread)).round() - 128, low + 128 / 255 * spread
            y = (F.linear(rounded, matrix) * spread / 255 + middle * matrix.sum(1)) * scales.T
            bias = next(iter([*args[2:], *(more or {}).values()]), None)
            return (y if bias is None else y + bias).to(args[0].dtype)
        if function is F.embedding:
            rounded, scales = whole_numbers(args[1])
            args = args[0], (rounded * scales).to(args[1].dtype), *args[2:]
        return function(*args, **(more or {}))


def judge_int8(run: Path, most_loss: float) -> str:
    """Describe what int8 loses; a DataError if it is more than ``most_loss`` points."""
    what, before, after = loss_by_int8(run)
    shown = f"{what}: {before:.2f} in fp32, {after:.2f} in int8"
    if (lost := before - after) > most_loss:
        help = f"leave --int8 out, or allow --most-loss {lost + 0.05:.1f}"
        raise DataError(f"{shown}, and --most-loss is {most_loss}", help)
    return shown


def loss_by_int8(run: Path) -> tuple[str, float, float]:
    """The main score on the dev set, of 100, in fp32 and int8; else how alike both are."""
    before = _judged(run)
    with Int8():
        after = _judged(run)
    if isinstance(before, tuple) and isinstance(after, tuple):
        return before[0], 100 * before[1], 100 * after[1]
    alike = torch.cosine_similarity(torch.as_tensor(before), torch.as_tensor(after), 0)
    return "likeness to fp32 of the results for texts of a proof", 100, 100 * float(alike)


def _judged(run: Path) -> tuple[str, float] | np.ndarray[Any, Any]:
    """The name of its main score and the score; without one its last results for some texts."""
    with suppress(MissingInputError):  # of a dev set
        evaluation, stage = evaluate_run(run, quiet=True).evaluation, load(run).resolved.stages[-1]
        assert evaluation, "an evaluation ends with one"
        if evaluation.scores:
            names = ", ".join(f"{task.title} {task.metrics[0]}" for task in stage.tasks)
            return names, mean_score(stage, evaluation.scores)
        for name in shown_figures(evaluation.accuracy):
            return f"accuracy of {name}", evaluation.accuracy[name]
    model = opened(run, calibrated=False)
    network, rows = Network(model), [[row] for row in proof_rows(model)]
    answers = outputs_of(network, rows, dict.fromkeys(network.graph.inputs, 0))
    return np.concatenate([answer[network.graph.outputs[-1].name].ravel() for answer in answers])
