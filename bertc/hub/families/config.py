"""Network settings of a ``config.json``, with BertConfig's names; defaults of transformers 5.23.

And a vocabulary as an export needs it.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self, Union

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bertc.base.storage.plain_file import name_few
from bertc.ir.base import Normal, Probability, TableRows, Width
from bertc.ir.learning.objective import Pretraining
from bertc.ir.network import attention, ffn, head, layer, norm, sharing
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.positions import LearnedPositions, TablePositions
from bertc.ir.program.settings import Heads

if TYPE_CHECKING:
    from bertc.text.vocab.vocabulary import Vocabulary

VocabularySize = Annotated[TableRows, Field(ge=6)]
PadId = Annotated[int, Field(ge=0, le=1_000_000)]
Layers = Annotated[int, Field(ge=1, le=1000)]

HfActivation = Literal[
    "gelu", "gelu_python", "gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast",
    "gelu_accurate", "relu", "silu", "swish", "tanh",
]  # fmt: skip
MEANING: dict[HfActivation, ffn.Activation] = {
    "gelu": "gelu", "gelu_python": "gelu", "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_new": "gelu-tanh", "gelu_python_tanh": "gelu-tanh", "gelu_fast": "gelu-tanh",
    "gelu_accurate": "gelu-tanh", "relu": "relu", "silu": "silu", "swish": "silu", "tanh": "tanh",
}  # fmt: skip
"""Activations by their names in transformers' activations.ACT2FN."""
ACTIVATIONS = {ours: name for name, ours in reversed(MEANING.items())}
"""The first name of each, which computes the same to the last bit."""

MOST_LISTED = 12


class Single(NamedTuple):
    """The one value of a setting that bertc computes, and what any other means."""

    value: Any
    otherwise: str


ABSOLUTE = {"position_embedding_type": Single("absolute", "scores depend on distances")}
"""A setting of BERT and its like until transformers 4, which others may have for themselves."""
ROPE = {"partial_rotary_factor": Single(None, "a part of a head turns")}


class Wordless(NamedTuple):
    """A vocabulary without files, of which some ids are known."""

    pad: int
    cls: int | None = None
    sep: int | None = None
    bos: int | None = None
    eos: int | None = None
    mask: int = 0
    cls_last: bool = False

    def save(self, *_: object) -> None:
        """Write nothing."""


Tokens = Union["Vocabulary", Wordless]
ClsPlace = Literal["first", "last"]


def place_of_cls(tokens: Tokens, causal: bool = False) -> ClsPlace:
    """The place of [CLS] among the tokens of a text, or of what stands for it."""
    return "last" if tokens.cls_last or causal else "first"


def ends(tokens: Tokens) -> dict[str, int | None]:
    """Tokens before and after a text; those of a row if the tokenizer names no others."""
    return {
        "bos_token_id": tokens.cls if tokens.bos is None else tokens.bos,
        "eos_token_id": tokens.sep if tokens.eos is None else tokens.eos,
    }


