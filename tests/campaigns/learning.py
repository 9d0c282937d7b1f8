"""Learning experiments: what an idea is worth, as specs that are trained side by side.

    OMP_NUM_THREADS=1 nice python -m tests.campaigns.learning --data DATA --encoder MODEL --out OUT
    python -m tests.campaigns.learning --data DATA --encoder MODEL --out OUT --only students-sst2
    python -m tests.campaigns.learning --out OUT --only arrangements
    python -m tests.campaigns.learning --out OUT --table            (Markdown tables so far)

DATA has glue/SST-2, glue/MRPC, glue/RTE and glove/*.txt.gz, MODEL is the Hugging Face folder of a
BERT; what begins from nothing needs neither. Each arm of a question is a spec that ``bertc train``
trains with three seeds; what came out is kept in OUT/QUESTION/ARM.json, and its run folders only
where others need them. A campaign that was killed goes on by the same command: arms with a file
are done, and of an unfinished one the finished seeds. ``docs/small.md`` has the answers of one on
small models, which ``tests.campaigns.answers`` takes from OUT, ``docs/arrangements.md`` those on
today's encoders.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertc import api
from tests.campaigns import answers, modern_questions, small_questions
from tests.campaigns.question import Arm, Question


def bertc(*words: str) -> str:
    """Run a command and return what it printed.

    Raises:
        subprocess.CalledProcessError: if it failed.
    """
    command = [sys.executable, "-m", "bertc.cli", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def processor_seconds() -> float:
    """Seconds that finished commands have spent."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def with_steps(arm: Arm, flops: float) -> Arm:
    """An arm that trains for so many FLOPs, to the nearest step."""
    counted = api.estimate(f"{arm.spec} steps=1000").flops.train_per_step
    return replace(arm, spec=f"{arm.spec} steps={round(flops / counted)}")


def train(arm: Arm, seeds: tuple[int, ...], folder: Path, to: Path) -> None:
    """Train an arm with each seed and write down its scores."""
    begun = processor_seconds()
    listed = ", ".join(map(str, seeds))
    seed = f"seed={{{listed}}}" if len(seeds) > 1 else f"seed={listed}"
    resume = ("--resume",) if folder.exists() else ()
    bertc("train", f"{arm.spec} {seed}", "--out", str(folder), *resume)
    (group,) = json.loads(bertc("runs", "--results", str(folder), "--json"))["groups"]
    seconds = round(processor_seconds() - begun, 1)
    write(to, {"spec": arm.spec, "processor_seconds": seconds, "runs": group["runs"]})
    if not arm.kept:
        shutil.rmtree(folder)


def measure(question: Question, to: Path) -> None:
    """Time the runs of a question side by side."""
    if not to.exists():
        write(to, json.loads(bertc("bench", "--latency", *question.timed, "--json")))


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1), encoding="utf-8")
    os.replace(part, path)


def ask(question: Question, out: Path) -> list[str]:
    """Train every arm without a result; the names of those that failed."""
    failed = []
    for arm in question.arms:
        to = out / question.name / f"{arm.name}.json"
        if to.exists():
            continue
        print(f"{question.name}: {arm.name}", flush=True)
        try:
            planned = with_steps(arm, question.flops) if question.flops else arm
            train(planned, question.seeds, out / "runs" / question.name / arm.name, to)
        except subprocess.CalledProcessError as error:
            failed.append(f"{question.name}/{arm.name}: exit code {error.returncode}")
            print(failed[-1], flush=True)
    if question.timed and not failed:
        measure(question, out / question.name / "latency.json")
    return failed


def tables(out: Path, questions: tuple[Question, ...]) -> str:
    """A Markdown table of each question that has answers, and the latencies beside them."""
    lines = []
    answered = answers.gathered(out, questions)
    for question in (question for question in questions if question.name in answered):
        found = answered[question.name]
        lines += [f"## {question.asks}", "", f"`--only {question.name}`", ""]
        lines += [*answers.table(found), ""]
        if answers.TIMED in found:
            lines += [f"milliseconds a text: {found[answers.TIMED]}", ""]
    return "\n".join(lines)


def main() -> int:
    """Ask the questions in order, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--encoder", type=Path, default=Path("encoder"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--table", action="store_true", help="train nothing")
    options = parser.parse_args()
    places = small_questions.Places(options.data, options.encoder, options.out / "runs")
    questions = (*small_questions.questions(places), *modern_questions.questions())
    chosen = [each for each in questions if each.name in options.only or not options.only]
    failed = [] if options.table else [line for each in chosen for line in ask(each, options.out)]
    print(tables(options.out, questions))
    print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
