"""``bertc bench --latency``: time a text, of several networks and setups in turns."""

import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertc import MachineError
from bertc.lab.bench.answering import Subject, answer_turns
from bertc.lab.latency.cases import Case, Choices, NumberFormat, Setup, Shape
from bertc.lab.latency.table import Figures

MOST_ROUNDS = 200
"""Rounds after which more would not change a median, whatever time is left."""
SLOWEST = 0.95
"""The share of runs that are quicker than the slow one that the table names."""


def measure(
    subjects: Sequence[Subject], choices: Choices, seconds: float, *, quiet: bool = False
) -> dict[Case, Figures]:
    """Figures of every case.

    All cases take a turn in every round, one after the other; rounds end before ``seconds`` of them
    are over, after at least one and at most ``MOST_ROUNDS``.

    Raises:
        MissingInputError: if a package is not installed.
        DataError: if ONNX cannot say a network.
        MachineError: if a process was killed, as happens when memory runs out.
    """
    say = _quiet if quiet else _say
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if "onnx" in choices.runtimes:
            subjects = [
                _with_graphs(subject, folder / str(number), choices.precisions, say)
                for number, subject in enumerate(subjects)
            ]
        by_name = {subject.name: subject for subject in subjects}
        running = {}
        for setup in choices.setups(list(by_name)):
            say(f"loading {_title(setup)}")
            subject = by_name[setup.name]
            running[setup] = stack.enter_context(_opened(subject, setup, choices.shapes))
        cases = choices.cases(list(by_name))
        times = _rounds(cases, running, seconds, say)
        return {case: _figures(times[case]) for case in cases}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _quiet(line: str) -> None:
    """Print nothing."""


def _title(setup: Setup) -> str:
    threads = f"{setup.threads} thread{'s' * (setup.threads > 1)}"
    return f"{setup.name}, {setup.runtime} {setup.precision}, {threads}"


def _with_graphs(
    subject: Subject, folder: Path, precisions: Sequence[NumberFormat], say: Callable[[str], None]
) -> Subject:
    """The subject with ONNX files of its network, in a folder that is there for a while."""
    from bertc import build, graph_of, load
    from bertc.lab.onnx.tracing import quantised, to_onnx

    say(f"tracing {subject.name}")
    model = build(subject.resolved) if subject.folder is None else load(subject.folder)
    graph = graph_of(model, heads=False)
    graph.refuse_unsayable()
    content = to_onnx(graph)
    contents = {"fp32": content}
    if "int8" in precisions:
        contents["int8"] = quantised(content)
    folder.mkdir()
    graphs = {name: folder / f"{name}.onnx" for name in contents}
    for name, path in graphs.items():
        path.write_bytes(contents[name])
    return replace(subject, graphs=graphs)


class _Running:
    """A process that waits for its turns."""

    def __init__(self, pipe: Any, setup: Setup, shapes: Sequence[Shape]) -> None:
        self._pipe, self._setup, self._shapes = pipe, setup, shapes
        self._answer()  # it is warm

    def turn(self, shape: Shape) -> list[float]:
        """Seconds of the runs of one turn."""
        self._pipe.send(self._shapes.index(shape))
        seconds: list[float] = self._answer()
        return seconds

    def _answer(self) -> Any:
        try:
            answer = self._pipe.recv()
        except EOFError:
            raise MachineError(
                f"the process of {_title(self._setup)} ended, as where memory runs out",
                help="fewer networks, threads or precisions at once, or a smaller --batch",
            ) from None
        if isinstance(answer, Exception):
            raise answer
        return answer


@contextmanager
def _opened(subject: Subject, setup: Setup, shapes: Sequence[Shape]) -> Iterator[_Running]:
    """A process of its own: setups stay out of each other's memory and threads."""
    context = multiprocessing.get_context("spawn")
    pipe, far = context.Pipe()
    process = context.Process(target=answer_turns, args=(far, subject, setup, shapes), daemon=True)
    process.start()
    far.close()
    try:
        yield _Running(pipe, setup, shapes)
    finally:
        pipe.close()
        process.join()


def _rounds(
    cases: Sequence[Case],
    running: Mapping[Setup, _Running],
    seconds: float,
    say: Callable[[str], None],
) -> dict[Case, list[float]]:
    times: dict[Case, list[float]] = {case: [] for case in cases}
    started = time.perf_counter()
    say(f"timing {len(cases)} cases for {seconds:g} s at most")
    for done in range(1, MOST_ROUNDS + 1):
        for case in cases:
            times[case] += running[case.setup].turn(case.shape)
        if (time.perf_counter() - started) * (done + 1) / done > seconds:
            break
    return times


def _figures(times: Sequence[float]) -> Figures:
    ordered = sorted(times)
    slow = ordered[min(len(ordered) - 1, round(SLOWEST * (len(ordered) - 1)))]
    return Figures(statistics.median(times), slow, runs=len(times))
