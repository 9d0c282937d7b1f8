"""The base of IR nodes, and the plain facts that they state: weights, matmuls, memory kept.

The axes used by every weight table, once for the whole project:

    vocab       token ids                       positions   rows of the position table
    segments    token types                     embedding   width of the embedding tables (E)
    hidden      width of the residual stream    heads       attention width, heads x head_dim
    ffn         inner width of the FFN          labels      classes of a classification head
    languages   rows of the language table      feature     input of a head of several vectors
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Axis = Literal[
    "vocab", "positions", "segments", "languages", "embedding", "hidden", "heads", "ffn", "labels",
    "feature",
]  # fmt: skip
Part = Literal["embeddings", "attention", "ffn", "norm", "pooler", "head"]
DeviceKind = Literal["cpu", "cuda", "mps"]
Role = Literal["matrix", "table", "bias", "norm"]

Width = Annotated[int, Field(ge=1, le=1_000_000)]
Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=10**12)]


class Node(BaseModel):
    """A frozen value of the IR. Equal fields mean equal nodes; unknown fields are errors.

    ``positional`` names the fields that unnamed arguments fill, in order. ``bare_number`` and
    ``bare_string`` name the fields that a value written without its kind fills
    (``vocab=30k``, ``data="corpus/*.txt"``). ``shorthand`` names the field whose kinds, written
    alone, stand for the whole node (``objective=span``). ``others`` names the field that takes
    every argument whose name is no field's, as (name, text) (``pairs(en="a.en", fr="a.fr")``).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, defer_build=True)

    positional: ClassVar[tuple[str, ...]] = ()
    bare_number: ClassVar[tuple[str, ...]] = ()
    bare_string: ClassVar[tuple[str, ...]] = ()
    shorthand: ClassVar[str] = ""
    others: ClassVar[str] = ""


def _of_that_kind(value: object) -> object:
    return {"kind": value} if isinstance(value, str) else value


ONCE_A_NAME = BeforeValidator(_of_that_kind)
"""The name of a kind is that kind: older run folders have no more of it than that."""


class Glorot(Node):
    """Uniform draws within sqrt(6 / (inputs + outputs)), as of TensorFlow that is told nothing."""

    kind: Literal["glorot"] = "glorot"


class TruncatedNormal(Node):
    """Normal draws cut at two standard deviations (BERT, modeling.py create_initializer).

    ``glorot``: by that rule the map from embeddings of another width, the last map of ``rtd`` and
    the vector of what is unseen (ELECTRA modeling.py and run_pretraining.py; XLNet modeling.py).
    """

    kind: Literal["truncated-normal"] = "truncated-normal"
    std: Annotated[float, Field(gt=0, le=10)] = 0.02  # BERT config initializer_range
    glorot: bool = False
    positional = ("std",)


class Normal(Node):
    """Normal draws (fairseq init_bert_params, Hugging Face ports).

    ``norms``: the scales of norms are drawn around 1 with this deviation (Transformer-XL, train.py
    weights_init). ``positions``: that of the table of positions, 0: as of all (GPT-2, model.py).
    ``glorot``: as of ``truncated-normal``.
    """

    kind: Literal["normal"] = "normal"
    std: Annotated[float, Field(gt=0, le=10)] = 0.02
    norms: Annotated[float, Field(ge=0, le=10)] = 0.0
    positions: Annotated[float, Field(ge=0, le=10)] = 0.0
    glorot: bool = False
    positional = ("std", "norms")


class FanIn(Node):
    """Scaled by the width that is read: tables normal with std width^-1/2, matrices uniform.

    The bounds of the latter are inputs^-1/2 (XLM transformer.py, Embedding; torch.nn.Linear).
    """

    kind: Literal["fan-in"] = "fan-in"


class Constant(Node):
    """One value everywhere, or draws around it: biases 0, norm scales 1."""

    kind: Literal["constant"] = "constant"
    value: float = 0.0
    std: float = 0.0
    positional = ("value",)


Drawn = TruncatedNormal | Normal | FanIn
Initializer = Annotated[Drawn, Field(discriminator="kind")]


def unstated(init: Drawn) -> Drawn | Glorot:
    """Values of those weights for which ELECTRA and XLNet state none."""
    return Glorot() if not isinstance(init, FanIn) and init.glorot else init


@dataclass(frozen=True)
class Weight:
    """One trainable tensor, as a fact: ``nn`` allocates it, ``estimate`` counts it.

    ``name`` is its address in the module tree; ``role`` tells an optimiser what decays.
    """

    name: str
    shape: tuple[int, ...]
    axes: tuple[Axis, ...]
    init: Drawn | Glorot | Constant
    part: Part
    role: Role

    @property
    def numel(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count


ZEROS = Constant(value=0.0)
ONES = Constant(value=1.0)


def matrix(
    name: str,
    outputs: tuple[Axis, int],
    inputs: tuple[Axis, int],
    init: Drawn | Glorot,
    part: Part,
) -> Weight:
    """Weight (outputs, inputs) of ``y = x W^T``."""
    (out_axis, out), (in_axis, in_) = outputs, inputs
    return Weight(f"{name}.weight", (out, in_), (out_axis, in_axis), init, part, "matrix")


def bias(name: str, outputs: tuple[Axis, int], part: Part) -> Weight:
    """Bias (outputs) that is added to scores or states."""
    axis, width = outputs
    return Weight(f"{name}.bias", (width,), (axis,), ZEROS, part, "bias")


def affine(
    name: str,
    outputs: tuple[Axis, int],
    inputs: tuple[Axis, int],
    init: Drawn | Glorot,
    part: Part,
) -> tuple[Weight, Weight]:
    """Weight (outputs, inputs) and bias (outputs) of ``y = x W^T + b``."""
    return matrix(name, outputs, inputs, init, part), bias(name, outputs, part)
