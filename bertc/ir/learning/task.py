"""Fine-tuning tasks: files, answers and metrics.

A task knows its official files, or names columns of a user's own. Labels and the number of training
examples are read from the files before a program is resolved.
"""

from operator import not_
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bertc.ir.base import Count
from bertc.ir.data import Hf, Language
from bertc.ir.learning import answer as answers
from bertc.ir.learning.answer import PLAIN_LOSS, ClassLoss
from bertc.ir.learning.states_task import StatesTask
from bertc.ir.terms.task_head import LINEAR, BiLstmHead, TaskHead

Path = Annotated[str, Field(min_length=1)]
NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]*$"
Name = Annotated[str, Field(min_length=1, max_length=40, pattern=NAME_PATTERN)]


def check_labels(names: tuple[str, ...]) -> tuple[str, ...]:
    """Check names of labels: none (read from the training file), or at least two, all different."""
    if len(set(names)) < len(names):
        raise ValueError(f"{max(names, key=names.count)!r} is named twice", "name each once")
    if len(names) == 1:
        help = "name all of them, or leave labels out to read them from the training file"
        raise ValueError("labels must be at least two different names", help)
    return names


Names = Annotated[tuple[str, ...], AfterValidator(check_labels)]

UNKNOWN = ("?", "??")  # labels before the training file was read
Sample = Annotated[int, Field(ge=0, exclude_if=lambda count: count == 0)]
"""A limit on the number of examples, 0: all; 0 is not dumped, so older programs stay the same."""


class Task(StatesTask):
    """A task; subclasses state answer, metrics and files.

    ``examples`` is the number of training examples, 0 until counted; if the file has more, that
    many are drawn, independent of the seed. ``dev_examples`` limits each part used for evaluation,
    during training and after it.
    """

    examples: Count = 0
    dev_examples: Sample = 0

    @property
    def class_loss(self) -> ClassLoss:
        """The loss of its classes."""
        return PLAIN_LOSS

    @property
    def metrics(self) -> tuple[answers.Metric, ...]:
        """Metrics of its answers; the first one ranks runs."""
        match self.answer:
            case answers.Labels() | answers.Choice() | answers.Tags() | answers.Vector():
                return ("accuracy",)
            case answers.Several():
                return ("micro_f1", "macro_f1", "accuracy")
            case answers.Score():
                return ("pearson", "spearman")
            case answers.NamedSpans():
                return ("span_f1",)
            case answers.Span():
                return ("squad_f1", "em")

    @property
    def reads(self) -> tuple[str, ...]:
        """The texts of an example, by the arguments that name their columns in own files."""
        match self.answer:
            case answers.Labels() | answers.Several() | answers.Score() | answers.Vector():
                return ("text",)
            case answers.Choice():
                return ("passage", "text", "choices")
            case answers.Tags() | answers.NamedSpans():
                return ("words",)
            case answers.Span():
                return ("passage", "text")


Rows = str | Hf
"""A .tsv, .csv, .jsonl or .parquet file, also .gz, or a split of a data set."""


class OwnTask(Task):
    """A task on a user's own files; columns are named, or numbered from 0 without a header.

    Each file may be missing: the training data of an imported head is unknown.
    """

    name: Name
    train: Rows = ""
    dev: Rows = ""
    test: Rows = ""
    positional = ("train", "dev", "test")

    @property
    def title(self) -> str:
        return self.name


class Headed(Task):
    """A task that chooses the ``head`` between states and scores."""

    head: Annotated[TaskHead, Field(exclude_if=LINEAR.__eq__)] = LINEAR

    @property
    def recurrent(self) -> BiLstmHead | None:
        return self.head if isinstance(self.head, BiLstmHead) else None


GlueName = Literal["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli", "ax"]
GLUE_LABELS: dict[str, Names] = {
    **dict.fromkeys(("cola", "sst2", "mrpc", "qqp", "wnli"), ("0", "1")),
    **dict.fromkeys(("mnli", "ax"), ("contradiction", "entailment", "neutral")),
    **dict.fromkeys(("qnli", "rte"), ("entailment", "not_entailment")),
}
"""Labels in the order of run_classifier.py's processors, get_labels."""


class Glue(Headed):
    """A GLUE task in its official files, ``glue(mrpc, data="glue/MRPC")``.

    ``data`` is their folder, or a prefix of their names, as in ``STS-B/stsb-de``. ``ax`` is scored
    with the head of ``mnli``. ``both_orders``: pairs are trained on in both orders (ELECTRA).
    """

    kind: Literal["glue"] = "glue"
    task: GlueName
    data: Path
    both_orders: bool = False
    positional = ("task", "data")

    @property
    def title(self) -> str:
        """``mrpc``; for the diagnostics ``ax`` the head's, ``mnli``."""
        return "mnli" if self.task == "ax" else self.task

    @property
    def answer(self) -> answers.Answer:
        """A label; for STS-B a score from 0 to 5."""
        names = GLUE_LABELS.get(self.task)
        return answers.Labels(names=names) if names else answers.Score()

    @property
    def reads(self) -> tuple[str, ...]:
        return ("text",) if self.task in ("cola", "sst2") else ("text", "pair")

    @property
    def metrics(self) -> tuple[answers.Metric, ...]:
        """The metrics of the GLUE leaderboard."""
        match self.task:
            case "cola" | "ax":
                return ("mcc", "accuracy")
            case "mrpc" | "qqp":
                return ("accuracy", "f1")
            case _:
                return super().metrics


