"""Where the tokens come from that stand in for others, for ``rtd`` to find (ELECTRA)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import Node

Extent = Annotated[int, Field(ge=0, le=1_000_000)]


@dataclass(frozen=True)
class Tie:
    """Weights that are another network's own: those whose names begin so, but for some."""

    network: str
    weights: str
    but: tuple[str, ...] = ()

    def covers(self, name: str) -> bool:
        """Whether a weight is tied, by the name that both networks call it."""
        return name.startswith(self.weights) and not name.startswith(self.but)


class NoGenerator(Node):
    """Nothing stands in for anything."""

    kind: Literal["none"] = "none"


class GeneratorNetwork(Node):
    """A masked language model draws them; it learns ``mlm`` (Clark et al. 2020, 3).

    ``size`` is its width as a part of the encoder's. A width of 0 follows from the encoder, and a
    pass fills it in; a depth of 0 is the encoder's, stage by stage. ``tie`` names what it shares
    with the encoder: all embeddings with their norm, the token table alone, or nothing. All else of
    it is as the encoder's.
    """

    kind: Literal["network"] = "network"
    size: Annotated[float, Field(gt=0, le=16)] = 0.25  # generator_hidden_size
    layers: Annotated[int, Field(ge=0, le=1000)] = 0  # generator_layers 1.0: as the encoder
    hidden: Extent = 0  # run_pretraining.py get_generator_config: round(size x hidden)
    heads: Annotated[int, Field(ge=0, le=10_000)] = 0  # ditto: max(1, hidden // 64)
    ffn: Extent = 0  # ditto: 4 x hidden
    tie: Literal["embeddings", "tokens", "none"] = "embeddings"  # modeling.py: one scope for both
    positional = ("size",)
    bare_number = ("size",)

    @property
    def ties(self) -> tuple[Tie, ...]:
        """The weights that it shares with the encoder."""
        match self.tie:
            case "embeddings":
                return (Tie("encoder", "embeddings.", but=("embeddings.project.",)),)
            case "tokens":
                return (Tie("encoder", "embeddings.token."),)
            case "none":
                return ()


class UnigramGenerator(Node):
    """They are drawn as often as the training text has them."""

    kind: Literal["unigram"] = "unigram"


class RandomGenerator(Node):
    """They are any ordinary tokens, all as likely (configure_pretraining.py uniform_generator)."""

    kind: Literal["random"] = "random"


Generator = Annotated[
    NoGenerator | GeneratorNetwork | UnigramGenerator | RandomGenerator, Field(discriminator="kind")
]
"""The closed union of sources of replacements."""
