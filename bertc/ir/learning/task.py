"""The tasks that an encoder is fine-tuned for: where their examples are, and what they ask.

Each knows its official files, or names the columns of one's own. What only the files say - the
labels, and the number of training examples - is filled in before a program is resolved.
"""

from abc import abstractmethod
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bertc.ir import operation as op
from bertc.ir.base import Count, Probability
from bertc.ir.learning.answer import (
    Answer,
    Choice,
    Labels,
    Plain,
    Score,
    Span,
    SpanHead,
    Tags,
    answer_head,
    answer_rows,
    names_spans,
)
from bertc.ir.network.body import Body
from bertc.ir.terms.heads import HeadNode
from bertc.ir.terms.node import RowShape, TermNode

Path = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[a-z0-9][a-z0-9_-]*$")]


def _told_apart(names: tuple[str, ...]) -> tuple[str, ...]:
    """None, to be read from the training file, or two at least and no two alike."""
    if len(names) == 1 or len(set(names)) < len(names):
        raise ValueError(
            "two labels or more, no two alike, can be told apart",
            "name all of them, or none: then they are read from the training file",
        )
    return names


Names = Annotated[tuple[str, ...], AfterValidator(_told_apart)]
Metric = Literal["accuracy", "f1", "mcc", "pearson", "spearman", "span_f1", "em", "squad_f1"]

Family = Literal["bert", "roberta", "albert", "electra", "xlnet", "spanbert", "xlm", "stackingbert"]
"""The systems whose authors said how they fine-tuned."""

UNKNOWN = ("?", "??")  # labels before the training file was read

Sample = Annotated[int, Field(ge=0, exclude_if=lambda count: count == 0)]
"""So many examples at most, 0: all. All is not written: programs from before it stay the same."""


class Task(TermNode):
    """What every task has.

    ``dropout`` is that of what the head reads. ``examples`` are those of the training part, 0 until
    they are counted; of a part that has more so many are drawn, whatever the seed. Of each part to
    judge by ``dev_examples`` are, in training and after it.
    """

    scored = "examples"
    dropout: Probability = 0.1  # BERT run_classifier.py create_model, keep_prob=0.9
    examples: Count = 0
    dev_examples: Sample = 0

    @property
    @abstractmethod
    def answer(self) -> Answer:
        """What it asks."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """How answers are judged, the one that decides which of two runs is better first."""
        match self.answer:
            case Labels() | Choice():
                return ("accuracy",)
            case Score():
                return ("pearson", "spearman")
            case Tags():
                return ("accuracy",)
            case Span():
                return ("squad_f1", "em")

    @property
    def reads(self) -> tuple[str, ...]:
        """The texts of an example, by the arguments that name their columns in one's own files."""
        match self.answer:
            case Labels() | Score():
                return ("text",)
            case Choice():
                return ("passage", "text", "choices")
            case Tags():
                return ("words",)
            case Span():
                return ("passage", "text")

    @property
    def head_node(self) -> HeadNode:
        """What its answer takes."""
        return answer_head(self.answer)

    @property
    def pooled(self) -> bool:
        """Where one state stands for a whole row."""
        return isinstance(self.answer, Labels | Score | Choice)

    def head_rows(self, rows: RowShape) -> int:
        """By its answer."""
        return answer_rows(self.answer, rows.choices, rows.seq)

    def outputs(self, rows: RowShape) -> int | None:
        """One state a row where it stands for all of it."""
        return 1 if self.pooled else None

    def operations(self, encoder: Body, rows: RowShape, examples: int) -> op.Operations:
        """Those of every term, and dropout of what its head reads."""
        dropped = op.Dropout(examples * self.head_rows(rows), encoder.hidden)
        return (dropped, *super().operations(encoder, rows, examples))


GlueName = Literal["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli", "ax"]
GLUE_LABELS: dict[str, Names] = {
    "cola": ("0", "1"),
    "sst2": ("0", "1"),
    "mrpc": ("0", "1"),
    "qqp": ("0", "1"),
    "mnli": ("contradiction", "entailment", "neutral"),
    "qnli": ("entailment", "not_entailment"),
    "rte": ("entailment", "not_entailment"),
    "wnli": ("0", "1"),
    "ax": ("contradiction", "entailment", "neutral"),
}
"""In the order of run_classifier.py's processors, get_labels."""


