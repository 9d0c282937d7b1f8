"""A spec from a few answers: the text, a budget, the purpose and the machine.

The data are looked at, and what is guessed of them is said in the spec, with what it will cost.
Loads no torch.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertc import UsageError, estimate
from bertc.lab.fit.budget import Budget, budget
from bertc.lab.fit.candidate import SPENT
from bertc.lab.fit.sizing import Machine, Parts, Sized, fit_size, shapes
from bertc.lab.starting.columns import Column, Roles, roles_of
from bertc.lab_api import (
    Survey,
    escaped,
    findings,
    formatted,
    points,
    quote,
    schema,
    several,
    survey,
    units,
)

Purpose = Literal["pretrain", "classify", "tag", "squad", "embed"]
SERVES: dict[str, tuple[Purpose, ...]] = {
    "text": ("pretrain", "embed"), "table": ("classify", "pretrain", "embed"), "tags": ("tag",),
    "questions": ("squad",),
}  # fmt: skip
"""Purposes that each kind of data serves, the likeliest first."""
NEEDS: dict[Purpose, str] = {
    "pretrain": "text, or a table with a column of text",
    "embed": "a .txt file with a text a line, or a table with a column of text",
    "classify": "a table with a column of labels",
    "tag": "files of words and tags in columns",
    "squad": "JSON in SQuAD's layout",
}
HOUR = budget("time", "1h")
NO_DEV = "nothing judges it: see the line below the task"
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?) ?([kMGT])B(?: of (.+))?", re.IGNORECASE)
OF_A_RECIPE = "A published recipe decides how long it is trained: --budget changes nothing here."
VOCABULARIES = ((3e5, "1k"), (3e6, "4k"), (3e7, "8k"), (3e8, "16k"), (float("inf"), "32k"))
"""Sizes of the vocabulary by bytes of text, so that most entries are met often."""


@dataclass(frozen=True)
class Answers:
    """The answers that a spec is written from; ``language`` "" is written as none.

    ``purpose`` None is the likeliest for the data. ``init`` is a folder to begin from, "" for none.
    """

    language: str = ""
    budget: Budget = HOUR
    purpose: Purpose | None = None
    machine: Machine = Machine()
    init: str = ""


@dataclass(frozen=True)
class Planned(Survey):
    """Text that is to come: an amount, perhaps with its language, and where it will be read."""

    amount: float = 0.0
    language: str = ""

    @property
    def text_bytes(self) -> int:
        """Bytes of the text, about."""
        return int(self.amount)


def look_at_data(name: str) -> Survey:
    """Look at data, or take ``20 GB of German`` for text that will be in the folder ``text``."""
    match = None if os.path.exists(name) else _AMOUNT.fullmatch(name.strip())
    if match is None:
        return survey(name)
    amount = float(match[1]) * 1000.0 ** (1 + "kmgt".index(match[2].lower()))
    files = (Path("text"),)
    return Planned("text", "text/**/*.txt", files, amount=amount, language=match[3] or "")


def purposes(seen: Survey) -> tuple[Purpose, ...]:
    """The purposes that the data serve, the likeliest first."""
    serves = SERVES[seen.kind]
    if seen.kind == "text" and (seen.files[1:] or ".txt" not in Path(seen.files[0].name).suffixes):
        return serves[:1]
    return serves if seen.kind != "table" or roles_of(seen.columns).label else serves[1:]


def start(seen: Survey, answers: Answers) -> str:
    """Write a spec for data and answers, with its estimate; ``bertc check`` accepts it."""
    serves = purposes(seen)
    purpose = answers.purpose or serves[0]
    if purpose not in serves:
        content = "columns" if seen.kind == "table" else seen.kind
        raise UsageError(
            f"--for {purpose} needs {NEEDS[purpose]}, but {escaped(seen.name)} has {content}",
            help=f"--for {' or '.join(serves)}",
        )
    roles = roles_of(seen.columns)
    chosen = _spec(answers, seen, roles, purpose)
    spec = chosen.spec
    if not isinstance(seen, Planned):
        findings(spec).raise_if_any()
    notes = _notes(seen, roles, purpose)
    if not _glue(seen, purpose):
        notes += _remark_unread(seen, roles, spec)
    notes += _cost(spec, answers.machine)
    notes += [chosen.why] * bool(chosen.why)
    head = "\n".join(f"# {note}" for note in notes)
    return formatted(f"{head}\n\n{spec}")


def _spec(answers: Answers, seen: Survey, roles: Roles, purpose: Purpose) -> Sized:
    """The settings: of a network that is there, or of a new one of a size for the budget."""
    task = _task_lines(seen, roles, purpose) if purpose != "pretrain" else ()
    begin = (f"init = {quote(answers.init)}  # its network and its vocabulary",)
    if answers.init and task:
        return Sized(Parts(begin, task=task).written(), OF_A_RECIPE)
    if seen.kind in ("tags", "questions"):
        # Files of words and answers are no running text to learn from first.
        text = "data = docstrings  # for the vocabulary; text like yours is better"
        tried = shapes(Parts((), (text, "vocab = bpe(8k)"), (), task))
        return fit_size(tried, answers.budget, answers.machine, seen.text_bytes)
    language = answers.language or (seen.language if isinstance(seen, Planned) else "")
    text = _data(seen, roles.text, purpose, language)
    batch, seq = answers.machine.rows
    packed = "pack = true  # several short texts a row, none padded"
    training = (f"batch = {batch}", f"seq = {seq}", packed)
    if answers.init:
        rule = "optimizer = adamw(1e-4, warmup=10%)  # a lower rate than a new network's"
        tried = [Parts(begin, (text,), (*training, rule))]
        limit = answers.budget if answers.budget.kind in SPENT else HOUR
        return fit_size(tried, limit, answers.machine, seen.text_bytes)
    size = next(size for most, size in VOCABULARIES if seen.text_bytes < most)
    vocabulary = f"vocab = bpe({size})  # learned from it; any language"
    tried = shapes(Parts((), (text, vocabulary), training, task))
    return fit_size(tried, answers.budget, answers.machine, seen.text_bytes)


def _data(seen: Survey, column: Column | None, purpose: Purpose, language: str) -> str:
    """The text as a spec writes it; the lines that are embedded are its sentences."""
    arguments = [quote(seen.name)]
    if column and column.name != "text":
        arguments.append(f"column={quote(column.name)}")
    if purpose == "embed" and seen.kind == "text":
        arguments.append("sentences=lines")
    if language:
        arguments.append(f"language={quote(language)}")
    return f"data = files({', '.join(arguments)})"


def _task_lines(seen: Survey, roles: Roles, purpose: Purpose) -> tuple[str, ...]:
    """The task; where no second file is there to score it on, with a line for that."""
    if glue := _glue(seen, purpose):
        return (f"task = {glue}  # read and scored as GLUE does",)
    line = f"task = {_task(seen, roles, purpose, seen.dev)}"
    file = Path(seen.name)
    judge = file.with_name(f"dev-{file.name.removeprefix('train-')}")
    scored = f"task = {_task(seen, roles, purpose, str(judge))}"
    if seen.dev or line == scored:
        return (line,)
    return (line, "# This in its place, with a second file of such examples, gives it a score:",
            f"# {scored}")  # fmt: skip


def _glue(seen: Survey, purpose: Purpose) -> str:
    """The task of GLUE whose official folder the file is in: ``SST-2/train.tsv``; "" for none."""
    file = Path(seen.name)
    name = file.parent.name.replace("-", "").lower()
    task = schema()["objective"].values.kinds["glue"].arguments["task"]
    train = file.name in ("train.tsv", "train.tsv.gz")
    official = purpose == "classify" and train and name in task.values.words
    return f"glue({name}, {quote(str(file.parent))})" if official else ""


def _task(seen: Survey, roles: Roles, purpose: Purpose, judge: str) -> str:
    """The task as a spec writes it."""
    name, dev = quote(seen.name), f", {quote(judge)}" * bool(judge)
    if purpose == "tag":
        return f"tag({name}{dev})"
    if purpose == "squad":
        return f"squad({name}{dev}{f', version={seen.version}' * (seen.version > 1)})"
    if not roles.text:
        return f"embed({quote(str(seen.files[0]))})"
    if purpose == "embed":  # only pairs have a score on the file that judges
        columns = _write({"text": roles.text, **roles.alike})
        return f"embed({name}{dev * bool(roles.alike)}, {columns})"
    assert roles.label, "a purpose with labels is offered where there are some"
    kind = "regress" if roles.label.is_score else "classify"
    pair = {"pair": roles.pair} if roles.pair else {}
    return f"{kind}({name}{dev}, {_write({'text': roles.text, **pair, 'label': roles.label})})"


def _write(columns: Mapping[str, Column]) -> str:
    return ", ".join(f"{argument}={quote(column.name)}" for argument, column in columns.items())


def _alike(roles: Roles) -> str:
    """A sentence on what vectors are learned from."""
    names = {argument: escaped(column.name) for argument, column in roles.alike.items()}
    if not roles.text or not names:
        return "Vectors are learned from each text read twice, with other dropout (SimCSE)."
    pair = f"{escaped(roles.text.name)} and {names['positive']} of a row are alike"
    if negative := names.get("negative"):
        return f"{pair}, {negative} is not."
    return f"{pair}, as far as {names['score']} says." if "score" in names else f"{pair}."


def _notes(seen: Survey, roles: Roles, purpose: Purpose) -> list[str]:
    """Sentences on the data: files, size, columns and labels."""
    count, size = len(seen.files), units.bytes_text(seen.text_bytes)
    there = "to be put there" if isinstance(seen, Planned) else several(count, "file")
    notes = [f"{escaped(seen.name)}: {seen.kind}, {there}, about {size}."]
    if seen.left_out:
        endings = seen.left_out.items()
        others = _list([f"{count:,} {ending or 'without ending'}" for ending, count in endings])
        notes.append(f"Other files of the folder are left out: {others}.")
    if roles.text:
        notes.append(f"Columns {_list([*seen.columns])}; the text is {escaped(roles.text.name)}.")
    if purpose == "embed":
        notes.append(_alike(roles))
    judge = f"{escaped(seen.dev)} judges" if seen.dev else NO_DEV
    if _glue(seen, purpose):
        judge = "GLUE's dev part judges"
    if purpose == "tag":
        notes.append(f"Words and tags in columns; {judge}.")
    if purpose == "classify" and roles.label:
        labels = f"{several(len(roles.label.labels), 'label')} ({_list(roles.label.labels)})"
        kinds = "numbers" if roles.label.is_score else labels
        notes.append(f"The answer is {escaped(roles.label.name)}, {kinds}; {judge}.")
        flags = [name for name, cells in seen.columns.items() if {*cells} == {"0", "1"}]
        if len(flags) > 1:
            notes.append(f"label=[{_list(flags)}] learns all columns of 0 and 1 at once.")
    return notes


def _remark_unread(seen: Survey, roles: Roles, spec: str) -> list[str]:
    """A sentence on columns of text that the settings do not name."""
    columns = (Column(name, cells) for name, cells in seen.columns.items())
    texts = (c.name for c in columns if c.is_text and c != roles.text)
    names = [name for name in texts if quote(name) not in spec]
    if not names:
        return []
    holds = "hold" if len(names) > 1 else "holds"
    return [f"{_list(names)} {holds} text too, and the spec reads none of it."]


def _list(names: Sequence[str]) -> str:
    """Names in a line of a comment, the first of many."""
    line = ", ".join(names)
    return escaped(line if len(line) <= 60 else f"{line[:57]}...")


def _cost(spec: str, machine: Machine) -> list[str]:
    """The estimate, in two lines."""
    (resolved,) = points(spec)
    cost = estimate(resolved, machine.device, devices=machine.count)
    rates = cost.time.basis.splitlines() if machine.device.lower() == "cpu" else []
    return [
        f"{units.count_text(cost.parameters.total)} parameters, "
        f"{units.flops_text(cost.flops.train_total)}; on {escaped(str(machine))} "
        f"{cost.time.total_text} and "
        f"{units.bytes_text(cost.memory.peak_bytes)}, by bertc estimate",
        "(without evaluations and the preparing of text).",
        *rates,  # of the processor that they are estimated by
    ]
