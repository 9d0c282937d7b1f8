"""The network of ``init``, held against the one that begins with it."""

from pathlib import Path

from bertc.base.storage.paths import is_folder
from bertc.check.facts.networks import program_of
from bertc.hub.folders import checkpoint_of
from bertc.ir.changing.growth import TEACHER, FromOther, FromRun
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved
from bertc.ir.weight_maps import begins_as, fit, refusal


def begun_from(resolved: Resolved) -> None:
    """Compare the network of ``init`` with the one to start from it, by shapes only.

    Raises:
        MissingInputError: if a run there has no checkpoint of the step that ``init`` names.
        DataError: if its weights would not fit.
    """
    init = resolved.run.init
    if not isinstance(init, FromOther) or init.path == TEACHER:
        return
    old = program_of(Path(init.path))
    if old is None:
        return
    if isinstance(init, FromRun) and is_folder(Path(init.path) / "checkpoints"):
        checkpoint_of(Path(init.path), init.step)
    new = resolved.as_in(resolved.stages[0])
    # Which heads are there, and whether there is a pooler, only its weights say.
    names = (weight.name for weight in model_weights(old))
    body = [n for n in names if n.startswith("encoder.") and not n.startswith("encoder.pooler.")]
    _, mismatches = fit(old, body, new, begins_as(resolved))
    if mismatches:
        raise refusal(Path(init.path), mismatches, old, new)
