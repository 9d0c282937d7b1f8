"""A student beside the networks that taught it, or that it began with."""

from collections.abc import Sequence
from pathlib import Path

from bertc.diagnostics import BertcError, DataError
from bertc.estimate.execution import FP32
from bertc.estimate.latency.cases import Shape
from bertc.estimate.latency.predicted import TOKENS_OF_A_TEXT, text_seconds
from bertc.estimate.units import bytes_text, change_text, duration_text
from bertc.interop.folders import read_network
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.teacher import FromFolder
from bertc.planning.cores import available_cores
from bertc.report.markup import Content, note_below, table_of
from bertc.runs.results import score_of_weights
from bertc.storage.paths import is_folder

HEAD = ("", "parameters", "weights", "a text", "best evaluation")


def teachers_of(resolved: Resolved) -> list[Path]:
    """The folders of the networks that taught the last stage, in order."""
    sources = (teacher.source for teacher in resolved.stages[-1].teacher)
    return [Path(source.path) for source in sources if isinstance(source, FromFolder)]


def teacher_section(run: Path, teachers: Sequence[Path]) -> Sequence[Content]:
    """A row a network: its size, the time that a text takes, and its best score.

    Raises:
        MissingInputError, DataError: if the student's own files cannot be read.
    """
    student = _figures(run)
    rows: list[Sequence[Content]] = []
    for folder in teachers:
        try:
            figures = _figures(folder)
        except BertcError as error:
            rows.append((f"teacher {folder}", error.message))
            continue
        rows.append((f"teacher {folder}", *_texts(figures), _score(folder)))
        changes = [change_text(a, b) for a, b in zip(student, figures, strict=True)]
        rows.append(("student beside it", changes[0], changes[0], changes[1], ""))
    rows.append(("student", *_texts(student), _score(run)))
    return (
        table_of(HEAD, rows),
        note_below(
            f"Weights in fp32; a text of {TOKENS_OF_A_TEXT} tokens as predicted for this CPU."
        ),
    )


def _figures(folder: Path) -> tuple[int, float]:
    """Parameters, and predicted seconds for a text."""
    if not is_folder(folder):
        raise DataError("its folder is gone")
    network = read_network(folder)
    parameters = sum(weight.numel for weight in model_weights(network))
    tokens = min(TOKENS_OF_A_TEXT, network.encoder.room or TOKENS_OF_A_TEXT)
    return parameters, text_seconds(network.stages[-1], Shape(1, tokens), available_cores())


def _texts(figures: tuple[int, float]) -> tuple[str, str, str]:
    parameters, seconds = figures
    return f"{parameters:,}", bytes_text(FP32 * parameters), duration_text(seconds)


def _score(folder: Path) -> str:
    try:
        found = score_of_weights(folder)
    except BertcError:
        return ""
    return f"{found[0]} {found[1]:.4f}" if found else ""
