"""Tasks that compare texts: vectors of texts alike near each other."""

from operator import not_
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from bertc.ir import operation as op
from bertc.ir.base import BY_KIND, Count, Node, Probability, Width
from bertc.ir.learning import answer as answers
from bertc.ir.learning.pooling import Pooling, Similarity, SparseVectors, TokenVectors
from bertc.ir.learning.task import Headed, Name, OwnTask
from bertc.ir.network.body import Body
from bertc.ir.terms.node import MASKED_HEAD, RowShape

TextKind = Literal["query", "document"]
"""The part of a text in a search, which chooses its prompt."""
_Number = Annotated[int, Field(ge=1, lt=answers.MOST_CHOICES)]


class InColumn(Node):
    """Negatives in the column ``negative``: a text, or the first ``number`` of a list."""

    kind: Literal["column"] = "column"
    number: _Number = 1
    positional = ("number",)


class Mined(Node):
    """Positives of other examples that the network of ``run`` ranks near a text.

    Ranks ``skip`` to ``top`` are candidates; those with more than ``margin`` times the positive's
    similarity are left out as false negatives (NV-Retriever, TopK-PercPos: 95%). The first
    ``number`` of the rest are taken; where there are fewer, random positives fill up.
    """

    kind: Literal["mined"] = "mined"
    run: Annotated[str, Field(min_length=1)]
    top: Annotated[int, Field(ge=1, le=10_000)] = 50
    skip: Annotated[int, Field(ge=0, le=10_000)] = 0
    margin: Annotated[float, Field(gt=0, le=1)] = 0.95
    number: _Number = 1
    positional = ("run",)

    @model_validator(mode="after")
    def _ranks(self) -> Self:
        if self.top - self.skip < self.number:
            raise ValueError(
                f"ranks {self.skip} to {self.top} are fewer than the {self.number} negatives taken",
                f"top={self.skip + self.number}, or more",
            )
        return self


Negatives = Annotated[InColumn | Mined, BY_KIND]
"""The closed union of sources of negatives."""
IN_COLUMN = InColumn()


Loss = Literal["order", "margin", "kl"]
ScoreActivation = Literal["sigmoid", "identity", "tanh", "relu"]
WAYS = (
    "pooling", "similarity", "normalise", "prompt", "query_prompt", "passage_prompt", "longest",
)  # fmt: skip
"""Arguments that say how a vector is made."""


TOKENS_HEAD = "Tokens"
"""The name of the map to vectors of tokens, or of the maps of pooled states."""


def usual_ways(pooling: object) -> dict[str, Any]:
    """Arguments that a pooling has otherwise than one dense vector, unless they are written."""
    usual = {"temperature": 1.0} if isinstance(pooling, TokenVectors | SparseVectors) else {}
    return {**usual, "similarity": "dot"} if isinstance(pooling, SparseVectors) else usual


