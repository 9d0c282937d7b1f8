"""Sources of replacement tokens for ``rtd`` (ELECTRA)."""

from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from bertc.ir.base import BY_KIND, Node

TOKENS = "embeddings.token."
Extent = Annotated[int, Field(ge=0, le=1_000_000)]


class Tie(NamedTuple):
    """Weights with the prefix ``weights``, except ``but``, that belong to another network.

    ``added``: they are a difference of the network's own, which begins at zero, and is added to the
    other's weights; these get no gradient from the sum (gradient-disentangled embedding sharing, He
    et al. 2023, 3.2).
    """

    network: str
    weights: str
    but: tuple[str, ...] = ()
    added: bool = False

    def covers(self, name: str) -> bool:
        """True if a weight is tied, by its name within either network."""
        return name.startswith(self.weights) and not name.startswith(self.but)


class NoGenerator(Node):
    """No replacements."""

    kind: Literal["none"] = "none"


class GeneratorNetwork(Node):
    """A masked language model that samples replacements, trained by ``mlm`` (Clark et al. 2020, 3).

    ``size`` is its width as a fraction of the encoder's. A width of 0 is derived by a pass: that of
    states from ``size``, heads of 64 numbers and a feed-forward part four times as wide as the
    states, whatever the encoder has; a depth of 0 means the encoder's, stage by stage. ``tie``
    names what it shares with the encoder: all embeddings with their norm, the token table, or
    nothing. With ``gdes`` the encoder's token table is the generator's, without gradient, and a
    difference (DeBERTa-v3). Its settings without an argument here are the encoder's.
    """

    kind: Literal["network"] = "network"
    size: Annotated[float, Field(gt=0, le=16)] = 0.25  # generator_hidden_size
    layers: Annotated[int, Field(ge=0, le=1000)] = 0  # generator_layers 1.0: as the encoder
    hidden: Extent = 0  # run_pretraining.py get_generator_config: round(size x hidden)
    heads: Annotated[int, Field(ge=0, le=10_000)] = 0  # ditto: max(1, hidden // 64)
    ffn: Extent = 0  # ditto: 4 x hidden
    # modeling.py has one scope for both.
    tie: Literal["embeddings", "tokens", "none", "gdes"] = "embeddings"
    positional = ("size",)
    bare_number = ("size",)

    @property
    def ties(self) -> tuple[tuple[Tie, ...], tuple[Tie, ...]]:
        """The weights that the encoder adds to the generator's, and those that it gives it."""
        match self.tie:
            case "embeddings":
                return (), (Tie("encoder", "embeddings.", but=("embeddings.project.",)),)
            case "tokens":
                return (), (Tie("encoder", TOKENS),)
            case "none":
                return (), ()
            case "gdes":
                return (Tie("generator", TOKENS, added=True),), ()


class UnigramGenerator(Node):
    """Replacements sampled by token frequency in the training text."""

    kind: Literal["unigram"] = "unigram"


class RandomGenerator(Node):
    """Replacements uniform over ordinary tokens (configure_pretraining.py uniform_generator)."""

    kind: Literal["random"] = "random"


Generator = Annotated[NoGenerator | GeneratorNetwork | UnigramGenerator | RandomGenerator, BY_KIND]
"""The closed union of sources of replacements."""
