"""The wheel a user installs: it has the grammar and the specs, and works far from the checkout."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent


def pip(*arguments: str) -> None:
    """Run pip without network or build isolation."""
    command = [sys.executable, "-m", "pip", *arguments, "--no-deps", "--no-index", "--quiet"]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)


def test_the_wheel_works_far_from_the_checkout(tmp_path):
    pip("wheel", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT))
    (wheel,) = tmp_path.glob("bertc-*.whl")
    site = tmp_path / "site"
    pip("install", "--target", str(site), str(wheel))
    # The folder of the wheel comes first, ahead of an editable install of the checkout.
    run = subprocess.run(
        [sys.executable, "-m", "bertc.cli", "estimate", "bert-tiny", "--json"], check=True,
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(site)},
    )  # fmt: skip
    assert '"encoder": 4385920' in run.stdout
    assert (site / "bertc" / "py.typed").is_file(), "users' type checkers read the types"
    shipped = {path.name for path in (site / "bertc" / "specs").iterdir()}
    assert shipped == {path.name for path in (ROOT / "specs").iterdir()}


def test_torch_is_the_pinned_one():
    pinned = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line
    )
    installed = version("torch").partition("+")[0]
    assert installed == pinned["torch"] or "CI" not in os.environ
