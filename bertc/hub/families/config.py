"""Network settings of a ``config.json``, with BertConfig's names and defaults.

A family's own class states its differences. Defaults are those of transformers 5.23.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bertc.base.storage.json_file import shown_name
from bertc.ir.base import Probability, Width
from bertc.ir.network.ffn import Activation
from bertc.ir.network.norm import Epsilon
from bertc.ir.program.settings import Heads

VocabularySize = Annotated[int, Field(ge=16, le=1_000_000)]
TokenId = Annotated[int, Field(ge=0, le=998)]
Layers = Annotated[int, Field(ge=1, le=1000)]

HfActivation = Literal[
    "gelu", "gelu_python", "gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast",
    "gelu_accurate", "relu", "silu", "swish", "tanh",
]  # fmt: skip
MEANING: dict[HfActivation, Activation] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_python_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu_accurate": "gelu-tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
"""Activations by their names in transformers' activations.ACT2FN."""
ACTIVATIONS: dict[Activation, HfActivation] = {
    "gelu": "gelu",
    "gelu-tanh": "gelu_pytorch_tanh",
    "relu": "relu",
    "silu": "silu",
    "tanh": "tanh",
}
"""Names in transformers' activations.ACT2FN that compute the same to the last bit."""


MOST_LISTED = 12


class Single(NamedTuple):
    """The one value of a setting that bertc computes, and what any other means."""

    value: Any
    otherwise: str


ABSOLUTE = {"position_embedding_type": Single("absolute", "scores depend on distances")}
"""A setting of BERT and its like until transformers 4, which others may have for themselves."""
ROPE = {"rope_scaling": Single(None, "angles grow otherwise with positions"),
        "partial_rotary_factor": Single(None, "a part of a head turns")}  # fmt: skip


class HfConfig(BaseModel):
    """The settings of a network, one per field.

    ``spelling`` maps a family's own names to fields, ``missing`` has the fields that no setting
    names as they are called here; ``older`` names are read where today's are not there. ``ignored``
    maps settings that transformers' class reads, yet without effect on an import, to the reason;
    ``copied`` has those that an export copies. ``only`` has the settings of which bertc computes a
    single value. The class reads no others: a file may have any, ``unread``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    spelling: ClassVar[Mapping[str, str]] = {}
    missing: ClassVar[frozenset[str]] = frozenset()
    older: ClassVar[frozenset[str]] = frozenset()
    ignored: ClassVar[Mapping[str, str]] = {}
    copied: ClassVar[frozenset[str]] = frozenset()
    only: ClassVar[Mapping[str, Single]] = {}

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
    layer_norm_eps: Epsilon = 1e-12
    pad_token_id: TokenId | None = 0

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"num_attention_heads = {self.num_attention_heads} does not divide "
                f"hidden_size = {self.hidden_size}",
                NO_CLASS,
            )
        return self

    @property
    def embedding(self) -> int:
        """Width of the embedding tables."""
        return self.hidden_size

    @property
    def ffn(self) -> int:
        """Inner width of the feed-forward parts."""
        return self.intermediate_size

    @classmethod
    def reads(cls) -> dict[str, str]:
        """The field that each setting of a file fills."""
        fields = {name: name for name in cls.model_fields if name not in {"unread", *cls.missing}}
        return fields | dict(cls.spelling)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """The configuration with these settings of a file."""
        reads = cls.reads()
        known = {reads[name]: cls.meant(name, settings[name]) for name in settings if name in reads}
        return cls.model_validate(known)

    @classmethod
    def meant(cls, name: str, value: Any) -> Any:
        """The value of a field that a setting of a file means."""
        return value

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the import: of code that the file names, and of settings without effect."""
        code = "config.json names code for its classes: only the weights were read"
        others = [name for name in self.unread if name != "auto_map"]
        more = len(others) - MOST_LISTED
        listed = ", ".join(map(shown_name, others[:MOST_LISTED]))
        listed += f" and {more} more" if more > 0 else ""
        plain = f"settings of config.json without effect: {listed}"
        return (*((code,) if "auto_map" in self.unread else ()), *((plain,) if listed else ()))

    @property
    def offset(self) -> int:
        """The first row of the position table in use."""
        return 0


NO_CLASS = "transformers has no class for such a network"