class Embed(OwnTask):
    """A vector for each text, of texts alike near each other.

    ``positive`` names the column of a text that is like ``text``; the other texts of the batch are
    its negatives, and that of ``negative``, or those that a search finds (``negatives``). The loss
    is their cross entropy (InfoNCE) of cosines over ``temperature``; with ``both`` the mean with
    that of the positives among the texts. Without ``positive`` a text is read twice with other
    dropout (SimCSE); so are the lines of a .txt file.

    ``score`` is a number, higher for pairs more alike, of which the order is learned (CoSENT). Of
    ``loss=margin`` it is how much more the positive scores than the negative, or a list with the
    scores of all texts, as a cross-encoder has them (MarginMSE); of ``kl`` such a list, whose
    softmax is learned. Both compare it with similarities over ``temperature``.

    ``widths`` are prefixes of the vectors, each with its loss (Matryoshka; the mean of them). With
    ``pooling=tokens`` each token has one (late interaction), with ``sparse`` a text has a weight
    for each token of the vocabulary, and is compared by dot products. ``temperature`` is then 1.

    ``sts`` is a file of STS-B in GLUE's columns, which takes the place of ``dev``; so do
    ``corpus``, ``queries`` and ``relevant``, files of a search in BEIR's columns. ``mlp``: in
    training a dense layer with tanh follows the pooled states (SimCSE, --mlp_only_train). ``dense``
    are widths of linear maps that follow them, in use too (EmbeddingGemma, 2_Dense and 3_Dense).

    ``prompt`` precedes each text, ``query_prompt`` and ``passage_prompt`` take its place before
    ``text`` and before all others. A text has at most ``longest`` tokens, 0: as many as a row.
    ``normalise``: its vectors have length 1. An ``init`` with ways of its own gives these and
    ``pooling``, where they are not written.
    """

    kind: Literal["embed"] = "embed"
    name: Name = "embed"
    text: str = "text"
    positive: str = ""
    negative: str = ""
    negatives: Annotated[Negatives, Field(exclude_if=IN_COLUMN.__eq__)] = IN_COLUMN
    score: str = ""
    loss: Annotated[Loss, Field(exclude_if="order".__eq__)] = "order"
    sts: str = ""
    corpus: Annotated[str, Field(exclude_if=not_)] = ""
    queries: Annotated[str, Field(exclude_if=not_)] = ""
    relevant: Annotated[str, Field(exclude_if=not_)] = ""
    pooling: Pooling = "mean"
    similarity: Annotated[Similarity, Field(exclude_if="cosine".__eq__)] = "cosine"
    normalise: Annotated[bool, Field(exclude_if=not_)] = False
    prompt: Annotated[str, Field(exclude_if=not_)] = ""
    query_prompt: Annotated[str, Field(exclude_if=not_)] = ""
    passage_prompt: Annotated[str, Field(exclude_if=not_)] = ""
    longest: Annotated[Count, Field(exclude_if=not_)] = 0
    widths: Annotated[tuple[Width, ...], Field(exclude_if=not_)] = ()
    mlp: bool = False
    dense: Annotated[tuple[Width, ...], Field(exclude_if=not_)] = ()
    temperature: Annotated[float, Field(gt=0, le=100)] = 0.05  # SimCSE --temp; 1 / 20 in SBERT's
    both: bool = False
    dropout: Probability = 0.0
    compares_examples = True

    @model_validator(mode="after")
    def _columns(self) -> Self:
        mined = self.negatives.kind == "mined"
        needs = "negatives=mined(...)" if mined else "negative" if self.negative else ""
        needs = needs or ("score" if self.score else "")
        if needs and not self.positive:
            raise ValueError(f"{needs} needs positive, the other text of a pair", "positive=...")
        if self.negative and mined:
            raise ValueError("negative names a column, and negatives=mined(...) takes its place")
        if not (mined or self.negative or self.negatives == IN_COLUMN):
            raise ValueError("negatives=column(...) needs negative, their column", "negative=...")
        if self.loss != "order" and not (self.score and (self.negative or mined)):
            message = f"loss={self.loss} compares the scores of a positive and negatives"
            raise ValueError(message, "text=..., positive=..., negative=..., score=...")
        if self.score and (mined or (self.negative and self.loss == "order")):
            raise ValueError("pairs with a score have no negatives")
        if (self.sts or self.corpus) and (self.dev or (self.sts and self.corpus)):
            raise ValueError(f"{'sts' if self.sts else 'corpus'} takes the place of dev")
        return self

    @model_validator(mode="before")
    @classmethod
    def _summed(cls, values: Any) -> Any:
        """Sums over the tokens of a query are learned as they are (PyLate, Contrastive)."""
        usual = usual_ways(values.get("pooling")) if isinstance(values, dict) else {}
        return {**usual, **values} if usual else values

    @model_validator(mode="after")
    def _vectors_and_search(self) -> Self:
        if self.answer.by_token and (self.mlp or self.similarity == "dot"):
            wrong = "mlp=true is a layer" if self.mlp else "similarity=dot is"
            message = f"{wrong} of one vector a text, and tokens are compared by cosines"
            raise ValueError(message, "leave it out, or pooling=mean")
        if self.dense and (self.mlp or self.answer.of_states):
            raise ValueError("dense is of pooled states, without mlp=true", "leave one of them out")
        unlike = {"mlp": self.mlp, "normalise": self.normalise, "widths": self.widths}
        unlike["similarity"] = self.similarity == "cosine" and self.similarity
        if self.is_sparse and (unfit := next((name for name in unlike if unlike[name]), "")):
            message = f"{unfit} is of dense vectors, and sparse ones are compared by dot products"
            raise ValueError(message, "leave it out, or pooling=mean")
        files = {"corpus": self.corpus, "queries": self.queries, "relevant": self.relevant}
        missing = [f"{name}=..." for name, file in files.items() if not file]
        if 0 < len(missing) < len(files):
            raise ValueError("a search has a corpus, queries and relevant", ", ".join(missing))
        falling = sorted(set(self.widths), reverse=True)
        if list(self.widths) != falling:
            help = f"that is {', '.join(map(str, falling))}"
            raise ValueError("widths are from the widest to the narrowest, each once", help)
        return self

    @property
    def texts(self) -> int:
        """Texts of a training example."""
        return 2 + self.negatives.number * bool(self.negative or self.negatives.kind == "mined")

    def prompt_of(self, nth: int) -> str:
        """The prompt of text ``nth`` of an example, of which the first is the query."""
        return (self.passage_prompt if nth else self.query_prompt) or self.prompt

    @property
    def head_name(self) -> str:
        """Its title; of mapped vectors a name that no task can have, and all share the maps."""
        if self.is_sparse:
            return MASKED_HEAD
        mapped = self.dense or isinstance(self.pooling, TokenVectors)
        return TOKENS_HEAD if mapped else self.title

    @property
    def is_sparse(self) -> bool:
        """True if a vector has a weight for each token of the vocabulary."""
        return isinstance(self.pooling, SparseVectors)

    @property
    def answer(self) -> answers.Vector:
        ways = {name: getattr(self, name) for name in ("texts", "pooling", "mlp", "dense")}
        return answers.Vector(scored=bool(self.score), **ways)

    @property
    def reads(self) -> tuple[str, ...]:
        return ("text", "positive")

    @property
    def metrics(self) -> tuple[answers.Metric, ...]:
        """Correlations with scores, ranks of a search, or how often the positive is nearest."""
        if self.corpus:
            return ("ndcg@10", "mrr@10", "recall@100")
        ordered = self.sts or (self.score and self.loss == "order")
        return ("spearman", "pearson") if ordered else ("accuracy",)

    def outputs(self, rows: RowShape) -> int | None:
        return 1 if self.pooling == "cls" else None

    def operations(self, encoder: Body, rows: RowShape, examples: int) -> op.Operations:
        states = examples * rows.choices * rows.seq * encoder.hidden
        one_state = self.pooling in ("cls", "last") or self.answer.of_states
        pooled = () if one_state else (op.Pointwise("add", states),)
        return (*pooled, *super().operations(encoder, rows, examples))


