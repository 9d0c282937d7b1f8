"""The rows of ``bertc bench --latency``."""

from collections.abc import Sequence
from pathlib import Path

from bertc import Resolved, UsageError
from bertc.lab.bench.answering import Subject
from bertc.lab.bench.latency import measure
from bertc.lab.latency.cases import Choices
from bertc.lab.latency.table import Latencies, Row
from bertc.lab.results.runs import read_run
from bertc.lab_api import RunFolder

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
    measured = measure(subjects, choices, seconds)
    runs = [figures.runs for figures in measured.values()]
    notes = [RANDOM_ROWS, IN_TURNS.format(fewest=min(runs), most=max(runs))]
    scores = {name: _score(subject) for name, subject in by_name.items()}
    if fresh := [subject.name for subject in subjects if subject.folder is None]:
        notes.append(f"random weights: {', '.join(fresh)}")
    rows = (
        Row(
            case,
            measured[case],
            None if case.setup.precision == "int8" else scores[case.setup.name],
        )
        for case in choices.cases(list(by_name))
    )
    return Latencies(tuple(rows), tuple(notes))


def _score(subject: Subject) -> tuple[str, float] | None:
    """The score of a run's weights after its name; None for others."""
    folder = subject.folder
    return read_run(folder).score if folder and RunFolder(folder).holds_a_run else None


def _refuse_longer(subject: Subject, choices: Choices) -> None:
    room = subject.resolved.encoder.room
    longest = max(choices.lengths)
    if room is not None and longest > room:
        fitting = [length for length in choices.lengths if length <= room] or [room]
        raise UsageError(
            f"{subject.name} reads rows of at most {room:,} tokens, not {longest:,}",
            help=f"--length {','.join(map(str, fitting))}",
        )
