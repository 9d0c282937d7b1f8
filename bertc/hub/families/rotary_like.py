"""Settings that families of networks with rotary positions and a gated part share."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from bertc.base.storage.plain_file import shown
from bertc.hub.families.config import MEANING, NO_CLASS, ROPE, HfConfig, Tokens, ends
from bertc.ir.base import Probability, Width
from bertc.ir.network import layer, norm
from bertc.ir.network.attention import FullAttention, LocalAttention
from bertc.ir.network.attention_node import ContentAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import Activation, Glu
from bertc.ir.network.head import LinearHead
from bertc.ir.network.positions import RotaryPositions, Theta
from bertc.ir.program.settings import Heads

GateActivation = Literal["gelu", "silu", "swish"]
GateKind = Literal["geglu", "geglu-tanh", "swiglu"]
GATES: dict[Activation, GateKind] = {
    "gelu": "geglu", "gelu-tanh": "geglu-tanh", "silu": "swiglu",
}  # fmt: skip


_ALL = {"factor": "factor", "length": "original_max_position_embeddings"}
ROPES: Mapping[str, Mapping[str, str]] = {
    "default": {}, "linear": {"scale": "factor"},
    "llama3": {**_ALL, "slow": "low_freq_factor", "fast": "high_freq_factor"},
    "yarn": {**_ALL, "slow": "beta_slow", "fast": "beta_fast", "attention": "attention_factor"},
}  # fmt: skip
"""Numbers of rotary positions, or of what scales them, by their names in transformers."""


def turned_by(rope: Mapping[str, Any], theta: float = 1e4, longest: int = 8) -> RotaryPositions:
    """Positions by a file's ``rope``, which may leave out the base and the length of rows."""
    said = {name: value for name, value in rope.items() if value is not None}
    kind = str(said.pop("rope_type", said.pop("type", "default")))
    names, usual = ROPES.get(kind, {}), {"original_max_position_embeddings": longest}
    known = {"rope_theta": theta, **usual, "beta_slow": 1, "beta_fast": 32, **said}
    needed = {*names.values()} - {"attention_factor"}
    if kind not in ROPES or needed - {*known} or {*said} - {"rope_theta", *names.values()}:
        raise ValueError(f"{kind}: settings of other angles, or too few")
    numbers = {ours: known[name] for ours, name in names.items() if name in known}
    scales = numbers if "scale" in numbers or not numbers else {"scaled": {"kind": kind, **numbers}}
    try:
        return RotaryPositions(theta=known["rope_theta"], **scales)
    except ValidationError as error:
        ours, every = error.errors()[0]["loc"][-1], {**names, "theta": "rope_theta"}
        wrong = [every[str(ours)]] if ours in every else [*filter(known.get, names.values())]
        stated = ", ".join(f"{name} = {shown(known[name])}" for name in wrong)
        raise ValueError(f"{stated} is no number within limits") from None


def rope_of(turned: RotaryPositions) -> dict[str, Any]:
    """The same of positions, as far as a file can say them."""
    scaled, numbers = turned.scaled.kind, {**vars(turned), **vars(turned.scaled)}
    kind = scaled if scaled != "none" else "default" if turned.scale == 1 else "linear"
    known = {name: numbers[ours] for ours, name in ROPES[kind].items() if numbers[ours]}
    return {"rope_type": kind, "rope_theta": turned.theta, **known}


def _plain(rope: dict[str, Any]) -> dict[str, Any]:
    if turned_by(rope) != RotaryPositions(theta=rope.get("rope_theta") or 1e4):
        raise ValueError  # as the setting says
    return rope


ScaledRope = Annotated[dict[str, Any], AfterValidator(lambda rope: turned_by(rope) and rope)]
SCALABLE: Any = Field(None, description="default, linear, llama3 or yarn with its numbers in bertc")
UNSCALED: Any = Field(None, description="rope_theta alone in bertc: angles are not scaled")
GLOBAL: Final = "full_attention"
LOCAL: Final = "sliding_attention"
LayerKind = Literal["full_attention", "sliding_attention"]
Ropes = dict[LayerKind, Annotated[dict[str, Any], AfterValidator(_plain)] | None]
Content = FullAttention | LocalAttention


def turned_by_kind(ropes: Ropes | None, far: float, near: float | None) -> RotaryPositions:
    """Positions by the bases of global and of local layers; without ``near`` both have one."""
    bases = {kind: rope.get("rope_theta") for kind, rope in (ropes or {}).items() if rope}
    theta = bases.get(GLOBAL) or far
    return RotaryPositions(theta=theta, local_theta=bases.get(LOCAL) or near or theta)


