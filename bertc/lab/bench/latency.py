"""``bertc bench --latency``: time a text, of several networks and setups in turns."""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from bertc import Resolved, UsageError
from bertc.lab.bench.answering import Subject, answer_turns
from bertc.lab.bench.cases import Case, Choices, Latencies, NumberFormat, Setup, row_of
from bertc.lab.bench.measure import Worker
from bertc.lab.results.runs import read_run
from bertc.lab_api import RunFolder

MOST_ROUNDS = 200
"""Rounds after which more would not change a median, whatever time is left."""
SMALLER = "fewer networks, threads or precisions at once, or a smaller --batch"
RANDOM_ROWS = (
    "rows are full of random tokens; a text's time is its batch's divided by its texts, without\n"
    "tokenising; of a task its scores, else last hidden states without a head over the vocabulary"
)
IN_TURNS = (
    "ms a text: median of {fewest} to {most} runs, in turns; p95: that of the slowest 5% begin"
)


def of_folder(folder: Path) -> Subject:
    """The network of a run, or of an imported model."""
    from bertc import load  # its weights may say less than its spec: some were pruned

    return Subject(str(folder), load(folder).resolved, folder, {})


def of_spec(resolved: Resolved, written: str = "spec") -> Subject:
    """The network of a spec, with random weights; one without a name has its text for one."""
    return Subject(written if resolved.name == "spec" else resolved.name, resolved, None, {})


def latencies(subjects: Sequence[Subject], choices: Choices, *, seconds: float) -> Latencies:
    """A row a case, measured for ``seconds`` in all."""
    by_name = {subject.name: subject for subject in subjects}
    if len(by_name) < len(subjects):
        raise UsageError("two networks have one name", help="name each run or spec once")
    for subject in subjects:
        _refuse_longer(subject, choices)
    times = measure(subjects, choices, seconds)
    counts = [*map(len, times.values())]
    notes = [RANDOM_ROWS, IN_TURNS.format(fewest=min(counts), most=max(counts))]
    runs = {s.name: s.folder for s in subjects if s.folder and RunFolder(s.folder).holds_a_run}
    scores = {name: read_run(folder).score for name, folder in runs.items()}
    if fresh := [subject.name for subject in subjects if subject.folder is None]:
        notes.append(f"random weights: {', '.join(fresh)}")
    rows = []
    for case, seconds_of_runs in times.items():
        score = None if case.setup.precision == "int8" else scores.get(case.setup.name)
        rows.append(row_of(case, seconds_of_runs, score))
    return Latencies(rows, tuple(notes))


def _refuse_longer(subject: Subject, choices: Choices) -> None:
    room = subject.resolved.encoder.room
    longest = max(choices.lengths)
    if room is not None and longest > room:
        fitting = [length for length in choices.lengths if length <= room] or [room]
        raise UsageError(
            f"{subject.name} reads rows of at most {room:,} tokens, not {longest:,}",
            help=f"--length {','.join(map(str, fitting))}",
        )


def measure(
    subjects: Sequence[Subject], choices: Choices, seconds: float
) -> dict[Case, list[float]]:
    """The seconds of every run of every case.

    All cases take a turn in every round, one after the other; rounds end before ``seconds`` of them
    are over, after at least one and at most ``MOST_ROUNDS``.
    """
    say = partial(print, file=sys.stderr, flush=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if "onnx" in choices.runtimes:
            subjects = [
                _with_graphs(subject, folder / str(number), choices.precisions, say)
                for number, subject in enumerate(subjects)
            ]
        by_name = {subject.name: subject for subject in subjects}
        times = {case: list[float]() for case in choices.cases(list(by_name))}
        sizes = dict.fromkeys(case[1:] for case in times)
        running = {}
        for setup in dict.fromkeys(case.setup for case in times):
            say(f"loading {_title(setup)}")
            running[setup] = Worker(
                stack, answer_turns, by_name[setup.name], setup, tuple(sizes),
                title=_title(setup), help=SMALLER,
            )  # fmt: skip
        started = time.perf_counter()
        say(f"timing {len(times)} cases for {seconds:g} s at most")
        for done in range(1, MOST_ROUNDS + 1):
            for case in times:
                times[case] += running[case.setup].ask(case[1:])
            if (time.perf_counter() - started) * (done + 1) / done > seconds:
                break
        return times


def _title(setup: Setup) -> str:
    threads = f"{setup.threads} thread{'s' * (setup.threads > 1)}"
    return f"{setup.name}, {setup.runtime} {setup.precision}, {threads}"


def _with_graphs(
    subject: Subject, folder: Path, precisions: Sequence[NumberFormat], say: Callable[[str], None]
) -> Subject:
    """The subject with ONNX files of its network, in a folder that is there for a while."""
    from bertc import build, load
    from bertc.lab.onnx.tracing import quantise, to_onnx
    from bertc.lab_api import graph_of

    say(f"tracing {subject.name}")
    model = build(subject.resolved) if subject.folder is None else load(subject.folder)
    graph = graph_of(model, heads=False)
    graph.refuse_unsayable()
    contents = {"fp32": to_onnx(graph)}
    if "int8" in precisions:
        contents["int8"] = quantise(contents["fp32"])
    folder.mkdir()
    graphs = {name: folder / f"{name}.onnx" for name in contents}
    for name, path in graphs.items():
        path.write_bytes(contents[name])
    return replace(subject, graphs=graphs)
