"""Pages of every kind of run in a browser, at two widths and in two themes, with screenshots.

    OMP_NUM_THREADS=1 nice python -m tests.campaigns.pages --out OUT [--only NAME ...]

Makes toy runs of every kind (those that OUT has stay): stages with a resume, a fine-tuning grid
with seeds, a pruning grid, a distillation, a search, two runs beside each other, attention over a
text. Writes their pages, opens each in a headless chromium at 1,400 and 420 px, light and dark, and
holds that nothing is said on the console, every picture is drawn, nothing scrolls sideways, no
control is beyond the edge, and a page that is printed at once has all its pictures. Prints a table,
leaves screenshots of sections in OUT/shots to be looked at, and ends with 1 if anything is wrong.
"""

import argparse
import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from bertc.api import points
from bertc.choosing.sweeping import sweep
from bertc.diagnostics import StoppedError
from bertc.external import row_lengths
from bertc.parents import parent_of
from bertc.report.report import attention_page, report_page
from bertc.train import loop
from bertc.train.grid import train_grid
from bertc.train.loop import train

WORDS = ("hens", "ducks", "geese", "cackle", "quack", "in", "on", "the", "old", "red", "barn", "or")
KINDS = {"hens": "cackle", "ducks": "quack", "geese": "hiss"}
WIDTHS = {1400: 900, 420: 800}
THEMES = ("light", "dark")
MADE_FOR = "device=cpu compile=off precision=fp32 log_every=2"
TOY = (
    f"layers=2 hidden=32 heads=2 ffn=64 vocab=wordpiece(120) data=files('farm.txt') holdout=10% "
    f"batch=8 seq=24 {MADE_FOR} "
)
TASK = f"task=classify('farm.tsv', 'dev.tsv', text=text, label=kind) batch=8 {MADE_FOR} "
WRONG = """() => {
  const wide = document.documentElement.scrollWidth > innerWidth;
  const beyond = [...document.querySelectorAll("input, select, nav a")]
    .filter((each) => !each.closest("nav") && each.getBoundingClientRect().right > innerWidth);
  const plots = [...document.querySelectorAll(".plot")];
  const empty = plots.filter((plot) => !plot.querySelector(".main-svg"));
  const blank = plots.filter((plot) => !plot.querySelector(
    ".trace, .point, .points path, .heatmaplayer image, .lines path, .bars path"));
  return { "scrolls sideways": wide, "control beyond the edge": beyond.length,
           "not drawn": empty.length, "without marks": blank.length,
           "parts that cannot be shown": document.querySelectorAll("section .why").length };
}"""  # fmt: skip


def material() -> None:
    """Write sentences and labelled examples into the current folder."""
    draw = random.Random(7)
    sentences = [" ".join(draw.choices(WORDS, k=draw.randint(5, 12))) + "." for _ in range(300)]
    Path("farm.txt").write_text("\n".join(s + "\n" * (n % 6 == 5) for n, s in enumerate(sentences)))
    for name, count in (("farm.tsv", 120), ("dev.tsv", 40)):
        rows = (
            f"the old {bird} {KINDS[bird]} in the {draw.choice(WORDS)} barn\t{bird}"
            for bird in draw.choices(list(KINDS), k=count)
        )
        Path(name).write_text("text\tkind\n" + "\n".join(rows) + "\n")


def grid(name: str, spec: str) -> None:
    """Train each point of a spec."""
    for report in train_grid(
        points(spec), Path(name), spec_text=spec, resume=False, dry_run=False, profile=None,
        say=lambda text: None,
    ):  # fmt: skip
        if isinstance(report, BaseException):
            raise report


def stages() -> None:
    """Pretrain in two stages, stopped in the second and gone on with; the first steps profiled."""
    spec = (
        f"extends bert-tiny {TOY} objective=mlm+sop eval_every=6 "
        "stage 'short' { seq=16 steps=24 } stage 'long' { steps=24 }"
    )
    step = loop._step

    def stop(session: Any, *others: Any) -> Any:
        if session.progress.step == 33:
            session.ranks.stop.agree(15)
        return step(session, *others)

    (resolved,) = points(spec)
    loop._step = stop
    try:
        train(resolved, Path("stages"), spec_text=spec, quiet=True, profile=Path("profiles"))
    except StoppedError:
        pass
    finally:
        loop._step = step
    train(resolved, Path("stages"), spec_text=spec, quiet=True, resume=True)


def tuned() -> None:
    """A grid of two settings and two seeds on a task."""
    spec = f"init='stages' {TASK} steps=20 eval_every=10"
    grid("tuned", f"{spec} optimizer=adamw({{1e-4, 1e-3, 5e-3}}) seq={{16, 24}} seed={{1, 2}}")