class Glue(Task):
    """A task of GLUE in its official files, ``glue(mrpc, data="glue/MRPC")``.

    ``data`` is their folder, or how their names begin, as in ``STS-B/stsb-de``.
    ``ax`` has no training part: it is judged by what ``mnli`` learned. ``both_orders``: every
    training pair is read a second time with its texts swapped (ELECTRA, double_unordered).
    """

    kind: Literal["glue"] = "glue"
    task: GlueName
    data: Path
    both_orders: bool = False
    positional = ("task", "data")

    @property
    def title(self) -> str:
        """``mrpc``; the diagnostics of ``ax`` are asked of the head of ``mnli``."""
        return "mnli" if self.task == "ax" else self.task

    @property
    def answer(self) -> Answer:
        """A label, for STS-B a score from 0 to 5."""
        return Score() if self.task == "stsb" else Labels(names=GLUE_LABELS[self.task])

    @property
    def reads(self) -> tuple[str, ...]:
        """Sentences alone in CoLA and SST-2, else pairs."""
        return ("text",) if self.task in ("cola", "sst2") else ("text", "pair")

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Those of the GLUE leaderboard."""
        match self.task:
            case "cola" | "ax":
                return ("mcc", "accuracy")
            case "mrpc" | "qqp":
                return ("accuracy", "f1")
            case "stsb":
                return ("pearson", "spearman")
            case _:
                return ("accuracy",)


class Xnli(Task):
    """Natural language inference in 15 languages (Conneau et al. 2018), trained on one of them.

    ``data`` holds ``train-en.tsv``, ``dev-de.tsv`` and so on, each row premise, hypothesis, label.
    Where there is no training file ``dev`` of the language is trained on, and not judged by. What
    learned MNLI is asked as ``name=mnli``, the head's.
    """

    kind: Literal["xnli"] = "xnli"
    name: Name = "xnli"
    data: Path
    language: str = "en"
    positional = ("data", "language")

    @property
    def title(self) -> str:
        """Its ``name``."""
        return self.name

    @property
    def answer(self) -> Answer:
        """One of the three labels of MNLI."""
        return Labels(names=GLUE_LABELS["mnli"])

    @property
    def reads(self) -> tuple[str, ...]:
        """Premise and hypothesis."""
        return ("text", "pair")


class Squad(Task):
    """Questions about passages in the files of SQuAD, ``squad("squad/", version=2)``.

    ``data`` is a folder with ``train-v1.1.json`` and ``dev-v1.1.json`` (2.0 for version 2), or the
    file to train on, and ``dev`` the file to judge by. Long passages are read in windows that begin
    every ``stride`` tokens. The official script's: questions are cut to ``question`` tokens,
    answers have at most ``longest`` tokens, and of version 2 no answer is given where it scores
    ``threshold`` more than the best one. ``epochs`` count questions, not windows.
    """

    kind: Literal["squad"] = "squad"
    data: Path
    dev: str = ""
    version: Annotated[int, Field(ge=1, le=2)] = 1
    head: SpanHead = Plain()
    stride: Annotated[int, Field(ge=1)] = 128  # run_squad.py --doc_stride
    question: Annotated[int, Field(ge=1)] = 64  # run_squad.py --max_query_length
    longest: Annotated[int, Field(ge=1)] = 30  # run_squad.py --max_answer_length
    best: Annotated[int, Field(ge=1, le=1000)] = 20  # run_squad.py --n_best_size
    threshold: float = 0.0  # run_squad.py --null_score_diff_threshold
    positional = ("data", "dev")

    @property
    def title(self) -> str:
        """``squad``."""
        return "squad"

    @property
    def answer(self) -> Answer:
        """A span of the passage."""
        return Span(head=self.head, unanswerable=self.version == 2)


class Race(Task):
    """Questions about passages with four choices each, in the files of RACE.

    ``data`` holds ``train``, ``dev`` and ``test``, each with ``high`` and ``middle``. A question
    and a choice take at most ``question`` tokens (ALBERT run_race.py --max_qa_length), of longer
    ones it ``keeps`` that end. The passage stands ``first``, or the choice does (fairseq
    sentence_ranking.py, which keeps its beginning).
    """

    kind: Literal["race"] = "race"
    data: Path
    question: Annotated[int, Field(ge=1)] = 128
    first: Literal["passage", "choice"] = "passage"
    keeps: Literal["end", "beginning"] = "end"
    positional = ("data",)

    @property
    def title(self) -> str:
        """``race``."""
        return "race"

    @property
    def answer(self) -> Answer:
        """One of four."""
        return Choice(most=4)


class Tagging(Task):
    """Tags of words in CoNLL-2003's columns or in CoNLL-U, ``tagging("conll2003/", "ner")``.

    ``data`` is a folder whose file names have ``train``, ``dev`` or ``testa``, and ``test`` or
    ``testb`` in them, or their beginning. ``column`` is CoNLL-2003's ``pos``, ``chunk``, ``ner``,
    or CoNLL-U's ``upos``, ``xpos``, ``deprel``. IOB1 is read as BIO; named spans are judged whole.
    """

    kind: Literal["tagging"] = "tagging"
    data: Path
    column: Literal["ner", "pos", "chunk", "upos", "xpos", "deprel"] = "ner"
    labels: Names = ()
    positional = ("data", "column")

    @property
    def title(self) -> str:
        """``ner``."""
        return self.column

    @property
    def answer(self) -> Answer:
        """A tag a word."""
        return Tags(names=self.labels or UNKNOWN)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """F1 of spans where there are any."""
        return ("span_f1", "accuracy") if names_spans(self.labels) else ("accuracy",)