class Rerank(OwnTask, Headed):
    """A score of a passage for a query, read together (a cross-encoder).

    Of lists, ``positive`` and ``negative`` (or mined ones) name columns of passages, and the loss
    is the cross entropy of the positive among them. Of pairs, ``passage`` is a column, ``label``
    is 1 or 0, or between, and the loss binary cross entropy. Both are judged as pairs: the
    passages of each query by rank. ``activation`` makes scores of logits.
    """

    kind: Literal["rerank"] = "rerank"
    name: Name = "rerank"
    text: str = "query"
    passage: str = "passage"
    label: str = "label"
    positive: str = ""
    negative: str = ""
    negatives: Annotated[Negatives, Field(exclude_if=IN_COLUMN.__eq__)] = IN_COLUMN
    activation: Annotated[ScoreActivation, Field(exclude_if="sigmoid".__eq__)] = "sigmoid"

    @model_validator(mode="after")
    def _columns(self) -> Self:
        mined = self.negatives.kind == "mined"
        if mined and self.negative:
            raise ValueError("negative names a column, and negatives=mined(...) takes its place")
        if bool(self.positive) != bool(self.negative or mined):
            message = "a list has a positive and negatives, and pairs have neither"
            raise ValueError(message, "positive=..., negative=...; or passage=..., label=...")
        return self

    @property
    def judged(self) -> Self:
        return self.model_copy(update={"negative": "", "negatives": IN_COLUMN})

    @property
    def answer(self) -> answers.Answer:
        if self.negative or self.negatives.kind == "mined":
            return answers.Choice(most=1 + self.negatives.number)
        return answers.Score(logistic=True)

    @property
    def reads(self) -> tuple[str, ...]:
        return ("text", "passage")

    @property
    def metrics(self) -> tuple[answers.Metric, ...]:
        return ("ndcg@10", "mrr@10", "map")