def pruned() -> None:
    """A grid of shares of heads that are removed."""
    first = next(path for path in sorted(Path("tuned").iterdir()) if path.is_dir())
    grid(
        "pruned",
        f"init='{first}' {TASK} stage 'prune' {{ prune=heads({{25%, 50%}}) steps=12 }} "
        "stage 'again' { steps=6 } eval_every=6",
    )


def distilled() -> None:
    """A student of one layer, taught by the run with stages."""
    spec = (
        f"layers=1 hidden=16 heads=2 ffn=32 data=files('farm.txt') holdout=10% batch=8 seq=24 "
        f"teacher='stages' objective=2*kd(logits, T=2)+mlm steps=20 eval_every=10 {MADE_FOR}"
    )
    (resolved,) = points(spec)
    train(resolved, Path("distilled"), spec_text=spec, quiet=True)


def searched() -> None:
    """A search over a rate, a width and a list, with trials stopped early."""
    spec = TOY.replace("layers=2", "layers={1..2}")
    spec += "objective=mlm steps=16 eval_every=4 optimizer=adamw({1e-4..3e-2:log}) dropout={0, 0.1}"
    out = Path("searched")
    sweep(spec, (), "mlm", 10, out, None, "halving", lambda text: None)


def beside() -> None:
    """Two runs that differ in one setting."""
    grid("beside", f"{TOY} objective=mlm steps=20 eval_every=5 optimizer=adamw({{1e-4, 1e-3}})")


RUNS: dict[str, Callable[[], None]] = {
    "stages": stages, "tuned": tuned, "pruned": pruned, "distilled": distilled,
    "searched": searched, "beside": beside,
}  # fmt: skip


def write_pages(only: list[str]) -> dict[str, Path]:
    """Make the runs that are missing, and the pages asked for, in the current folder."""
    if not Path("farm.txt").exists():  # text that was written anew is prepared anew
        material()
    pages = {}
    for name, make in RUNS.items():
        if not Path(name).exists():
            make()
        if not only or name in only:
            pages[name] = Path(f"{name}.html")
            pages[name].write_text(report_page([Path(name)], parent_of, row_lengths, examples=4))
    if not only or "attention" in only:
        text = "the old hens cackle in the red barn ."
        pages["attention"] = Path("attention.html")
        pages["attention"].write_text(attention_page(Path("stages"), text, ""))
    return {name: path.absolute() for name, path in pages.items()}


def looked_at(browser: Any, name: str, file: Path, width: int, theme: str) -> list[str]:
    """Open a page, write its screenshot, and tell what is wrong with it."""
    page = browser.new_page(
        viewport={"width": width, "height": WIDTHS[width]},
        color_scheme=theme,
        device_scale_factor=1,
    )
    said: list[str] = []
    page.on("console", lambda line: said.append(f"console: {line.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-drawn]", state="attached", timeout=120_000)
    for number, part in enumerate(page.locator("section").all(), 1):
        part.screenshot(path=f"shots/{name}-{width}-{theme}-{number}.png")
    for part in page.locator("details").all():
        part.locator("summary").first.click()
    said += [f"{what}: {count}" for what, count in page.evaluate(WRONG).items() if count]
    page.close()
    return said


def printed(browser: Any, file: Path) -> list[str]:
    """Print a page while it is drawn, and tell how many of its pictures are missing."""
    page = browser.new_page()
    page.goto(file.as_uri(), wait_until="commit")
    page.wait_for_selector(".plot .main-svg, html[data-drawn]", state="attached", timeout=120_000)
    size = len(page.pdf())
    missing = page.evaluate(WRONG)["not drawn"]
    page.close()
    return [f"printed: {missing} pictures missing"] * bool(missing) + ["empty print"] * (
        size < 9000
    )


def main() -> None:
    """Make runs and pages, look at them, and print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[], choices=[*RUNS, "attention"])
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    os.chdir(asked.out)
    os.environ["BERTC_CACHE"] = str(Path("cache").absolute())
    Path("shots").mkdir(exist_ok=True)
    began, wrong = time.perf_counter(), 0
    pages = write_pages(asked.only)
    print(f"pages made in {time.perf_counter() - began:.0f} s")
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, file in pages.items():
            for width in WIDTHS:
                for theme in THEMES:
                    said = looked_at(browser, name, file, width, theme)
                    wrong += len(said)
                    print(f"{name:10} {width:5} {theme:5} {'; '.join(said) or 'as it should be'}")
            said = printed(browser, file)
            wrong += len(said)
            print(f"{name:10} printed     {'; '.join(said) or 'as it should be'}", flush=True)
        browser.close()
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
