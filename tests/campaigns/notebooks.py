"""The notebooks of docs/notebooks, run from top to bottom at the toy sizes that they have.

    python -m tests.campaigns.notebooks [NAME ...]

Each runs in a kernel and a folder of its own; prints its seconds. Exits 1 with the error of a cell
that fails. The notebooks themselves keep no output and are not written.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "docs" / "notebooks"
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
    shown = [each for cell in notebook.cells for each in cell.get("outputs", [])]
    assert any("text/html" in each.get("data", {}) for each in shown), f"{path}: no table"
    return time.monotonic() - started


def main() -> None:
    """Run the notebooks named, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    names = parser.parse_args().names
    os.environ["PYTHONPATH"] = str(ROOT)
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if not names or path.stem in names:
            print(f"{path.stem}: {run(path):.0f} s", flush=True)


if __name__ == "__main__":
    main()