class HfConfig(BaseModel):
    """The settings of a network, one per field, and bertc's for them in both directions.

    ``spelling`` maps a family's own names to fields, ``missing`` has the fields that no setting
    names as they are called here; ``older`` names are read where today's are not there. ``ignored``
    are settings that transformers' class reads, yet without effect on an import; ``copied`` are
    those that an export copies. ``only`` has the settings of which bertc computes a single value,
    ``of_training`` rates that bertc's training lacks. The class reads no others: a file may have
    any, ``unread``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    spelling: ClassVar[Mapping[str, str]] = {}
    missing: ClassVar[frozenset[str]] = frozenset()
    older: ClassVar[frozenset[str]] = frozenset()
    ignored: ClassVar[frozenset[str]] = frozenset()
    copied: ClassVar[frozenset[str]] = frozenset()
    only: ClassVar[Mapping[str, Single]] = {}
    of_training: ClassVar[tuple[str, ...]] = ()

    unread: tuple[str, ...] = ()
    model_type: str
    vocab_size: VocabularySize = 30_522
    hidden_size: Width = 768
    num_hidden_layers: Layers = 12
    num_attention_heads: Heads = 12
    intermediate_size: Width = 3072
    hidden_act: HfActivation = "gelu"
    hidden_dropout_prob: Probability = 0.1
    attention_probs_dropout_prob: Probability = 0.1
    max_position_embeddings: Width = 512
    type_vocab_size: Layers = 2
    initializer_range: Annotated[float, Field(gt=0, le=10)] = 0.02
    layer_norm_eps: norm.Epsilon = 1e-12
    pad_token_id: PadId | None = 0

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        width, heads = self.hidden_size, self.num_attention_heads
        if width % heads:
            message = f"num_attention_heads = {heads} does not divide hidden_size = {width}"
            raise ValueError(message, NO_CLASS)
        return self

    @property
    def offset(self) -> int:
        """The first row of the position table in use."""
        return 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on code that the file names, on settings without effect, and on rates."""
        code = "config.json names code for its classes: only the weights were read"
        names = [name for name in self.unread if name != "auto_map"]
        plain = f"settings of config.json without effect: {name_few(names, MOST_LISTED)}"
        rates = {name: getattr(self, self.spelling[name]) for name in self.of_training}
        rates_text = ", ".join(f"{name} = {rate:g}" for name, rate in rates.items() if rate)
        trained = f"{rates_text}: of training alone, where bertc has no such dropout"
        notes = {code: "auto_map" in self.unread, plain: bool(names), trained: bool(rates_text)}
        return tuple(note for note, holds in notes.items() if holds)

    @property
    def learned(self) -> Pretraining | None:
        """The objective of a head over the vocabulary that reads in one of two directions."""
        return None

    def turned_at(self, rates: Collection[float]) -> Self:
        """The same with the rates of angles that the weights have, where a class reads those."""
        return self

    @classmethod
    def reads(cls) -> dict[str, str]:
        """The field that each setting of a file fills."""
        fields = {name: name for name in cls.model_fields if name not in {"unread", *cls.missing}}
        return fields | dict(cls.spelling)

    @classmethod
    def of_rows(cls, longest: int) -> dict[str, int]:
        """The setting of the longest row, 0: unsaid, which a table of positions overrides."""
        names = (name for name, field in cls.reads().items() if field == "max_position_embeddings")
        return {name: longest for name in names if longest and name not in cls.older}

    @classmethod
    def meant(cls, name: str, value: Any) -> Any:
        """The value of a field that a setting of a file means."""
        return value

    def settings(self) -> dict[str, Any]:
        """bertc's settings of the network."""
        return {
            "layers": self.num_hidden_layers, "hidden": self.hidden_size,
            "heads": self.num_attention_heads, "ffn": self.intermediate_size,
            "embedding": self.hidden_size, "share": sharing.ShareNone(),
            "activation": MEANING[self.hidden_act],
            "norm": norm.PostNorm(eps=self.layer_norm_eps),
            "positions": LearnedPositions(
                rows=self.max_position_embeddings, offset=self.offset, padding=self.offset - 1
            ),
            "attention": attention.FullAttention(),
            "segments": self.type_vocab_size,
            "dropout": layer.Dropout(
                hidden=self.hidden_dropout_prob, attention=self.attention_probs_dropout_prob
            ),
            "initializer": Normal(std=self.initializer_range),
            "head": head.TransformHead(), "languages": (), "language_embeddings": False,
        }  # fmt: skip

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        """Fields, and other settings of a file, of an encoder; the way back of ``settings``."""
        first, positions, init = encoder.layers[0], encoder.positions, encoder.initializer
        rows = positions.rows - positions.offset if isinstance(positions, TablePositions) else None
        return {
            "hidden_size": encoder.hidden, "num_hidden_layers": len(encoder.layers),
            "num_attention_heads": first.heads, "intermediate_size": first.ffn,
            "hidden_act": ACTIVATIONS[encoder.ffn.head_activation],
            "hidden_dropout_prob": encoder.dropout.hidden,
            "attention_probs_dropout_prob": encoder.dropout.attention,
            **({"max_position_embeddings": rows} if rows else {}),
            "type_vocab_size": encoder.segments,
            # bertc's default where widths decide.
            "initializer_range": 0.02 if init.kind == "fan-in" else init.std,
            "layer_norm_eps": encoder.norm.eps, "pad_token_id": tokens.pad,
            "tie_word_embeddings": True, "dtype": "float32",
        }  # fmt: skip

    @classmethod
    def to_file(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        """The settings of ``config.json`` for an encoder, without class, type and vocabulary."""
        names = {field: name for name, field in cls.spelling.items() if name not in cls.older}
        values = cls.values(encoder, tokens)
        absent = cls.missing - names.keys()
        return {names.get(field, field): v for field, v in values.items() if field not in absent}

    @classmethod
    def again(cls, encoder: Encoder, tokens: Tokens) -> Self:
        """The configuration of an encoder, as it is read back."""
        reads, settings = cls.reads(), cls.to_file(encoder, tokens)
        known = {reads[name]: cls.meant(name, settings[name]) for name in settings if name in reads}
        return cls.model_validate(known)


NO_CLASS = "transformers has no class for such a network"
