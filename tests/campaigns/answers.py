"""What came out of the learning campaign on small models: kept, and shown in docs/small.md.

    python -m tests.campaigns.answers --gather OUT   (what ``tests.campaigns.learning`` wrote there)
    python -m tests.campaigns.answers                (tables and picture of the page, from the kept)

``results/small.json`` has the scores of each arm, one a seed, by question, and latencies. A table
of the page stands below the heading that asks its question; the text between them is written by
hand.
"""

import argparse
import json
import re
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.campaigns.question import Question
from tests.campaigns.small_questions import Places, questions

DOCS = Path(__file__).parents[2] / "docs"
PAGE, PICTURE = DOCS / "small.md", DOCS / "small-pruning.png"
ASKED = questions(Places(Path("data"), Path("encoder"), Path("runs")))
KEPT = Path(__file__).parent / "results" / "small.json"
HEAD = "| arm | median | spread | each seed | beside the first | processor seconds |"
TIMED = "latency"
MASKED = ("mlm_masked", "mlm")
"""Losses of masked tokens: of masked positions; in older answers of all predicted ones."""

Answer = dict[str, Any]
"""Scores and seconds of an arm."""
Answers = dict[str, dict[str, Answer]]
"""By question and arm."""


def gathered(out: Path, asked: Sequence[Question]) -> Answers:
    """The answers in the folder of a campaign."""
    found: Answers = {}
    for question in asked:
        paths = {arm.name: out / question.name / f"{arm.name}.json" for arm in question.arms}
        of_question = {name: _answer(path) for name, path in paths.items() if path.exists()}
        timed = out / question.name / f"{TIMED}.json"
        if timed.exists():
            of_question[TIMED] = _latencies(timed, out)
        if of_question:
            found[question.name] = of_question
    return found


def _answer(path: Path) -> Answer:
    """The last scores of an arm, one a seed: held-out loss of masked tokens, or a task's metric."""
    read = json.loads(path.read_text(encoding="utf-8"))
    each = [run["last"]["values"] for run in read["runs"]]
    masked = [[value for value in seen if value.get("loss") in MASKED] for seen in each]
    scores = [round((own or seen)[0]["value"], 8) for own, seen in zip(masked, each, strict=True)]
    return {"scores": scores, "processor_seconds": round(read["processor_seconds"])}


def _latencies(path: Path, out: Path) -> Answer:
    """Milliseconds a text of each run that was timed, with one thread."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {
        str(Path(row["name"]).relative_to(out / "runs")): round(1000 * row["seconds_per_text"], 1)
        for row in rows
        if row["threads"] == 1
    }


def table(answers: dict[str, Answer]) -> list[str]:
    """A Markdown table of the answers to a question, a row an arm."""
    rows = {name: answer for name, answer in answers.items() if name != TIMED}
    first = next(iter(rows.values()))
    return [HEAD, "|---" * 6 + "|", *(_row(name, each, first) for name, each in rows.items())]


def _row(name: str, answer: Answer, first: Answer) -> str:
    """The line of an arm: median, spread, and what it differs from the first arm by."""
    seen, before = answer["scores"], first["scores"]
    median, spread = statistics.median(seen), max(seen) - min(seen)
    apart = median - statistics.median(before)
    beyond = round(abs(apart) - max(spread, max(before) - min(before)), 6) > 0
    told = f"{apart:+.4f}" + (", beyond the spread" if beyond else "")
    each = " ".join(f"{value:.4f}" for value in seen)
    title, seconds = name.replace("-", " "), answer["processor_seconds"]
    apart_by = f"{spread:.4f}" if len(seen) > 1 else "one seed"
    beside = "" if answer is first else f" {told}"
    return f"| {title} | {median:.4f} | {apart_by} | {each} |{beside} | {seconds} |"


def with_tables(page: str, answers: Answers) -> str:
    """The page with today's tables; questions that it does not ask yet come last."""
    for question in ASKED:
        if question.name not in answers:
            continue
        heading, lines = f"### {question.asks}\n", table(answers[question.name])
        if heading not in page:
            page = f"{page.rstrip()}\n\n{heading}\n{HEAD}\n"
        before, after = page.split(heading)
        new = re.sub(r"(^\|.*\n)+", "\n".join(lines) + "\n", after, count=1, flags=re.MULTILINE)
        page = before + heading + new
    return page


def draw(answers: Answers, path: Path) -> None:
    """Draw scores against the shares of heads and neurons removed, a line for each way to choose.

    A bar reaches from the worst to the best seed.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained", dpi=90)
    figure.supylabel("accuracy on SST-2")
    whole = statistics.median(answers["heads"]["nothing"]["scores"])
    for axes, part in zip(figure.subplots(1, 2, sharey=True), ("heads", "neurons"), strict=True):
        lines: dict[str, list[tuple[int, Sequence[float]]]] = {}
        for name, answer in answers[part].items():
            by, _, share = name.rpartition("-")
            if by:
                lines.setdefault(by, []).append((int(share), answer["scores"]))
        for number, (by, points) in enumerate(lines.items()):
            medians = [statistics.median(scores) for _, scores in points]
            below = [median - min(s) for median, (_, s) in zip(medians, points, strict=True)]
            above = [max(s) - median for median, (_, s) in zip(medians, points, strict=True)]
            shares = [share + number - 1 for share, _ in points]  # bars stand side by side
            axes.errorbar(shares, medians, [below, above], fmt="o-", capsize=3, label=by)
        axes.axhline(whole, color="grey", linestyle=":", label="nothing removed")
        axes.set_xlabel(f"% of {part} removed")
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, metadata={"Software": None})


def main() -> int:
    """Gather answers, or write the page's tables and picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gather", type=Path, metavar="OUT", help="first keep the answers in OUT")
    out = parser.parse_args().gather
    answers = json.loads(KEPT.read_text(encoding="utf-8"))
    if out:  # Questions that were not asked there keep their answers.
        answers |= gathered(out, ASKED)
        KEPT.write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")
    page = with_tables(PAGE.read_text(encoding="utf-8"), answers)
    PAGE.write_text(page, encoding="utf-8")
    draw(answers, PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