class Xnli(Headed):
    """Natural language inference in 15 languages (Conneau et al. 2018), trained on one of them.

    ``data`` holds ``train-en.tsv``, ``dev-de.tsv`` and so on, each row premise, hypothesis, label.
    Without a training file for the language its ``dev`` is trained on, and not used for evaluation.
    ``name=mnli`` uses the head of a model fine-tuned on MNLI.
    """

    kind: Literal["xnli"] = "xnli"
    name: Name = "xnli"
    data: Path
    language: Language = "en"
    positional = ("data", "language")

    @property
    def title(self) -> str:
        return self.name

    @property
    def answer(self) -> answers.Answer:
        return answers.Labels(names=GLUE_LABELS["mnli"])

    @property
    def reads(self) -> tuple[str, ...]:
        return ("text", "pair")


class Reading(Task):
    """Spans of passages, in windows that start every ``stride`` tokens if they are long.

    Questions are cut to ``question`` tokens, answers have at most ``longest``, and "no answer" wins
    if it scores ``threshold`` more than the best.
    """

    head: answers.SpanHead = answers.Plain()
    stride: Annotated[int, Field(ge=1)] = 128  # run_squad.py --doc_stride
    question: Annotated[int, Field(ge=1)] = 64  # run_squad.py --max_query_length
    longest: Annotated[int, Field(ge=1)] = 30  # run_squad.py --max_answer_length
    best: Annotated[int, Field(ge=1, le=1000)] = 20  # run_squad.py --n_best_size
    threshold: float = 0.0  # run_squad.py --null_score_diff_threshold


class Choosing(Headed):
    """Choices after a question, which take at most ``question`` tokens together with it.

    ``keeps`` says which end of longer ones stays (ALBERT run_race.py --max_qa_length). ``first``
    says which comes first, the passage or the choice (fairseq sentence_ranking.py).
    """

    question: Annotated[int, Field(ge=1)] = 128
    first: Literal["passage", "choice"] = "passage"
    keeps: Literal["end", "beginning"] = "end"


class Weighted(Headed):
    """A task of classes, with the ``loss`` that weighs them."""

    loss: Annotated[ClassLoss, Field(exclude_if=PLAIN_LOSS.__eq__)] = PLAIN_LOSS

    @property
    def class_loss(self) -> ClassLoss:
        return self.loss


class OfWords(Weighted):
    """Tags of words; F1 of spans comes first if tags mark spans.

    ``stride``: long sentences are read in windows that begin every so many tokens, 0: cut.
    """

    stride: Annotated[Count, Field(exclude_if=not_)] = 0
    labels: Names = ()

    @property
    def answer(self) -> answers.Tags:
        return answers.Tags(names=self.labels or UNKNOWN)

    @property
    def metrics(self) -> tuple[answers.Metric, ...]:
        return ("span_f1", "accuracy") if answers.names_spans(self.labels) else ("accuracy",)


class Squad(Reading):
    """Questions about passages in SQuAD's files, ``squad("squad/", version=2)``.

    ``data`` is a folder with ``train-v1.1.json`` and ``dev-v1.1.json`` (2.0 for version 2), or the
    training file, and ``dev`` the file for evaluation.
    """

    kind: Literal["squad"] = "squad"
    data: Path
    dev: str = ""
    version: Annotated[int, Field(ge=1, le=2)] = 1
    positional = ("data", "dev")

    @property
    def answer(self) -> answers.Answer:
        return answers.Span(head=self.head, unanswerable=self.version == 2)


class Race(Choosing):
    """Questions about passages with four choices each, in RACE's files.

    ``data`` holds ``train``, ``dev`` and ``test``, each with ``high`` and ``middle``.
    """

    kind: Literal["race"] = "race"
    data: Path
    positional = ("data",)

    @property
    def answer(self) -> answers.Choice:
        return answers.Choice(most=4)


TagColumn = Literal["ner", "pos", "chunk", "upos", "xpos", "deprel"]
"""Columns of tags, of CoNLL-2003 and of CoNLL-U."""


class Tagging(OfWords):
    """Tags of words in CoNLL-2003's columns or in CoNLL-U, ``tagging("conll2003/", "ner")``.

    ``data`` is a folder whose file names contain ``train``, ``dev`` or ``testa``, and ``test`` or
    ``testb``, or a prefix of such names. ``column`` is CoNLL-2003's ``pos``, ``chunk``, ``ner``, or
    CoNLL-U's ``upos``, ``xpos``, ``deprel``. IOB1 is read as BIO; spans are scored whole.
    """

    kind: Literal["tagging"] = "tagging"
    data: Path
    column: TagColumn = "ner"
    positional = ("data", "column")

    @property
    def title(self) -> str:
        return self.column
