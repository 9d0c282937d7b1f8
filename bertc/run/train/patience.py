"""``patience``: early stopping of a fine-tuning stage, with its best weights."""

from bertc.ir.program.stage import Stage
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.records.metrics import Ended
from bertc.run.records.results import mean_score
from bertc.run.train.session import Session
from bertc.run.train.state import Best


def update_patience(session: Session, stage: Stage, evaluation: Evaluation) -> None:
    """Keep the weights of the best evaluation, and end the stage with them after enough others."""
    progress, end = session.progress, stage.first_step + stage.steps
    score = session.ranks.share(mean_score(stage, evaluation.scores))
    if progress.best is None or score > progress.best.score:
        progress.best = Best(progress.step, score, evaluation.fields())
        session.best = {name: tensor.clone() for name, tensor in session.weights().items()}
    else:
        progress.best.waited += 1
    best, ended = progress.best, progress.step
    if ended < end and best.waited < stage.patience:
        return
    # Steps that are skipped count as made: the next stage begins at its usual step.
    progress.best, progress.step, progress.evaluated = None, end, end
    if best.step == ended:
        session.best = {}
        return
    session.restore_best()
    ended_at = Ended(step=best.step, ended=ended, end=end)
    session.write(stage, "eval", {**best.shown, "best": ended_at})
    session.display.note(describe(ended_at))


def describe(end: Ended) -> str:
    """A line on the end of a stage with patience."""
    early = "stopped early at" if end["ended"] < end["end"] else "ended at"
    return f"{early} step {end['ended']:,} of {end['end']:,}: best at step {end['step']:,}"
