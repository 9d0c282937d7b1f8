"""The task of a Hugging Face folder, from its ``config.json``."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bertc.base.diagnostics import BertcError, DataError
from bertc.base.storage.paths import is_file
from bertc.base.storage.plain_file import name_few, read_json, shown
from bertc.hub import gliner
from bertc.hub.config import MAX_BYTES, with_scores
from bertc.hub.families.config import HfConfig, place_of_cls
from bertc.hub.families.family import Family, HfClass, TaskClass
from bertc.hub.keys import OF_HEADS, part_of
from bertc.hub.leaving.target import ACTIVATIONS
from bertc.ir.base import Probability
from bertc.ir.learning import PRETRAINING, Rerank
from bertc.ir.learning.answer import Conditioned, label_names
from bertc.ir.learning.custom_task import AnyTask, Choose, Classify, Many, Read, Regress, Tag
from bertc.ir.learning.task import Name
from bertc.text.vocab.vocabulary import vocabulary_of

MOST_LABELS, MOST_SHOWN = 100_000, 8
_NAME: TypeAdapter[str] = TypeAdapter(Name)
SUMMED = "summary_activation"
SEVERAL = "multi_label_classification"
PRETRAINED = frozenset({*OF_HEADS, *PRETRAINING})
"""Parts of a model that cannot be the name of a task."""
SUMMARY = {"summary_type": "first", "summary_use_proj": True, "summary_proj_to_labels": True}
"""Defaults of the pooling settings (SequenceSummary), unless a family has others."""
_ACTIVATIONS: dict[str, str] = {name.rpartition(".")[2]: kind for kind, name in ACTIVATIONS.items()}
_ACTIVATIONS |= {"Softmax": "softmax"}
_MODULES = ("torch.nn", "torch.nn.modules.activation", "torch.nn.modules.linear")


class _HfTask(BaseModel):
    """Settings about the task head, with the names and defaults of PretrainedConfig."""

    model_config = ConfigDict(frozen=True, strict=True)

    num_labels: Annotated[int, Field(ge=1, le=MOST_LABELS)] | None = None
    id2label: dict[str, str | int] | None = None
    problem_type: (
        Literal["regression", "single_label_classification", "multi_label_classification"] | None
    ) = None
    finetuning_task: str | None = None
    dropout: Probability | None = None
    sentence_transformers: dict[str, Any] | None = None
    sbert_ce_default_activation_function: str | None = None

    def activation(self, count: int) -> str:
        """The activation of a CrossEncoder's ``count`` scores; empty if it is none.

        ``_NoTask`` if bertc does not compute it, or a prompt precedes the texts: a softmax of one
        score is 1, and several have activations that make probabilities.
        """
        settings = self.sentence_transformers or {}
        if prompt := settings.get("default_prompt_name"):
            raise _NoTask("default_prompt_name", prompt)
        named = settings.get("activation_fn") or self.sbert_ce_default_activation_function
        if named is None:
            default = "sigmoid" if count == 1 else "identity"
            return "" if self.sentence_transformers is None else default
        module, _, name = str(named).rpartition(".")
        activation = _ACTIVATIONS.get(name, "") if module in _MODULES else ""
        computed = ACTIVATIONS if count == 1 else ("identity", "sigmoid", "softmax")
        if activation not in computed:
            raise _NoTask("activation_fn", named)
        return activation


@dataclass(frozen=True)
class TaskOfFolder:
    """The task of an imported head, its class, and the settings that this class always has."""

    task: AnyTask
    held: HfClass
    always: Mapping[str, Any]

    @property
    def note(self) -> str:
        """A remark on the task assigned to the head."""
        names = label_names(self.task.answer)
        labels = f" with labels {name_few(names, MOST_SHOWN)}" if names else ""
        title = "" if self.task.title == self.task.kind else f'(name="{self.task.title}")'
        return f"the head of {self.held.name} becomes the task {self.task.kind}{title}{labels}"


class _NoTask(ValueError):
    """No task fits a setting; its arguments are the name and the value."""


def read_task(
    path: Path, family: Family, config: HfConfig, modules: Collection[str]
) -> TaskOfFolder | str:
    """The task of the class that ``config.json`` names, or a note on why there is none."""
    if is_file(spans := path.with_name(gliner.SPANS_FILE)):
        read = gliner.spans_in(spans)
        return TaskOfFolder(read, gliner.class_of(read.title), {})
    raw, heads, named = with_scores(path), family.tasks, class_names(path)
    task_class = next((c for c in heads.classes if c.name in named), None)
    if task_class is None:
        return ""
    if task_class.head not in modules:
        return (
            f"config.json names {task_class.name}, and the weights have no {task_class.head}: the "
            "encoder is imported, without a task"
        )
    rate_name = task_class.dropout or heads.dropout
    try:
        settings = _HfTask.model_validate({**raw, "dropout": raw.get(rate_name)})
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        name = rate_name if name == "dropout" else name
        message = f"{path}: {name} = {shown(raw.get(name))} is no such setting of a head"
        remedy = "copy the file again from its source, or remove the setting"
        raise DataError(message, help=remedy) from None
    left = f"the head of {task_class.name} is left: no task of bertc fits"
    reads = "" if task_class.own_pooler else family.names.get("encoder.pooler", "")
    if task_class.pooler == "read" and reads and not any(name.endswith(reads) for name in modules):
        return f"{left} a head whose pooler {reads} is not there"
    perhaps = task_class.pooler == "perhaps"
    pooled = task_class.pooler == "read" or (perhaps and task_class.own_pooler in modules)
    try:
        activations = {summary.get(SUMMED) for summary in family.poolers.values()}
        if pooled and perhaps and getattr(config, SUMMED) not in activations:
            raise _NoTask(SUMMED, getattr(config, SUMMED))
        for name, value in task_class.summary(pooled).items():
            default = {**SUMMARY, **heads.summary}.get(name)
            unlike = (raw.get(name, default) or None) != (value or None)
            if unlike and not (name == "summary_type" and raw.get(name) == _cls(path.parent)):
                raise _NoTask(name, raw.get(name, default))
        rate = settings.dropout
        if rate is None:  # the family's default, or the encoder's
            usual = None if task_class.dropout else heads.default
            rate = config.hidden_dropout_prob if usual is None else usual
        task = _task(task_class, settings, rate)
    except _NoTask as error:
        setting, stated = error.args
        return f"{left} {setting} = {shown(stated)}"
    return TaskOfFolder(task, task_class.holding(task.title, pooled), task_class.always)


def class_names(path: Path) -> list[str]:
    """The classes of transformers that a ``config.json`` names."""
    names = read_json(path, MAX_BYTES).get("architectures")
    return [str(name) for name in names] if isinstance(names, list) else []


def _cls(folder: Path) -> str:
    """The place of [CLS] in rows of a folder's tokenizer, first or last; empty if unknown."""
    with suppress(BertcError):
        return place_of_cls(vocabulary_of(folder, 0))
    return ""


