"""What an encoder is trained to do: a sum of terms, each with its heads and their cost."""

import math
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from bertc.ir.base import Axis, Kept, Matmul, Node, Weight, Width, affine, bias, unstated
from bertc.ir.learning.custom_task import Choose, Classify, Read, Regress, Tag
from bertc.ir.learning.task import Glue, Race, Scored, Squad, Tagging, Task, Xnli
from bertc.ir.network.encoder import Encoder

Pairs = Literal["none", "consecutive", "random-next", "swapped"]
"""How a paired input is made: no pair, always the true next text, NSP's draw, SOP's swap."""


class TokenUnit(Node):
    """Single tokens are drawn (BERT 3.1)."""

    kind: Literal["token"] = "token"


class WordUnit(Node):
    """Whole words are drawn (BERT create_pretraining_data.py --do_whole_word_mask)."""

    kind: Literal["word"] = "word"


class NgramUnit(Node):
    """Runs of 1..max whole words, P(n) proportional to 1/n (ALBERT 4.1)."""

    kind: Literal["ngram"] = "ngram"
    max: Annotated[int, Field(ge=1, le=16)] = 3  # ALBERT create_pretraining_data.py --ngram
    positional = ("max",)


class SpanUnit(Node):
    """Runs of words with truncated geometric lengths (SpanBERT 3.1)."""

    kind: Literal["span"] = "span"
    p: Annotated[float, Field(gt=0, lt=1)] = 0.2  # SpanBERT --geometric-p 0.2 (README)
    max: Annotated[int, Field(ge=1, le=64)] = 10  # SpanBERT --span-upper
    positional = ("p", "max")


Unit = Annotated[TokenUnit | WordUnit | NgramUnit | SpanUnit, Field(discriminator="kind")]


class Replace(Node):
    """What stands where a token is to be predicted, in percent: written ``80/10/10``."""

    mask: Annotated[float, Field(ge=0, le=100)] = 80
    random: Annotated[float, Field(ge=0, le=100)] = 10
    keep: Annotated[float, Field(ge=0, le=100)] = 10
    positional = ("mask", "random", "keep")

    @model_validator(mode="after")
    def _adds_up(self) -> "Replace":
        total = self.mask + self.random + self.keep
        if abs(total - 100) > 1e-6:
            raise ValueError(f"the three parts add up to {total:g}, not 100", "write parts of 100")
        return self


class DynamicMasking(Node):
    """New masks in every epoch (RoBERTa 4.1)."""

    kind: Literal["dynamic"] = "dynamic"


class StaticMasking(Node):
    """``copies`` fixed maskings, used in turn epoch after epoch (BERT --dupe_factor)."""

    kind: Literal["static"] = "static"
    copies: Annotated[int, Field(ge=1, le=10_000)] = 10
    positional = ("copies",)


Masking = Annotated[DynamicMasking | StaticMasking, Field(discriminator="kind")]


class LanguageModel(Node):
    """Predict tokens by the encoder's head over the vocabulary."""

    scored: ClassVar[Scored] = "tokens"
    head: ClassVar[str]
    kind: str

    def weights(self, encoder: Encoder) -> tuple[Weight, ...]:
        """Those of the encoder's head over the vocabulary."""
        return encoder.head_weights(self.head)

    def matmuls(self, encoder: Encoder, rows: int) -> tuple[Matmul, ...]:
        """The head over ``rows`` states."""
        return encoder.head_matmuls(rows)

    def kept(self, encoder: Encoder, rows: int) -> Kept:
        """So many states through the head."""
        return encoder.head_kept(rows)


