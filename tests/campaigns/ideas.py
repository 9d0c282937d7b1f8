"""Values of every axis of a program, as settings beside those of one tiny network.
Paths are those of ``tests/net/farm`` and of a run folder beside it, ``bert``, of the base alone.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.kinds import UNIONS
from tests.net.programs import TOY

BASE = {**TOY, "layers": "4"}


def _axes() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Axes of ``ideas.txt``, where ``<gate>`` stands for every kind of gate."""
    for part in Path(__file__).with_suffix(".txt").read_text().split("\n\n"):
        axis, *values = part.splitlines()
        for union in ("gate", "residual"):
            others = sorted(UNIONS[union] - {"none", "plain", "elc", "own"})
            pairs = [(v, others if f"<{union}>" in v else [""]) for v in values]
            values = [v.replace(f"<{union}>", kind) for v, kinds in pairs for kind in kinds]
        yield axis, tuple(values)


AXES = dict(_axes())
"""A text for each value: settings, those that are empty taken away, and stages behind them."""


def written(*values: str) -> str:
    """The base with the settings of some values; the last one counts of those written twice."""
    settings, blocks = dict(BASE), ""
    for value in values:
        own, _, stages = value.partition(" stage ")
        settings |= dict(setting.split("=", 1) for setting in re.split(r" (?=\w+=)", own))
        blocks += f" stage {stages}" if stages else ""
    return " ".join(f"{name}={value}" for name, value in settings.items() if value) + blocks
