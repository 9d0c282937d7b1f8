"""A look at what an evaluation will ask of a run that is not trained yet; loads no torch."""

from pathlib import Path

from bertc.data.layouts import scored_examples, scored_parts
from bertc.data.sources.opening import open_source
from bertc.evaluation.manner import Manner
from bertc.evaluation.other_text import other_shares, with_objective
from bertc.evaluation.task_lookup import columns_told, names_files, nothing_to_judge_by, task_of
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage


def foreseen(
    resolved: Resolved, manner: Manner, task: str, run: Path
) -> tuple[Stage, tuple[str, ...]]:
    """The stage that ``evaluate_run`` will evaluate once ``run`` is trained, and a task's parts.

    Raises:
        UsageError, SpecError, MissingInputError, DataError: as ``evaluate_run`` would.
    """
    trained = resolved.stages[-1]
    if task or trained.tasks:
        manner.refuse_for_tasks()
    if task or (manner.examples and trained.tasks):
        stage, chosen = task_of(resolved, task)
        parts = scored_parts(chosen, "", names_files(task))
        if not parts:
            raise nothing_to_judge_by(chosen)
        for part in parts.values():
            with columns_told(chosen, with_labels=True):
                scored_examples(chosen, part)
        return stage, (*parts,)
    stage = with_objective(trained, manner.objective, run)[0] if manner.objective else trained
    manner.refuse(stage)
    if manner.data:
        for share in other_shares(resolved, stage, manner.data):
            open_source(share.corpus)
    return stage, ()
