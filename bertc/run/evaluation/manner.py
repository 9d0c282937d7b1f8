"""Options for reading held-out text otherwise than in training; loads no torch."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bertc.base.diagnostics import UsageError
from bertc.ir.data import DocSentences
from bertc.ir.network.encoder import Encoder
from bertc.ir.program import Stage

if TYPE_CHECKING:
    from bertc.model import Model


@dataclass(frozen=True)
class Manner:
    """Evaluation options; 0 keeps the training value, and so does ``memory=None``.

    ``clamp``: larger distances count as this one. ``same_length``: every token attends to exactly
    ``memory`` earlier ones. ``data`` is other text, all of it evaluated on; ``objective`` what
    else is asked; ``pairs`` a folder of minimal pairs; with ``last`` the last token of each row
    is ranked among all.
    """

    seq: int = 0
    memory: int | None = None
    clamp: int = 0
    same_length: bool = False
    examples: int = 0
    data: str = ""
    objective: str = ""
    pairs: str = ""
    last: bool = False

    def read_by(self, model: "Model", stage: Stage) -> Stage:
        """Set the model to these options and return the stage changed accordingly."""
        encoder, memory = stage.encoder, stage.memory if self.memory is None else self.memory
        if (self.seq or self.memory is not None) and stage.format.kind != "stream":
            what = f"{stage.format.kind} rows have a fixed length"
            raise UsageError(f"{what}: seq and memory apply only to text read as a stream")
        attention = encoder.attention if isinstance(encoder, Encoder) else None
        if self.clamp and not (attention and attention.distances and attention.distances.clamps):
            kind = attention.kind if attention else encoder.body_kind
            raise UsageError(f"clamp needs attention with relative distances, not {kind}")
        if self.same_length and not memory:
            raise UsageError("same-length needs a memory", help="--memory 640")
        room = encoder.room
        if room is not None and self.seq > room:
            raise UsageError(f"the encoder has {room} positions", help=f"at most {room}")
        if self.clamp:
            node = model.encoder.node
            assert isinstance(node, Encoder), "as refused above"
            attention = node.attention.model_copy(update={"clamp": self.clamp})
            model.encoder.node = node.model_copy(update={"attention": attention})
        model.same_length = self.same_length
        lengths = {"seq": self.seq or stage.seq, "memory": memory}
        rows = {"pairs": "none", "padded": True, "pack": False, "format": DocSentences(cut="end")}
        return stage.model_copy(update=lengths | (rows if self.last else {}))

    def refuse_for_tasks(self) -> None:
        """Refuse options about text, all but ``examples``, in the evaluation of a task."""
        if self != Manner(examples=self.examples):
            raise UsageError(
                "seq, memory, clamp, same-length, data, objective, pairs and last apply to text, "
                "not to tasks",
                help="leave them out; --task names other files, --examples scores fewer of them",
            )

    def describe(self, stage: Stage) -> str:
        """A line of the report: reading of a stage returned by ``read_by``."""
        if stage.format.kind != "stream":
            return f"read in {stage.format.kind} rows of {stage.seq} tokens"
        words = [f"read as a stream in rows of {stage.seq} tokens"]
        words += [f"with a memory of {stage.memory} tokens" if stage.memory else "without memory"]
        words += [f"distances clamped at {self.clamp}"] * bool(self.clamp)
        words += ["the same number of keys for every token"] * self.same_length
        return ", ".join(words)
