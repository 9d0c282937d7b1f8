"""The first hour on a GPU: what is right, what agrees, how fast, and what it costs.

    python -m tests.bench.gpu [--part truth|agreement|speed|memory]
        [--device cuda|cpu] [--out FOLDER] [--tiny]

Without --part all of them run in this order, each in a process of its own; where a check of truth
or agreement fails, the others are not begun. A part ends after ten minutes at the latest. Every
measurement is written to FOLDER/PART.json before the next begins, so what was found before a part
broke off stays. At the end: a table, FOLDER/table.md, with the ``--device`` of this one for
``bertc estimate``. docs/measured.md says what each shows. --tiny: a test of the bench, on toys.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import torch

from tests.bench.gpu import agreement, memory, speed, truth
from tests.bench.gpu.setting import CUT, Results, Setting, read, table, untrue
from tests.campaigns.options import read_options

PARTS: dict[str, Callable[[Setting, Results], None]] = {
    module.__name__.rpartition(".")[2]: module.run for module in (truth, agreement, speed, memory)
}
CHECKS = ("truth", "agreement")
LIMIT_SECONDS = 570.0
UNTRUE = 1


def main() -> int:
    """Run what was asked for; 0 if nothing was found wrong."""
    usual = {"device": ("cuda", "cpu"), "out": Path("gpu-results"), "tiny": False}
    asked = read_options(__doc__, part=("", *PARTS), **usual)
    if asked.device == "cuda" and not torch.cuda.is_available():
        print("torch sees no cuda here; --device cpu --tiny tries the bench", file=sys.stderr)
        return 2
    if asked.part:
        return one_part(asked.part, Setting(torch.device(asked.device), asked.tiny), asked.out)
    wrong: list[str] = []
    for part in PARTS:
        if wrong:
            print(f"{part}: not begun, since something is wrong")
            continue
        command = [sys.executable, "-m", "tests.bench.gpu", "--part", part]
        command += ["--device", asked.device, "--out", str(asked.out), *["--tiny"] * asked.tiny]
        print(f"== {part}", flush=True)
        code = subprocess.run(command, check=False).returncode
        found = read(asked.out, part)
        wrong += untrue(found) if part in CHECKS else []
        if part in CHECKS and code and not wrong:
            wrong.append(f"{part} ended with code {code}")
    text = table(asked.out, tuple(PARTS))
    (asked.out / "table.md").write_text(text + "\n")
    print(text)
    if wrong:
        print(f"wrong: {', '.join(wrong)}")
    return UNTRUE if wrong else 0


def one_part(part: str, setting: Setting, folder: Path) -> int:
    """One part in this process, which ends when its time is over."""
    results = Results(part, folder)

    def end() -> None:
        results.put(CUT, seconds=LIMIT_SECONDS)
        os._exit(75)

    clock = threading.Timer(LIMIT_SECONDS, end)
    clock.daemon = True
    clock.start()
    try:
        PARTS[part](setting, results)
    finally:
        clock.cancel()
    return UNTRUE if part in CHECKS and untrue(results.found) else 0


if __name__ == "__main__":
    sys.exit(main())
