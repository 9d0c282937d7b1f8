"""Data and functions shared by families of encoders with rotary positions and a gated part."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from bertc.hub.families import bert_like
from bertc.hub.families.config import MEANING, HfActivation
from bertc.hub.families.family import Candidate
from bertc.hub.families.obstacle import Obstacle, first_of
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import Glu
from bertc.ir.network.positions import Theta

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


Row = tuple[bool, str, str, str]
"""True if a program differs from a layout in a setting, the setting, the reason, a remedy."""


def obstacle_of(candidate: Candidate, title: str, own: Iterable[Row]) -> Obstacle | None:
    """The first obstacle, of those of all these families and of the one's own rows."""
    encoder = candidate.encoder
    rows = [*_rows(candidate), *own]
    found = [
        Obstacle(name, f"the {title} layout {why}", mend) for bad, name, why, mend in rows if bad
    ]
    return bert_like.unlike_encoders(encoder) or first_of([*found, *bert_like.unequal(encoder)])


def _rows(candidate: Candidate) -> Iterator[Row]:
    """Settings that none of these layouts has."""
    encoder = candidate.encoder
    hidden, ffn = encoder.hidden, encoder.ffn
    one = "language_embeddings=false"
    yield bool(encoder.languages), "language_embeddings=true", "adds no language to a token", one
    equal = f"embedding={hidden}"
    yield encoder.factorised, f"embedding={encoder.embedding}", "has no narrower table", equal
    yield candidate.shares, "share", "shares no layers", "share=none"
    kind = "swiglu" if encoder.head_activation == "silu" else "geglu"
    plain = not isinstance(ffn, Glu)
    yield plain, f"activation={encoder.head_activation}", "has a gate", f"activation={kind}"
    partly = isinstance(ffn, Glu) and ffn.bias == "outer"
    without = f"activation={kind}(bias=false)"
    yield partly, f"activation={kind}(bias=outer)", "has all biases of the part or none", without


def unsaid_rates(encoder: Encoder, *said: str) -> Iterator[Row]:
    """Rates of dropout that a layout does not say."""
    known = {name: getattr(encoder.dropout, name) for name in ("hidden", "attention", "ffn")}
    plain = ", ".join(f"{rate if name in said else 0:g}" for name, rate in known.items())
    for name, rate in {**known, "last": encoder.dropout.last}.items():
        wrong = name not in said and rate > 0
        yield wrong, f"dropout.{name}={rate:g}", "has none there", f"dropout=dropout({plain})"