class Masked(LanguageModel):
    """What is hidden from the input to be predicted.

    At most ``predictions(seq)`` positions of a row are predicted, so shapes are static.
    """

    p: Annotated[float, Field(gt=0, le=1)] = 0.15  # BERT --masked_lm_prob
    unit: Unit = TokenUnit()
    replace: Replace = Replace()
    replace_per: Literal["token", "span"] = "token"  # BERT: a draw a token; SpanBERT: a draw a span
    random_from: Literal["vocabulary", "ordinary", "corpus"] = "vocabulary"
    masking: Masking = DynamicMasking()
    count: Literal["nearest", "up", "stochastic"] = "nearest"  # BERT: int(round(len * p))
    mask_specials: bool = False  # true: [CLS] and [SEP] are candidates and count (fairseq RoBERTa)
    distinct: bool = True  # false: a token may be drawn again and counts again (ELECTRA)
    max_predictions: Annotated[int, Field(ge=0, le=100_000)] = 0  # 0: as many as p asks for
    # Tokens are drawn with weight (how often they stand in the text)^-rare (XLM --sample_alpha,
    # DistilBERT --mlm_smoothing; both released with 0 and 0.7).
    rare: Annotated[float, Field(ge=0, le=2)] = 0.0
    positional = ("p", "unit")
    head = "mlm"  # whichever term hides the tokens

    @model_validator(mode="after")
    def _rare_tokens(self) -> Self:
        if self.rare and not isinstance(self.unit, TokenUnit):
            raise ValueError(f"rare weighs single tokens, and unit is {self.unit.kind}")
        return self

    @model_validator(mode="after")
    def _draws_tokens(self) -> Self:
        if not self.distinct and not isinstance(self.unit, TokenUnit):
            raise ValueError(f"distinct=false draws single tokens, and unit={self.unit.kind}")
        if not self.distinct and self.rare:
            raise ValueError("distinct=false draws all tokens alike, and rare weighs them")
        return self

    def predictions(self, seq: int) -> int:
        """Predicted positions a row, the K of the (batch, K) tensors."""
        wanted = max(1, math.ceil(self.p * seq))
        return min(wanted, self.max_predictions) if self.max_predictions else wanted


class Mlm(Masked):
    """Predict tokens hidden from the input (BERT 3.1), in rows of one language."""

    kind: Literal["mlm"] = "mlm"
    shorthand = "unit"


class Tlm(Masked):
    """Predict tokens hidden from a sentence and its translation (XLM 3.3), by mlm's head.

    Rows are ``pairs``. Positions of the translation begin again at 0.
    """

    kind: Literal["tlm"] = "tlm"


class Clm(LanguageModel):
    """Predict every next token, from it and those before (Transformer-XL, section 3; GPT).

    An encoder that learns this is causal, when it is used too.
    """

    kind: Literal["clm"] = "clm"
    head = "clm"

    def predictions(self, seq: int) -> int:
        """Predicted positions a row: all."""
        return seq


