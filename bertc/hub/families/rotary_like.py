"""Data and functions shared by families of encoders with rotary positions and a gated part."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from bertc.hub.families.config import MEANING, HfActivation
from bertc.ir.network.attention import FullAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import Glu
from bertc.ir.network.positions import RotaryPositions, Theta

PadId = Annotated[int, Field(ge=0, le=1_000_000)]
GateActivation = Literal["gelu", "silu", "swish"]


class Rope(BaseModel):
    """Rotary positions in a configuration (RopeParameters); positions as they are, no scaling."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    rope_type: Literal["default"] = "default"
    rope_theta: Theta | None = None


def rope(theta: float) -> dict[str, float | str]:
    """Rotary positions for a configuration."""
    return {"rope_type": "default", "rope_theta": theta}


def gated_part(activation: HfActivation, bias: bool) -> Glu:
    """The feed-forward part of a configuration."""
    return Glu(kind="geglu" if MEANING[activation] == "gelu" else "swiglu", bias=bias)


def gate(encoder: Encoder) -> Literal["gelu", "silu"]:
    """The activation of a gate, the nearest one for a part without."""
    return "silu" if encoder.head_activation == "silu" else "gelu"


def has_biases(encoder: Encoder) -> bool:
    """True if all maps of the feed-forward part have biases."""
    return getattr(encoder.ffn, "bias", True) is True


def attention_of(encoder: Encoder) -> FullAttention:
    """Its attention, or the plain one if it is of another kind."""
    attention = encoder.attention
    return attention if isinstance(attention, FullAttention) else FullAttention()


def theta(encoder: Encoder) -> float:
    """The base of its angles."""
    positions = encoder.positions
    assert isinstance(positions, RotaryPositions), "as claimed"
    return positions.theta
