"""Size and drawing time of a page of 300 runs, one of them with 10,000 evaluations.

    python -m tests.bench.report [--runs 300] [--points 10000]

Prints megabytes, seconds to make the page, and seconds from asking for it until a headless chromium
has drawn what is in view, and all of it, beside the processor time of the page's own thread. Run
folders are made up; nothing is trained.
"""

import argparse
import json
import math
import random
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from bertc.api import points
from bertc.commands.options import without_collecting
from bertc.external import row_lengths
from bertc.parents import parent_of
from bertc.report.report import report_page
from bertc.runs.folder import RunFolder

SPEC = (
    "layers=1 hidden=32 heads=2 vocab=100 data=files('none.txt') seq=16 "
    "objective=mlm steps={steps} optimizer=adamw({lr}) batch={batch} seed={seed}"
)
FEW = 200
"""Evaluations of every run but the first."""
LONGEST = 300
"""Seconds that a page may take."""
NOTED = "JSON.stringify(document.documentElement.dataset)"
"""What the page notes of itself."""


def made_up(folder: Path, number: int, evaluations: int) -> None:
    """A run folder with a line of training and one of evaluation at each step."""
    lr, batch, seed = 10.0 ** -(2 + number % 5), 8 << number // 5 % 3, number // 15
    spec = SPEC.format(steps=max(evaluations, FEW), lr=f"{lr:g}", batch=batch, seed=seed)
    (resolved,) = points(spec)
    folder.mkdir(parents=True)
    run, noise = RunFolder(folder), random.Random(number)
    run.start(resolved, spec)
    run.lock.touch()
    lines = []
    for step in range(1, evaluations + 1):
        loss = 3 + 4 * math.exp(-step / evaluations * 5) + noise.gauss(0, 0.1)
        line = {
            "step": step, "stage": "main", "loss": loss, "losses": {"mlm": loss},
            "tokens": 128 * step, "seconds": 0.1 * step * (1 + noise.random() / 10),
        }  # fmt: skip
        lines.append({"kind": "train", **line, "lr": lr, "grad_norm": 1 + noise.random()})
        lines.append({"kind": "eval", **line, "accuracy": {"mlm": 1 / loss}})
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))


class Tab:
    """A page that a browser opens as for a reader.

    Playwright's own pages have its debugger, for which V8 looks up where in plotly's script each
    function stands: half a second that a reader does not wait.
    """

    def __init__(self, browser: Browser) -> None:
        self._session = browser.new_browser_cdp_session()
        self._answers: dict[int, dict[str, Any]] = {}
        self._session.on("Target.receivedMessageFromTarget", self._take)
        context = self._session.send("Target.createBrowserContext")["browserContextId"]
        asked = {"url": "about:blank", "browserContextId": context, "width": 1400, "height": 900}
        self._target = self._session.send("Target.createTarget", asked)["targetId"]
        attached = {"targetId": self._target, "flatten": False}
        self._id = self._session.send("Target.attachToTarget", attached)["sessionId"]

    def _take(self, event: dict[str, Any]) -> None:
        answer = json.loads(event["message"])
        if "id" in answer:
            self._answers[answer["id"]] = answer["result"]

    def send(self, method: str, **params: object) -> dict[str, Any]:
        """Ask the page by the protocol of developer tools."""
        number = len(self._answers) + 1
        message = json.dumps({"id": number, "method": method, "params": params})
        asked = {"sessionId": self._id, "message": message}
        self._session.send("Target.sendMessageToTarget", asked)
        while number not in self._answers:
            self._session.send("Target.getTargetInfo", {"targetId": self._target})
        return self._answers[number]


def drawn(page_file: Path) -> tuple[float, float, float]:
    """Seconds until what is in view is drawn, until all is, and those of the processor."""
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        tab, noted = Tab(browser), dict[str, str]()
        tab.send("Performance.enable", timeDomain="threadTicks")
        tab.send("Page.navigate", url=page_file.as_uri())
        until = time.monotonic() + LONGEST
        while "drawn" not in noted and time.monotonic() < until:
            time.sleep(0.2)
            found = tab.send("Runtime.evaluate", expression=NOTED)
            noted = json.loads(found["result"]["value"])
        spent = {m["name"]: m["value"] for m in tab.send("Performance.getMetrics")["metrics"]}
        browser.close()
    return float(noted["shown"]), float(noted["seconds"]), float(spent["ThreadTime"])


def main() -> None:
    """Make run folders, the page, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--points", type=int, default=10_000)
    asked = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(asked.runs):
            made_up(folder / "runs" / str(number), number, FEW if number else asked.points)
        began, before = time.perf_counter(), time.process_time()
        with without_collecting():  # as the command does
            page = report_page([folder / "runs"], parent_of, row_lengths, examples=0)
        seconds, made = time.perf_counter() - began, time.process_time() - before
        file = folder / "page.html"
        file.write_text(page)
        shown, wall, processor = drawn(file)
    print(f"{asked.runs} runs, {asked.points:,} evaluations of one: {len(page) / 1e6:.2f} MB")
    print(
        f"made in {seconds:.1f} s ({made:.1f} s of the processor); what is in view drawn after "
        f"{shown:.1f} s, all after {wall:.1f} s ({processor:.1f} s of the processor)"
    )


if __name__ == "__main__":
    main()
