"""Evaluation of tasks: what a model answers to the parts they are judged by, and how well."""

import math

from bertc.data import TaskData
from bertc.ir.resolved import Stage
from bertc.nn import Model
from bertc.tasks.metrics import judge
from bertc.train.answering import answer
from bertc.train.evaluation import Evaluation
from bertc.train.stopping import Stop


def evaluate_tasks(
    model: Model, stage: Stage, data: TaskData, stop: Stop | None = None
) -> Evaluation:
    """Evaluate on every part of every task, all of it; of many processes each does all of it.

    Raises:
        StoppedError: if someone asked the run to stop meanwhile.
    """
    losses, accuracy, scores, total = {}, {}, {}, 0
    for own in data.sets:
        found, parts = {}, []
        for part, (examples, rows) in own.parts.items():
            answers = answer(model, stage, own, examples, rows, data.vocabulary.pad, stop)
            found[part] = judge(own.task, examples, answers.given)
            parts.append((len(examples), answers))
            total += len(examples)
        if not parts:
            continue
        title, count = own.task.title, sum(size for size, _ in parts)
        losses[title] = math.fsum(size * a.loss for size, a in parts) / count
        accuracy[title] = math.fsum(size * a.accuracy for size, a in parts) / count
        scores[title] = found
    weights = {term.name: term.weight for term in stage.objective}
    loss = math.fsum(weights[name] * value for name, value in losses.items())
    return Evaluation(loss, losses, accuracy, total, scores=scores)