def windows_by_kind(kinds: list[LayerKind], sides: int, how: Mapping[str, Any]) -> Content:
    """Attention with windows of ``sides`` tokens on each in local layers, if there are any."""
    far = tuple(n for n, kind in enumerate(kinds) if kind == GLOBAL)
    if len(far) == len(kinds):
        return FullAttention(**how)
    return LocalAttention(window=2 * sides, global_layers=far, **how)


def by_kind(encoder: Encoder) -> dict[str, Any]:
    """The kind of every layer, and the bases of both kinds."""
    attention, positions, depth = encoder.attention, encoder.positions, encoder.depth
    assert isinstance(positions, RotaryPositions), "as claimed"
    bases = {GLOBAL: positions.theta, LOCAL: positions.local_theta}
    return {
        "layer_types": [LOCAL if attention.at(n).reach else GLOBAL for n in range(depth)],
        "rope_parameters": {of: rope_of(RotaryPositions(theta=x)) for of, x in bases.items()},
    }


class HfGated(HfConfig):
    """Settings of the gate and of biases, which all of them have."""

    copied = frozenset({"max_position_embeddings", "classifier_pooling"})

    hidden_act: GateActivation = "silu"
    hidden_dropout_prob: Probability = 0.0
    attention_probs_dropout_prob: Probability = 0.0
    attention_bias: bool = False
    mlp_bias: bool = False

    @model_validator(mode="after")
    def _names_each_layer(self) -> Self:
        depth = self.num_hidden_layers
        for name in ("layer_types", "attention_windows"):
            if (entries := len(getattr(self, name, None) or ())) not in (0, depth):
                raise ValueError(f"{name} has {entries} entries for {depth} layers", NO_CLASS)
        return self

    def settings(self) -> dict[str, Any]:
        return super().settings() | {
            "activation": Glu(kind=GATES[MEANING[self.hidden_act]], bias=self.mlp_bias),
            "attention": FullAttention(bias=self.attention_bias),
        }

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        """Settings of an encoder, with the nearest gate for a part without."""
        return {
            **super().values(encoder, tokens),
            "hidden_act": "silu" if encoder.ffn.head_activation == "silu" else "gelu",
            "attention_bias": getattr(encoder.attention, "bias", True),
            "mlp_bias": getattr(encoder.ffn, "bias", True) is True,
            **ends(tokens),
        }


class HfTurned(HfGated):
    """Settings of one base of the angles for all layers."""

    head_dim: Width | None = None
    rope_parameters: ScaledRope | None = SCALABLE
    rope_scaling: ScaledRope | None = SCALABLE
    rope_theta: Theta = 10_000.0

    def settings(self) -> dict[str, Any]:
        fills = self.head_dim in (None, self.hidden_size // self.num_attention_heads)
        return {
            **super().settings(),
            **({} if fills else {"head_dim": self.head_dim}),
            "positions": self._positions(),
        }

    def _positions(self) -> RotaryPositions:
        rope = self.rope_scaling or self.rope_parameters or {}
        return turned_by(rope, self.rope_theta, self.max_position_embeddings)

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        positions = encoder.positions
        assert isinstance(positions, RotaryPositions), "as claimed"
        return {
            **super().values(encoder, tokens),
            "head_dim": encoder.layers[0].head_dim,
            "rope_parameters": rope_of(positions),
        }


class HfGrouped(HfTurned):
    """Settings of Llama's blocks: RMS norms, heads that share keys, and a linear head."""

    spelling = {
        "rms_norm_eps": "layer_norm_eps",
        "attention_dropout": "attention_probs_dropout_prob",
    }
    missing = frozenset({"type_vocab_size", "hidden_dropout_prob", *spelling.values()})
    only = ROPE

    num_key_value_heads: Heads | None = None
    hidden_dropout_prob: Literal[0] = 0
    type_vocab_size: Literal[0] = 0
    layer_norm_eps: norm.Epsilon = 1e-6
    tie_word_embeddings: bool = False

    def settings(self) -> dict[str, Any]:
        fewer = self.num_key_value_heads or self.num_attention_heads
        return super().settings() | {
            "norm": norm.PreNorm(eps=self.layer_norm_eps, function="rms"),
            "attention": self._attention(
                kv_heads=0 if fewer == self.num_attention_heads else fewer, bias=self.attention_bias
            ),
            "dropout": layer.Dropout(hidden=0, attention=self.attention_probs_dropout_prob),
            "head": LinearHead(bias=self.mlp_bias, tied=self.tie_word_embeddings),
        }

    def _attention(self, **how: Any) -> Content:
        return FullAttention(**how)

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        attention, heads = encoder.attention, encoder.layers[0].heads
        fewer = attention.key_heads(heads) if isinstance(attention, ContentAttention) else heads
        return {
            **super().values(encoder, tokens),
            "num_key_value_heads": fewer,
            "tie_word_embeddings": encoder.head.tied,
        }