def _task(task_class: TaskClass, settings: _HfTask, dropout: float) -> AnyTask:
    """The equivalent task for a user's own files; ``_NoTask`` if there is none."""
    common: dict[str, Any] = {"dropout": dropout}
    if _is_name(settings.finetuning_task):
        common["name"] = settings.finetuning_task
    if "choice" in task_class.kinds:
        return Choose(**common)
    names, spans = _labels(settings), "span" in task_class.kinds
    if not spans and "tags" not in task_class.kinds:
        return _of_texts(common, names, settings)
    if len(names) < 2 or (spans and len(names) > 2):
        raise _NoTask("num_labels", len(names))
    return Read(**common) if spans else Tag(**common, labels=names)


def _of_texts(common: dict[str, Any], names: tuple[str, ...], settings: _HfTask) -> AnyTask:
    """The task of a head for one or two texts: the activation of its scores, else its problem."""
    activation, problem = settings.activation(len(names)), settings.problem_type
    if len(names) == 1 and activation:
        return Rerank(**common, activation=activation)
    if len(names) == 1 and problem in (None, "regression"):
        return Regress(**common)
    if len(names) < 2:
        raise _NoTask("num_labels", len(names))
    if activation == "sigmoid" or (problem == SEVERAL and activation != "softmax"):
        return Classify(**common, labels=Many(names=names))
    if problem == "regression" and activation != "softmax":
        return Regress(**common, label=names)
    return Classify(**common, labels=names)


def _is_name(title: str | None) -> bool:
    try:
        return _NAME.validate_python(title) not in PRETRAINED
    except ValidationError:
        return False


def _labels(settings: _HfTask) -> tuple[str, ...]:
    """Labels by index, if the file names none those of transformers (id2label)."""
    if settings.id2label is None:
        return tuple(f"LABEL_{n}" for n in range(settings.num_labels or 2))
    count = len(settings.id2label)
    if settings.num_labels not in (None, count):
        raise _NoTask("num_labels", settings.num_labels)
    names = tuple(str(settings.id2label.get(str(n), "")) for n in range(count))
    if len(set(names)) < count or "" in names:
        raise _NoTask("id2label", settings.id2label)
    return names


def tasks_beside(shapes: Mapping[str, tuple[int, ...]]) -> tuple[AnyTask, ...]:
    """A task for each head in bertc_heads.safetensors, with numbers for labels."""
    tasks: list[AnyTask] = []
    for title in dict.fromkeys(part_of(name) for name in shapes if name.count(".") > 1):
        if not _is_name(title):
            continue
        width, *_ = shapes.get(f"heads.{title}.weight") or (0,)
        if f"heads.{title}.start.weight" in shapes:
            unanswerable = f"heads.{title}.answered.weight" in shapes
            inner, both = shapes.get(f"heads.{title}.end.dense.weight", (0, 0))
            head = Conditioned(
                width=0 if 2 * inner == both else inner,  # as wide as states
                units="tanh-norm" if f"heads.{title}.end.norm.weight" in shapes else "gelu-tanh",
            )
            tasks.append(Read(name=title, head=head, unanswerable=unanswerable))
        elif width == 1:
            tasks.append(Regress(name=title))
        elif 2 <= width <= MOST_LABELS:
            tasks.append(Classify(name=title, labels=tuple(str(n) for n in range(width))))
    return tuple(tasks)
