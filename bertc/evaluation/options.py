"""Options for reading held-out text otherwise than in training: longer memory, sliding window.

Axes: b windows, w tokens per window, t tokens that a window predicts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor

from bertc.data import Progress, RunningData, TextData
from bertc.diagnostics import UsageError
from bertc.evaluation.held_out import Evaluation
from bertc.ir.data import Stream
from bertc.ir.program.stage import Stage
from bertc.nn import EncoderInputs, Model
from bertc.nn.body import Outputs
from bertc.objectives import Losses, MicroBatch, NextTokenTargets


@dataclass(frozen=True)
class Manner:
    """Evaluation options; 0 keeps the training value, and so does ``memory=None``.

    ``clamp``: larger distances count as this one. ``same_length``: every token attends to exactly
    ``memory`` earlier ones. ``sliding``: each token is predicted from its own window of this many
    tokens before it (the comparison of Transformer-XL, section 3.2). With ``stride`` a window
    predicts so many tokens, the first of them from as many fewer. ``data`` is other text, all of
    it evaluated on; ``objective`` what else is asked.
    """

    seq: int = 0
    memory: int | None = None
    clamp: int = 0
    same_length: bool = False
    sliding: int = 0
    examples: int = 0
    stride: int = 1
    data: str = ""
    objective: str = ""

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
        lengths = {"seq": self.seq or stage.seq, "memory": memory}
        stream = {"format": Stream(), "pairs": "none", "padded": False, "pack": False}
        return stage.model_copy(update=lengths | (stream if self.sliding else {}))

    def rearranged(self, trained: Stage) -> bool:
        """True if rows are made otherwise than those that the run was trained on."""
        return bool(self.objective or (self.sliding and trained.format.kind != "stream"))

    def refuse_for_tasks(self) -> None:
        """Refuse options about text in the evaluation of a task.

        Raises:
            UsageError: if any option but ``examples`` is set.
        """
        if self != Manner(examples=self.examples):
            raise UsageError(
                "seq, memory, clamp, same-length, sliding, stride, data and objective apply to "
                "text, not to tasks",
                help="leave them out; --task names other files, --examples scores fewer of them",
            )

    def told(self, stage: Stage) -> str:
        """A line of the report: reading of a stage returned by ``read_by``."""
        if self.sliding:
            least = self.sliding - self.stride + 1
            some = f"{least} to {self.sliding}" if self.stride > 1 else str(self.sliding)
            return f"each token predicted from the {some} tokens before it"
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
        if self.sliding and not encoder.causal:
            raise UsageError(
                "windows predict next tokens, which this run did not learn",
                help="a run with objective=clm",
            )
        if self.sliding and encoder.directions > 1:
            raise UsageError("sliding predicts next tokens alone, and this network learned both")
        if self.stride > max(1, self.sliding):
            raise UsageError(
                f"a stride of {self.stride} needs windows at least as long",
                help=f"--sliding {max(2 * self.stride, self.sliding)} --stride {self.stride}",
            )
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
    costs: Sequence[Tensor],
    manner: Manner,
    tokens: int,
    rows: int,
    progress: Progress,
) -> Evaluation:
    """Predict the first ``tokens`` that have a full window before them, each from its window.

    ``costs`` (v,) of each token are its nats by frequency, and its characters if they are known.

    Raises:
        UsageError: if the text is shorter than a window.
    """
    window, stride = manner.sliding, manner.stride
    name = next(term.name for term in stage.objective if term.objective.order == "forward")
    text = np.concatenate([ids[: window + tokens] for ids in data.heldout_texts])[: window + tokens]
    if len(text) <= window:
        raise UsageError(f"the held-out text is too short: no token has {window} tokens before it")
    sums = torch.zeros(4 + len(costs) - 1, dtype=torch.float64)
    losses, device = Losses(model, stage, stage.networks()[-1]), next(model.parameters()).device
    progress.begin("evaluating", len(text) - window, "tokens")
    model.eval()
    try:
        for micro_batch in _windows(name, text, window, stride, rows, device):
            hidden_bth = model.read(micro_batch.reading)
            loss = losses(micro_batch, Outputs(hidden_bth))[name]
            targets = micro_batch.terms[name]
            assert isinstance(targets, NextTokenTargets), "as _windows makes them"
            guessed = [(cost_v[targets.targets] * targets.weights).sum() for cost_v in costs]
            sums += torch.stack([loss.sum, loss.correct, loss.count, *guessed]).cpu().double()
            progress.advance(int(loss.count))
        progress.end()
    finally:
        model.train()
    total, hits, count, guess, *characters = sums.tolist()
    return Evaluation(
        loss=total / count,
        losses={name: total / count},
        accuracy={name: hits / count},
        examples=int(count),
        unigram_loss=guess / count,
        unigram_losses={name: guess / count},
        predictions=int(count),
        characters=round(sum(characters)),
    )


def _windows(
    name: str, text: NDArray[Any], window: int, stride: int, rows: int, device: torch.device
) -> Iterator[MicroBatch]:
    """Micro-batches of windows that move on by ``stride``; the last one predicts what is left."""
    padded = np.pad(text, (0, stride - 1))
    view = sliding_window_view(padded, window + 1)[stride - 1 :: stride]
    left = len(text) - window
    asked_t = torch.arange(window - stride, window, device=device)
    for first in range(0, len(view), rows):
        part_bw = torch.from_numpy(view[first : first + rows].astype(np.int64)).to(device)
        ids_bw, next_bt = part_bw[:, :-1], part_bw[:, -stride:]
        nth_bt = torch.arange(next_bt.numel(), device=device).view_as(next_bt) + first * stride
        yield MicroBatch(
            reading=EncoderInputs(ids_bw, output_positions=asked_t.expand_as(next_bt)),
            originals=ids_bw,
            terms={name: NextTokenTargets(next_bt, (nth_bt < left).float())},
        )
