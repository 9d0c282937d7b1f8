"""Similarities of texts, read off their vectors.

Axes: r rows of all batches, d numbers of a vector; n examples, t texts of an example, c candidates.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from bertc.data.examples.task_rows import TaskRows
from bertc.data.layouts.example import Example, RelatedExample
from bertc.data.metrics.gold import AnswerValue
from bertc.ir.learning.custom_task import AnyTask, Embed
from bertc.learn.objectives.softmax.similarities import by_example, related_losses
from bertc.run.evaluation.said import Answers, Said

NEAR = 1e-9
"""Cosines less apart are alike: of the same text twice neither is nearer."""


def related_answers(
    task: AnyTask, examples: Sequence[Example], rows: TaskRows, scores_said: Said, batch: int
) -> Answers:
    """The cosine of each pair with a score; of others how many texts are nearer than the positive.

    These texts are the negatives of its example, or without any the positives of the ``batch``
    examples that stand together, which are also those of which the loss is made.
    """
    assert isinstance(task, Embed), "vectors need a task that embeds"
    related = [example for example in examples if isinstance(example, RelatedExample)]
    vectors_ntd = _vectors(rows, scores_said, len(related))
    scored = all(example.score is not None for example in related)
    scores_n = torch.tensor([example.score or 0.0 for example in related], dtype=torch.float64)
    losses, answers, similarities = 0.0, list[AnswerValue](), list[float]()
    for first in range(0, len(related), batch):
        part_mtd, scores_m = vectors_ntd[first : first + batch], scores_n[first : first + batch]
        losses += float(related_losses(task, part_mtd, scores_m, scored=scored).losses.sum())
        cosines_m, nearer_m = _compared(part_mtd)
        similarities += cosines_m.tolist()
        answers += (cosines_m if scored else nearer_m).tolist()
    right = 0.0 if scored else sum(answer == 0 for answer in answers) / len(answers)
    return Answers(answers, similarities=similarities, loss=losses / len(answers), accuracy=right)


def _vectors(rows: TaskRows, scores_said: Said, examples: int) -> Tensor:
    """Vectors of all texts in the order of their examples (n, t, d)."""
    texts = len(rows.owners) // examples
    vectors_rd: Tensor | None = None
    for batch, (vectors_bd,) in scores_said:
        if vectors_rd is None:
            vectors_rd = torch.zeros(len(rows.owners), vectors_bd.shape[1], dtype=torch.float64)
        vectors_rd[torch.from_numpy(batch.rows)] = torch.from_numpy(vectors_bd)
    assert vectors_rd is not None, "there are examples"
    return by_example(vectors_rd, texts)


def _compared(vectors_mtd: Tensor) -> tuple[Tensor, Tensor]:
    """The cosine of each pair (m,), and how many other texts are nearer to its first (m,)."""
    units_mtd = normalize(vectors_mtd, dim=2)
    firsts_md, others_mtd = units_mtd[:, 0], units_mtd[:, 1:]
    cosines_mt = (firsts_md[:, None] * others_mtd).sum(2)
    own_m = cosines_mt[:, 0]
    beside_mc = cosines_mt if cosines_mt.shape[1] > 1 else firsts_md @ others_mtd[:, 0].T
    return own_m, (beside_mc > own_m[:, None] + NEAR).sum(1)
