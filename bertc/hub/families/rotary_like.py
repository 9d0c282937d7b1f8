"""Settings that families of encoders with rotary positions and a gated part share."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bertc.hub.families.config import MEANING, HfConfig, Tokens, ends
from bertc.ir.base import Probability, Width
from bertc.ir.network.attention import FullAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import Glu
from bertc.ir.network.positions import RotaryPositions, Theta

GateActivation = Literal["gelu", "silu", "swish"]


class Rope(BaseModel):
    """Rotary positions in a configuration (RopeParameters); positions as they are, no scaling."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    rope_type: Literal["default"] = "default"
    rope_theta: Theta | None = None


UNSCALED: Any = Field(None, description="rope_theta alone in bertc: angles are not scaled")


class HfGated(HfConfig):
    """Settings of the gate and of biases, which all of them have."""

    copied = frozenset({"max_position_embeddings", "classifier_pooling"})

    hidden_act: GateActivation = "silu"
    hidden_dropout_prob: Probability = 0.0
    attention_probs_dropout_prob: Probability = 0.0
    attention_bias: bool = False
    mlp_bias: bool = False

    def settings(self) -> dict[str, Any]:
        gelu = MEANING[self.hidden_act] == "gelu"
        return super().settings() | {
            "activation": Glu(kind="geglu" if gelu else "swiglu", bias=self.mlp_bias),
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
    rope_parameters: Rope | None = UNSCALED
    rope_theta: Theta = 10_000.0

    def settings(self) -> dict[str, Any]:
        theta = (self.rope_parameters and self.rope_parameters.rope_theta) or self.rope_theta
        fills = self.head_dim in (None, self.hidden_size // self.num_attention_heads)
        return {
            **super().settings(),
            **({} if fills else {"head_dim": self.head_dim}),
            "positions": RotaryPositions(theta=theta),
        }

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        positions = encoder.positions
        assert isinstance(positions, RotaryPositions), "as claimed"
        return {
            **super().values(encoder, tokens),
            "head_dim": encoder.layers[0].head_dim,
            "rope_parameters": Rope(rope_theta=positions.theta).model_dump(),
        }
