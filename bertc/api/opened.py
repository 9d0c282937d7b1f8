"""A run or a model folder, opened: its model, its metrics, its evaluation and its exports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertc.base.diagnostics import InNotebooks, MissingInputError, Table, UsageError
from bertc.base.storage.paths import is_file, is_folder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bertc.ir.program.resolved import Resolved
    from bertc.run.records.folder import RunFolder
    from bertc.run.train.report import Report
    from bertc.use.fill_mask import Filled
    from bertc.use.trained import Text, Trained


class Metrics(list[dict[str, Any]], InNotebooks):
    """The lines of a run's metrics as dicts, the oldest first; notebooks show the last ten."""

    def tables(self) -> list[Table]:
        """The last lines, a column for each figure."""
        names = dict.fromkeys(name for line in self[-10:] for name in line)
        rows = [tuple(str(line.get(name, "")) for name in names) for line in self[-10:]]
        return [Table(tuple(names), rows)]

    @property
    def frame(self) -> Any:
        """A pandas.DataFrame, a row a line."""
        try:
            import pandas
        except ImportError:
            raise UsageError("a frame of metrics is made by pandas", "pip install pandas") from None
        return pandas.json_normalize(list(self))


class Opened(InNotebooks):
    """A run, or a folder of others; its weights are read when a method first needs them.

    ``evaluate`` and ``metrics`` are of runs.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not is_folder(self.folder):
            from bertc.hub.published import or_hub

            help = or_hub("name a run or a model folder", str(folder))
            raise MissingInputError(f"there is no folder {folder}", help=help)

    @cached_property
    def model(self) -> Trained:
        """The module in evaluation mode, with its ``tokenizer``; the newest good checkpoint."""
        from bertc.api import load

        return load(self.folder)

    @property
    def resolved(self) -> Resolved:
        """The program, with every setting."""
        return self._run.read_resolved() if self._run.holds_a_run else self.model.resolved

    @property
    def metrics(self) -> Metrics:
        """The lines of the run's metrics; none of a folder that is no run."""
        return Metrics(map(dict, self._run.read_metrics()) if is_file(self._run.metrics) else ())

    def fill(self, text: str, top: int = 5, language: str = "") -> Filled:
        """The likeliest tokens for each [MASK] of a text, as ``bertc fill``."""
        return self.model.fill(text, top, language)

    def predict(self, rows: Sequence[Any], task: str = "") -> list[dict[str, Any]]:
        """Answers to rows: texts, tuples of a task's inputs, or dicts of its columns."""
        return self.model.predict(rows, task)

    def embed(self, texts: Sequence[str], pooling: str = "") -> NDArray[np.float32]:
        """A vector for each text (texts, width), as ``bertc embed``."""
        return self.model.embed(texts, pooling)

    def encode(self, texts: Text | Sequence[Text]) -> Any:
        """The hidden states of texts (texts, tokens, hidden), a torch tensor."""
        import torch

        with torch.inference_mode():
            return self.model.encode(**self.model.tokenizer(texts))

    def evaluate(self, task: object = "", part: str = "", **manner: Any) -> Report:
        """Evaluate the newest good checkpoint, as ``bertc eval``; ``manner`` as in ``Manner``.

        Raises:
            UsageError: of a folder that is no run, without a task or text.
        """
        from bertc.run.evaluation.evaluate import evaluate_run
        from bertc.run.evaluation.manner import Manner

        if not (self._run.holds_a_run or task or {"data", "pairs"} & {*manner}):
            message = f"{self.folder} is no run, and says nothing of text held out"
            raise UsageError(message, help="evaluate(data=\"files('dev/*.txt')\"), or a task")
        if wrong := {*manner} - {field.name for field in fields(Manner)}:
            names = ", ".join(field.name for field in fields(Manner))
            raise UsageError(f"evaluate has no {min(wrong)}", help=f"task, part, {names}")
        options = Manner(**manner)
        return evaluate_run(self.folder, options, task=str(task), part=part, quiet=True)

    def export(self, to: str | Path, pooling: str = "", *, code: bool = False) -> Path:
        """Write a folder that transformers loads, as ``bertc export``; returns its path."""
        from bertc.use.card import export_with_card

        export_with_card(self.folder, Path(to), pooling, code=code)
        return Path(to)

    def tables(self) -> list[Table]:
        """The program's name and sizes, and the last figures of the run."""
        resolved, lines = self.resolved, self.metrics
        evaluated = next((line for line in reversed(lines) if line["kind"] == "eval"), {})
        rows: list[tuple[str, Any]] = [
            ("folder", str(self.folder)),
            ("steps", f"{lines[-1]['step'] if lines else 0:,} of {resolved.steps:,}"),
            *((f"held-out {n}", v) for n, v in evaluated.get("losses", {}).items()),
        ]
        return [Table(("", resolved.name), rows, units=(str, "{:.4g}".format))]

    def __repr__(self) -> str:
        return f"bertc.open({str(self.folder)!r})"

    @cached_property
    def _run(self) -> RunFolder:
        from bertc.run.records.folder import RunFolder

        return RunFolder(self.folder)


open = Opened
