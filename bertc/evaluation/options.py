"""Options for reading held-out text otherwise than in training: longer memory, sliding window.

Axes: b windows, w tokens per window.
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
from bertc.ir.program.stage import Stage
from bertc.nn import EncoderInputs, Model
from bertc.nn.body import Outputs
from bertc.objectives import Losses, MicroBatch, NextTokenTargets


@dataclass(frozen=True)
class Manner:
    """Evaluation options; 0 keeps the training value, and so does ``memory=None``.

    ``clamp``: larger distances count as this one. ``same_length``: every token attends to exactly
    ``memory`` earlier ones. ``sliding``: each token is predicted from its own window of this many
    tokens before it (the comparison of Transformer-XL, section 3.2).
    """

    seq: int = 0
    memory: int | None = None
    clamp: int = 0
    same_length: bool = False
    sliding: int = 0
    examples: int = 0

    def read_by(self, model: Model, stage: Stage) -> Stage:
        """Set the model to these options and return the stage changed accordingly.

        Raises:
            UsageError: if the text of this stage cannot be read so, with the reason.
        """
        memory = stage.memory if self.memory is None else self.memory
        self._refuse(stage, memory)
        if self.clamp:
            model.encoder.node = model.encoder.node.clamped(self.clamp)
        model.same_length = self.same_length
        return stage.model_copy(update={"seq": self.seq or stage.seq, "memory": memory})

    def refuse_for_tasks(self) -> None:
        """Refuse options about text in the evaluation of a task.

        Raises:
            UsageError: if any option but ``examples`` is set.
        """
        if self != Manner(examples=self.examples):
            raise UsageError(
                "seq, memory, clamp, same-length and sliding apply to text, not to tasks",
                help="leave them out; --examples scores fewer of them",
            )

    def told(self, stage: Stage) -> str:
        """A line of the report: reading of a stage returned by ``read_by``."""
        if self.sliding:
            return f"each token predicted from the {self.sliding} tokens before it"
        if stage.format.kind != "stream":
            return f"read in {stage.format.kind} rows of {stage.seq} tokens"
        words = [f"read as a stream in rows of {stage.seq} tokens"]
        words += [f"with a memory of {stage.memory} tokens" if stage.memory else "without memory"]
        words += [f"distances clamped at {self.clamp}"] * bool(self.clamp)
        words += ["the same number of keys for every token"] * self.same_length
        return ", ".join(words)

    def _refuse(self, stage: Stage, memory: int) -> None:
        encoder = stage.encoder
        if (self.seq or self.memory is not None) and stage.format.kind != "stream":
            what = f"{stage.format.kind} rows have a fixed length"
            raise UsageError(f"{what}: seq and memory apply only to text read as a stream")
        if self.clamp and not encoder.clamps:
            attention = encoder.settings().get("attention")
            kind = attention.kind if attention else encoder.body_kind
            raise UsageError(f"clamp needs attention with relative distances, not {kind}")
        if self.same_length and not memory:
            raise UsageError("same-length needs a memory", help="--memory 640")
        if self.sliding and not (encoder.causal and stage.format.kind == "stream"):
            raise UsageError("sliding needs text read as a stream")
        if self.sliding and encoder.directions > 1:
            raise UsageError("sliding predicts next tokens alone, and this network learned both")
        room = encoder.room
        if room is not None and max(self.seq, self.sliding) > room:
            raise UsageError(f"the encoder has {room} positions", help=f"at most {room}")


def read_data(data: TextData, stage: Stage) -> TextData:
    """The data of a stage, cut into rows of its length."""
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
    """Predict each of the first ``tokens`` that have a full window before them, from it alone."""
    sums = torch.zeros(4, dtype=torch.float64)
    name = next(term.name for term in stage.objective if term.objective.order == "forward")
    losses = Losses(model, stage, stage.networks()[-1])
    there = sum(min(len(ids), window + tokens) for ids in data.heldout_texts) - window
    progress.begin("evaluating", max(0, min(tokens, there)), "tokens")
    model.eval()
    try:
        for micro_batch in _windows(
            name, data, window, tokens, rows, next(model.parameters()).device
        ):
            hidden_b1h = model.read(micro_batch.reading)
            loss = losses(micro_batch, Outputs(hidden_b1h))[name]
            guessed = nats_v[micro_batch.terms[name].targets].sum()
            sums += torch.stack([loss.sum, loss.correct, loss.count, guessed]).cpu().double()
            progress.advance(len(hidden_b1h))
        progress.end()
    finally:
        model.train()
    total, hits, count, guessed = sums.tolist()
    if not count:
        raise UsageError(f"the held-out text is too short: no token has {window} tokens before it")
    return Evaluation(
        loss=total / count,
        losses={name: total / count},
        accuracy={name: hits / count},
        examples=int(count),
        unigram_loss=guessed / count,
        unigram_losses={name: guessed / count},
    )


def _windows(
    name: str, data: RunningData, window: int, tokens: int, rows: int, device: torch.device
) -> Iterator[MicroBatch]:
    text = np.concatenate([ids[: window + tokens] for ids in data.heldout_texts])
    if len(text) <= window:
        return
    whole = torch.from_numpy(sliding_window_view(text, window + 1)[:tokens].astype(np.int64))
    for part_bw in torch.split(whole.to(device), rows):
        ids_bw, next_b1 = part_bw[:, :-1], part_bw[:, -1:]
        asked_b1 = torch.full_like(next_b1, window - 1)
        yield MicroBatch(
            reading=EncoderInputs(ids_bw, output_positions=asked_b1),
            originals=ids_bw,
            terms={name: NextTokenTargets(next_b1, torch.ones_like(next_b1, dtype=torch.float32))},
        )
