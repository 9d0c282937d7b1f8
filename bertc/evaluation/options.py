"""How held-out text is read, where not as in training: longer memories, or a window that slides.

Axes: b windows, w tokens of a window.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from bertc.data import Progress, RunningData, TextData
from bertc.diagnostics import UsageError
from bertc.evaluation.held_out import Evaluation
from bertc.ir.program.resolved import Stage
from bertc.nn import EncoderInputs, Model
from bertc.objectives import Columns, Losses, NextTokens


@dataclass(frozen=True)
class Manner:
    """What the reader asks for; 0 is as in training, but for a memory, which may be none.

    ``clamp``: distances beyond it count as it. ``same_length``: every token sees as many as are
    remembered, no more where more are at hand. ``sliding``: each token is told from a window of so
    many before it, read for it alone (Transformer-XL, section 3.2, which makes this comparison).
    """

    seq: int = 0
    memory: int | None = None
    clamp: int = 0
    same_length: bool = False
    sliding: int = 0
    examples: int = 0

    def read_by(self, model: Model, stage: Stage) -> Stage:
        """Make the model read so, and say what stage that makes of one of its run.

        Raises:
            UsageError: if text of this stage cannot be read so, saying why.
        """
        memory = stage.memory if self.memory is None else self.memory
        self._refuse(stage, memory)
        if self.clamp:
            node = model.encoder.node
            attention = node.attention.model_copy(update={"clamp": self.clamp})
            model.encoder.node = node.model_copy(update={"attention": attention})
        model.same_length = self.same_length
        return stage.model_copy(update={"seq": self.seq or stage.seq, "memory": memory})

    def refuse_for_tasks(self) -> None:
        """Refuse what says how text is read, where examples of a task are.

        Raises:
            UsageError: if anything but their number is asked for.
        """
        if self != Manner(examples=self.examples):
            raise UsageError(
                "seq, memory, clamp, same-length and sliding are of text, and this is a task",
                help="leave them out; --examples scores fewer of them",
            )

    def told(self, stage: Stage) -> str:
        """How text of this stage, which ``read_by`` made, is read, as a line of the report."""
        if self.sliding:
            return f"each token told from a window of its own, of the {self.sliding} before it"
        if stage.format.kind != "stream":
            return f"read in {stage.format.kind} rows of {stage.seq} tokens"
        words = [f"read on in rows of {stage.seq} tokens"]
        words += [f"with {stage.memory} remembered" if stage.memory else "with none remembered"]
        words += [f"distances beyond {self.clamp} alike"] * bool(self.clamp)
        words += ["every token sees as many"] * self.same_length
        return ", ".join(words)

    def _refuse(self, stage: Stage, memory: int) -> None:
        encoder = stage.encoder
        if (self.seq or self.memory is not None) and stage.format.kind != "stream":
            what = f"rows of {stage.format.kind} are as they are"
            raise UsageError(f"{what}: seq and memory are for text that runs on")
        if self.clamp and not encoder.attention.clamps:
            kind = encoder.attention.kind
            raise UsageError(f"clamp is for attention that knows distances, and this is {kind}")
        if self.same_length and not memory:
            raise UsageError("same-length needs a memory", help="--memory 640")
        if self.sliding and not (encoder.causal and stage.format.kind == "stream"):
            raise UsageError("a window slides over a stream, before the next token to tell")
        room = encoder.positions.room
        if room is not None and max(self.seq, self.sliding) > room:
            raise UsageError(f"the encoder has {room} positions", help=f"at most {room}")


def read_data(data: TextData, stage: Stage) -> TextData:
    """The data of a stage in rows of the length that is asked for."""
    return replace(data, seq=stage.seq) if isinstance(data, RunningData) else data


@torch.no_grad()
def slide(
    model: Model,
    stage: Stage,
    data: RunningData,
    nats_v: Tensor,
    window: int,
    tokens: int,
    rows: int,
    progress: Progress,
) -> Evaluation:
    """Tell each of the first ``tokens`` that have a whole window before them, from it alone."""
    told = torch.zeros(4, dtype=torch.float64)
    losses = Losses(model, stage, stage.networks()[-1])
    there = sum(min(len(ids), window + tokens) for ids in data.heldout_texts) - window
    progress.begin("evaluating", max(0, min(tokens, there)), "tokens")
    model.eval()
    try:
        for columns in _windows(data, window, tokens, rows, next(model.parameters()).device):
            hidden_b1h = model.read(columns.reading)
            found = losses(columns, hidden_b1h)["clm"]
            guessed = nats_v[columns.terms["clm"].targets].sum()
            told += torch.stack([found.sum, found.correct, found.count, guessed]).cpu().double()
            progress.advance(len(hidden_b1h))
        progress.end()
    finally:
        model.train()
    total, hits, count, guessed = told.tolist()
    if not count:
        raise UsageError(f"no held-out token has {window} before it")
    return Evaluation(
        loss=total / count,
        losses={"clm": total / count},
        accuracy={"clm": hits / count},
        examples=int(count),
        unigram_loss=guessed / count,
        unigram_losses={"clm": guessed / count},
    )


def _windows(
    data: RunningData, window: int, tokens: int, rows: int, device: torch.device
) -> Iterator[Columns]:
    text = np.concatenate([ids[: window + tokens] for ids in data.heldout_texts])
    if len(text) <= window:
        return
    whole = torch.from_numpy(sliding_window_view(text, window + 1)[:tokens].astype(np.int64))
    for part_bw in torch.split(whole.to(device), rows):
        ids_bw, next_b1 = part_bw[:, :-1], part_bw[:, -1:]
        asked_b1 = torch.full_like(next_b1, window - 1)
        yield Columns(
            reading=EncoderInputs(ids_bw, output_positions=asked_b1),
            originals=ids_bw,
            terms={"clm": NextTokens(next_b1, torch.ones_like(next_b1, dtype=torch.float32))},
        )
