"""What the run folders of ``old_runs/`` still do: go on, be evaluated, be exported.

They were written at commit 2c76b38, in ``farm/``, by two runs that were stopped after their third
step, and are never written again: code that comes later reads them as they are. ``electra`` has a
generator and grew from one layer to two before it was stopped; ``task`` is fine-tuned on GLUE's
RTE. Of ``lock.json`` the name of the processor was left out.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.models.runs import export_run
from bertc.run.records.folder import RunFolder
from bertc.run.train.loop import train
from tests.net import steps

OLD_RUNS = Path(__file__).parent / "old_runs"
NAMES = ("electra", "task")


def used(name: str, folder: Path) -> dict[str, Any]:
    """Go on with a copy of a run, and evaluate and export it before and after that."""
    run, cache = folder / name, folder / "cache"
    shutil.copytree(OLD_RUNS / name, run)
    before = _used(run, cache, folder / f"{name} before")
    train(RunFolder(run).read_resolved(), run, resume=True, cache=cache, quiet=True)
    return {
        "fingerprint": RunFolder(run).read_resolved().fingerprint(),
        "before": before,
        "metrics": steps.metrics(run),
        "after": _used(run, cache, folder / f"{name} after"),
    }


def _used(run: Path, cache: Path, exported: Path) -> dict[str, Any]:
    evaluated = evaluate_run(run, cache=cache, quiet=True).evaluation
    assert evaluated is not None
    written = export_run(run, exported)
    return {
        "losses": dict(evaluated.losses),
        "class": written.architecture,
        "config": json.loads((exported / "config.json").read_text()),
        "weights": {
            str(file.relative_to(exported)): steps.weights(file)
            for file in sorted(exported.rglob("*.safetensors"))
        },
    }
