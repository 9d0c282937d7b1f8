"""The notebooks of docs/notebooks, run from top to bottom at the toy sizes that they have.

    python -m tests.campaigns.notebooks [NAME ...]

Each runs in a kernel and a folder of its own; prints its seconds. Exits 1 with the error of a cell
that fails. The notebooks themselves keep no output and are not written.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
SECONDS = 240
"""Of one cell, at most."""


def run(path: Path) -> float:
    """Run a notebook; return its seconds.

    Raises:
        CellExecutionError: if a cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        where = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=where).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("text/html" in output.get("data", {}) for output in outputs), f"{path}: no table"
    return time.monotonic() - started


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = str(ROOT)
    for path in sorted(ROOT.glob("docs/notebooks/*.ipynb")):
        if path.stem in (sys.argv[1:] or path.stem):
            print(f"{path.stem}: {run(path):.0f} s", flush=True)