class Plm(LanguageModel):
    """Predict some tokens of a row in a random order, each from those before it (Yang et al. 2019).

    About one token in ``k`` is told, ``predictions(seq)`` of a row; all others are seen from the
    start. They come in runs of n in 1..``max``, P(n) proportional to 1/n, each from a word start in
    a context of k n tokens; ``unit`` is what n counts. Tokens change places within blocks of
    ``block``, in all blocks alike, and a block comes after those before it; 0, or more than there
    are in a row: the row is one.
    """

    kind: Literal["plm"] = "plm"
    k: Annotated[int, Field(ge=1, le=1000)] = 6  # XLNet data_utils.py --mask_alpha, --mask_beta 1
    max: Annotated[int, Field(ge=1, le=64)] = 5  # data_utils.py, _sample_mask: max_gram
    unit: Literal["words", "pieces"] = "words"
    block: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    positional = ("k", "max")
    head = "plm"

    def predictions(self, seq: int) -> int:
        """Predicted positions a row: of 512 tokens 85 (XLNet README, --num_predict)."""
        return max(1, seq // self.k)


class Sbo(Node):
    """Predict the tokens of a masked span from the two around it and their place (SpanBERT 3.2).

    Needs an ``mlm`` term with span units. At most ``max_targets`` tokens of a span are predicted.
    """

    kind: Literal["sbo"] = "sbo"
    max_targets: Annotated[int, Field(ge=1, le=200)] = 15  # SpanBERT README --max-pair-targets 15
    position_dim: Width = 200  # SpanBERT --pair-positional-embedding-size
    extra_pair: bool = True  # divide by pairs + 1, as spanbert_loss.py does
    positional = ("max_targets",)
    scored: ClassVar[Scored] = "tokens"

    def weights(self, encoder: Encoder) -> tuple[Weight, ...]:
        """A position table, two dense + norm layers, and a bias; the output table is tied."""
        init, embedding = encoder.initializer, encoder.embedding
        hidden: tuple[Axis, int] = ("hidden", encoder.hidden)
        feature: tuple[Axis, int] = ("feature", 2 * encoder.hidden + self.position_dim)
        out: tuple[Axis, int] = ("embedding", embedding)
        norm = encoder.norm.head_function
        position = Weight(
            "sbo.position.weight",
            (self.max_targets, self.position_dim),
            ("positions", "feature"),
            init,
            "head",
            "table",
        )
        return (
            position,
            *affine("sbo.first", hidden, feature, init, "head"),
            *norm.weights("sbo.first_norm", *hidden, part="head"),
            *affine("sbo.second", out, hidden, init, "head"),
            *norm.weights("sbo.second_norm", *out, part="head"),
            bias("sbo", ("vocab", encoder.vocab_size), "head"),
        )

    def matmuls(self, encoder: Encoder, rows: int) -> tuple[Matmul, ...]:
        """Two dense layers and the vocabulary projection over ``rows`` predictions."""
        hidden = encoder.hidden
        return (
            Matmul("head", rows, 2 * hidden + self.position_dim, hidden),
            Matmul("head", rows, hidden, encoder.embedding),
            Matmul("head", rows, encoder.embedding, encoder.vocab_size),
        )

    def kept(self, encoder: Encoder, rows: int) -> Kept:
        """The boundary vectors through two dense layers, their scores, and a sum a row."""
        features = 2 * encoder.hidden + self.position_dim
        width = features + 3 * encoder.hidden + 3 * encoder.embedding + encoder.vocab_size
        return Kept(values=rows * width, fp32=rows)


class PairTerm(Node):
    """A binary question about the two segments of an input, asked of the pooled first token."""

    scored: ClassVar[Scored] = "binary"
    answers: ClassVar[tuple[str, str]]
    kind: str

    def weights(self, encoder: Encoder) -> tuple[Weight, ...]:
        """One linear map (hidden -> 2)."""
        hidden: tuple[Axis, int] = ("hidden", encoder.hidden)
        return affine(self.kind, ("labels", 2), hidden, encoder.initializer, "head")

    def matmuls(self, encoder: Encoder, rows: int) -> tuple[Matmul, ...]:
        """One row an example."""
        return (Matmul("head", rows, encoder.hidden, 2),)

    def kept(self, encoder: Encoder, rows: int) -> Kept:
        """The first token, its pooled vector, and two log-probabilities."""
        return Kept(values=3 * encoder.hidden, fp32=2).times(rows)


class Nsp(PairTerm):
    """Is B the text that follows A? 0: yes, 1: it is from another document (BERT 3.1)."""

    kind: Literal["nsp"] = "nsp"
    answers = ("B follows A", "B is from another document")


class Sop(PairTerm):
    """Do A and B stand in their order? 0: yes, 1: swapped (ALBERT 3.1)."""

    kind: Literal["sop"] = "sop"
    answers = ("A and B in their order", "A and B swapped")


class Rtd(Node):
    """Was this token replaced? 0: it is the original, 1: another (ELECTRA 3).

    Asked of every real token, or of those alone that were chosen to be replaced. They are those
    that ``mlm`` predicts, or without it a part ``p`` of the tokens.
    """

    kind: Literal["rtd"] = "rtd"
    over: Literal["all", "masked"] = "all"  # run_pretraining.py: all that input_mask covers
    p: Annotated[float, Field(gt=0, le=1)] = 0.15  # configure_pretraining.py mask_prob
    positional = ("over",)
    scored: ClassVar[Scored] = "binary"

    def choice(self) -> Mlm:
        """Which tokens are replaced where no other term says so, and hidden from a generator."""
        return Mlm(p=self.p, replace=Replace(mask=100, random=0, keep=0))

    def weights(self, encoder: Encoder) -> tuple[Weight, ...]:
        """A dense layer and one score (run_pretraining.py _get_discriminator_output)."""
        hidden: tuple[Axis, int] = ("hidden", encoder.hidden)
        return (
            *affine("rtd.dense", hidden, hidden, encoder.initializer, "head"),
            *affine("rtd", ("labels", 1), hidden, unstated(encoder.initializer), "head"),
        )

    def matmuls(self, encoder: Encoder, rows: int) -> tuple[Matmul, ...]:
        """The head over ``rows`` states."""
        return (
            Matmul("head", rows, encoder.hidden, encoder.hidden),
            Matmul("head", rows, encoder.hidden, 1),
        )

    def kept(self, encoder: Encoder, rows: int) -> Kept:
        """The dense layer before and after its activation, and of a score its loss's parts."""
        return Kept(values=rows * (2 * encoder.hidden + 1), fp32=3 * rows)


Pretraining = Mlm | Tlm | Clm | Plm | Sbo | Nsp | Sop | Rtd
"""What is learned from text alone."""
Objective = Annotated[
    Pretraining
    | (Glue | Xnli | Squad | Race | Tagging)
    | (Classify | Regress | Choose | Tag | Read),
    Field(discriminator="kind"),
]
"""The closed union of what an encoder may be trained to do: a task is an objective too."""


class Term(Node):
    """One summand of the loss and its factor."""

    weight: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    objective: Objective

    @property
    def name(self) -> str:
        """That of its head, its loss and its scores."""
        if isinstance(self.objective, Task):
            return self.objective.title
        return self.objective.kind
