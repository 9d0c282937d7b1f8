"""Outputs of frozen networks that are kept on disk for the examples of a task.

They are those of teachers, or states of the network itself where all of it is frozen.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from bertc.ir.learning.answer import Tags
from bertc.ir.learning.augmentation import with_copies
from bertc.ir.program.stage import Stage
from bertc.ir.program.teacher import NOBODY, Cache

Kept = Literal["off", "fp32", "fp16"]
KEPT_BYTES: Mapping[Kept, int] = {"off": 0, "fp32": 4, "fp16": 2}
"""Bytes a number.

fp16 rounds it by at most 1/2048 of itself, below 6.2e-5 by at most 3e-8 (IEEE 754)."""
FEWEST_PASSES = 2
"""Minimum passes over the examples for ``auto``: the first costs what each other one saves."""


class LessonShape(NamedTuple):
    """Outputs of a teacher for a term: ``widths`` numbers for each token, or for each answer.

    ``share`` is the teacher's weight in the mean of several.
    """

    title: str
    share: float
    by_token: bool
    widths: tuple[int, ...]


class Counts(NamedTuple):
    """Rows of a task's training examples, their tokens, and their answers."""

    rows: int
    tokens: int
    answers: int


def lesson_shapes(stage: Stage, task: str) -> tuple[LessonShape, ...]:
    """Outputs of all teachers for all terms on the rows of a task, term by term.

    Of a wholly frozen network states that the task's head reads.
    """
    if stage.freeze == "all":
        return tuple(
            LessonShape(
                one.title, 1.0, one.keeps_all(stage.encoder), (stage.encoder.hidden,) * one.parts
            )
            for one in stage.tasks
            if one.title == task
        )
    frozen = [network for network in stage.networks() if not network.learned]
    taught = [one.teaching for one in frozen[0].scored if one.teaching] if frozen else []
    return tuple(
        LessonShape(one.title, network.share, one.by_token, one.taught_widths(network.body))
        for one in taught
        if one.of_task in ("", task)
        for network in frozen
    )


def lesson_bytes(shapes: Sequence[LessonShape], counts: Counts, precision: Kept) -> int:
    """Bytes on disk."""
    numbers = (
        sum(shape.widths) * (counts.tokens if shape.by_token else counts.answers)
        for shape in shapes
    )
    return KEPT_BYTES[precision] * sum(numbers)


def without_kept_teachers(stage: Stage) -> Stage:
    """The stage without teachers, if what they say is sure to be kept and no step asks them."""
    if stage.freeze == "all":
        return stage
    cached = bool(stage.tasks) and stage.teacher_cache in ("fp32", "fp16")
    return stage.model_copy(update={"teacher": NOBODY}) if cached else stage


def expected_lessons(stage: Stage, length: int) -> tuple[float, int]:
    """The share of a teacher's forward passes that is really done, and bytes of what is kept.

    ``length``: mean tokens of a row. Windows of long passages are counted as one.
    """
    numbers = [with_copies(task.examples, stage.augment) for task in stage.tasks]
    precision = kept_by(stage, sum(numbers))
    if precision == "off":
        return 1.0, 0
    size = 0
    for task, examples in zip(stage.tasks, numbers, strict=True):
        rows = examples * stage.rows_an_example
        tokens = rows * length
        counts = Counts(rows, tokens, tokens if isinstance(task.answer, Tags) else rows)
        size += lesson_bytes(lesson_shapes(stage, task.title), counts, precision)
    return sum(numbers) / (stage.steps * stage.batch), size


def kept_by(stage: Stage, examples: int) -> Kept:
    """The way in which outputs of a stage's frozen networks for its ``examples`` are kept.

    ``auto``: in fp32 where examples are read twice or more, if all outputs are of answers, as
    logits and first tokens are; those of every token may take longer to read than to compute.
    Not so where the whole network is frozen, since nothing but its head is computed then.
    """
    shapes = [shape for task in stage.tasks for shape in lesson_shapes(stage, task.title)]
    if not shapes or not examples:
        return "off"
    precision = kept_as(stage)
    if precision != "auto":
        return precision
    pays = stage.steps * stage.batch >= FEWEST_PASSES * examples
    by_token = any(shape.by_token for shape in shapes) and stage.freeze != "all"
    return "fp32" if pays and not by_token else "off"


def kept_as(stage: Stage) -> Cache:
    """The form in which a stage asks to keep outputs of its frozen networks."""
    return stage.features_cache if stage.freeze == "all" else stage.teacher_cache
