"""The forecast that a run folder had before its first step, next to what came out."""

import json
from collections.abc import Sequence
from hashlib import sha256

from bertc import DataError
from bertc.lab.report.markup import remark
from bertc.lab.report.page import Part
from bertc.lab.results.curves import Curves
from bertc.lab.search.goal import LOSS, goal_of
from bertc.lab_api import Expected, RunFolder, Table

SEALED = "Sealed: its digest was noted at the first step."
UNSEALED = "Not sealed: the file is another than at the first step, or came later."


def forecast_section(folder: RunFolder, curves: Curves) -> Sequence[Part]:
    """A table of the expected loss and the last one; nothing without a forecast."""
    if not folder.forecast.is_file():
        return ()
    text = folder.forecast.read_bytes()
    try:
        facts = json.loads(text)
        numbers = {name: float(number) for name, number in facts["expected"].items()}
        expected, of_program = Expected(**numbers), facts["fingerprint"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{folder.forecast} is no forecast") from error
    resolved = folder.read_resolved()
    losses = goal_of(LOSS, resolved).values(curves)
    came = f"{losses[-1]:.3f}" if losses else ""
    away = f"{losses[-1] / expected.loss - 1:+.1%}" if losses else ""
    attempts = folder.read_attempts()
    sealed = bool(attempts) and attempts[0].forecast == sha256(text).hexdigest()
    another = " It is of another program." if of_program != resolved.fingerprint() else ""
    return (
        Table(("", "expected", "came out", "difference"), [("loss", str(expected), came, away)]),
        remark(f"{SEALED if sealed else UNSEALED}{another}"),
    )
