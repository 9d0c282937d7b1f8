"""The base class of IR nodes, and the weight table's entries.

The axes used by every weight table, once for the whole project:

    vocab       token ids                       positions   rows of the position table
    segments    token types                     embedding   width of the embedding tables (E)
    hidden      width of the residual stream    heads       attention width, heads x head_dim
    ffn         inner width of the FFN          labels      classes of a classification head
    languages   rows of the language table      feature     input of a head of several vectors
    gates       gates of a recurrent layer, side by side
    kv_heads    width of keys, fewer heads than queries have
    rank        width within an adapter's pair  head_dim    width of one head
    outputs     earlier outputs whose sum a part reads
    own         any axis of a weight of the user's own part
"""

import math
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache, wraps
from operator import not_
from types import MethodType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core.core_schema import CoreSchema, no_info_plain_validator_function

Axis = Literal[
    "vocab", "positions", "segments", "languages", "embedding", "hidden", "heads", "ffn", "gates",
    "labels", "feature", "kv_heads", "head_dim", "rank", "outputs", "own",
]  # fmt: skip
Dim = tuple[Axis, int]
"""An axis and its size."""
Part = Literal["embeddings", "attention", "ffn", "recurrence", "norm", "pooler", "head", "adapter"]
DeviceKind = Literal["cpu", "cuda"]
Role = Literal["matrix", "table", "bias", "norm"]

NAME_RULE = "at most 40 characters, without / and \\, and no dot first"
"""The rule of names that users choose."""
Width = Annotated[int, Field(ge=1, le=1_000_000)]
TableRows = Annotated[int, Field(ge=1, le=10_004_095)]
"""Rows of a token table: 10 million at most, and those up to a multiple of 4,096."""
Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=10**12)]
On = Annotated[bool, Field(exclude_if=bool)]
"""True in programs written before it was a setting: dumps omit it, so that fingerprints stay."""
Off = Annotated[bool, Field(exclude_if=not_)]
"""The same, false before it was a setting."""


def is_plain(name: str) -> bool:
    """True of a name that can be printed and be part of a file's name."""
    return len(name) <= 40 and name.isprintable() and not re.search(r"^\.|[/\\]", name)


def plain_name(name: str) -> str:
    """Check a name that the user has chosen."""
    if not is_plain(name):
        raise ValueError(f"{name[:40]!r} is no name", NAME_RULE)
    return name


class Node(BaseModel):
    """A frozen value of the IR; equal fields mean equal nodes, and unknown fields are errors.

    ``positional`` names the fields that unnamed arguments fill, in order. ``bare_number`` and
    ``bare_string`` name the fields that a value written without its kind fills (``vocab=30k``,
    ``data="corpus/*.txt"``). ``shorthand`` names the field whose kinds, written alone, stand for
    the whole node (``objective=span``). ``others`` names the field that collects all arguments with
    unknown names as (name, text) (``pairs(en="a.en", fr="a.fr")``). ``looked_up`` names the fields
    that are read from files and never written. ``number_unit`` is the word after a bare number that
    makes it one of this kind (``3G tokens``).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, defer_build=True)

    positional: ClassVar[tuple[str, ...]] = ()
    bare_number: ClassVar[tuple[str, ...]] = ()
    bare_string: ClassVar[tuple[str, ...]] = ()
    shorthand: ClassVar[str] = ""
    others: ClassVar[str] = ""
    looked_up: ClassVar[tuple[str, ...]] = ()
    number_unit: ClassVar[str] = ""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        _forget_class_variables(cls)


def _forget_class_variables(node: type[Node]) -> None:
    """Drop the annotations of class variables, which pydantic keeps by name.

    Each subclass would evaluate them once more, 5% of what a command of a spec takes.
    """
    annotations = node.__dict__.get("__annotations__", {})
    for name in node.__class_vars__ & annotations.keys():
        del annotations[name]


_forget_class_variables(Node)


class Tokens(Node):
    """A length in tokens, padding included, which a pass turns into steps."""

    tokens: Annotated[int, Field(ge=1, le=10**18)]
    bare_number = ("tokens",)
    number_unit = "tokens"


class _ByKind:
    """The choice among the nodes of a union by their ``kind``.

    pydantic's own discriminator builds the schema of each of them, most of what a command on a spec
    would take; here a node's schema is built when a program has it. The bare name of a kind is
    accepted, as older run folders have it.
    """

    def __get_pydantic_core_schema__(self, union: Any, _: GetCoreSchemaHandler) -> CoreSchema:
        nodes: tuple[type[Node], ...] = get_args(union)
        by_kind = {
            str(kind): node
            for node in nodes
            for kind in get_args(node.model_fields["kind"].annotation)
        }

        def node_of(value: Any) -> Node:
            if isinstance(value, nodes):
                return value
            fields = {"kind": value} if isinstance(value, str) else value
            kind = fields.get("kind") if isinstance(fields, dict) else None
            if kind not in by_kind:
                raise ValueError(f"its kind is {kind}, not one of {', '.join(by_kind)}")
            return by_kind[kind].model_validate(fields)

        return no_info_plain_validator_function(node_of)


BY_KIND = _ByKind()


class Glorot(Node):
    """Uniform within sqrt(6 / (inputs + outputs)), TensorFlow's default initializer."""

    kind: Literal["glorot"] = "glorot"


class TruncatedNormal(Node):
    """Normal, truncated at ``cut`` standard deviations (BERT, modeling.py create_initializer).

    ``depth_scaled``: of maps back to the residual stream only std / sqrt(2 x layers) (Megatron-LM
    scaled_init_method_normal; ModernBERT init_method full_megatron); ``by-layer``: of all maps of
    feed-forward parts, std / sqrt(2 x the layer's number, from 1) (LTG-BERT, Encoder).
    ``glorot`` uses that rule for the projection between embeddings and layers of different widths,
    the last layer of ``rtd``'s head and the query-stream embedding (ELECTRA modeling.py and
    run_pretraining.py; XLNet modeling.py).
    """

    kind: Literal["truncated-normal"] = "truncated-normal"
    std: Annotated[float, Field(gt=0, le=10)] = 0.02  # BERT config initializer_range
    glorot: bool = False
    cut: Annotated[float, Field(gt=0, le=10, exclude_if=(2.0).__eq__)] = 2.0
    depth_scaled: Annotated[bool | Literal["by-layer"], Field(exclude_if=not_)] = False
    positional = ("std",)


class Normal(Node):
    """Normal (fairseq init_bert_params, Hugging Face ports).

    ``norms``: standard deviation around 1 of the norms' scales (Transformer-XL, train.py
    weights_init). ``positions``: standard deviation of the position table, 0: ``std`` (GPT-2,
    model.py). ``glorot``: as for ``truncated-normal``.
    """

    kind: Literal["normal"] = "normal"
    std: Annotated[float, Field(gt=0, le=10)] = 0.02
    norms: Annotated[float, Field(ge=0, le=10)] = 0.0
    positions: Annotated[float, Field(ge=0, le=10)] = 0.0
    glorot: bool = False
    positional = ("std", "norms")


class FanIn(Node):
    """Scaled by the input width: tables normal with std width^-1/2, matrices uniform.

    The bounds of matrices are +-inputs^-1/2 (XLM transformer.py, Embedding; torch.nn.Linear).
    """

    kind: Literal["fan-in"] = "fan-in"


class Uniform(Node):
    """Uniform within +-``bound`` (NeoBERT, decoder_init_range)."""

    kind: Literal["uniform"] = "uniform"
    bound: Annotated[float, Field(gt=0, le=10)] = 0.02
    positional = ("bound",)

    @property
    def std(self) -> float:
        return self.bound / math.sqrt(3)


class Constant(Node):
    """A constant (biases 0, norm scales 1), or normal around it with ``std``.

    ``last``: the last element, if it is another.
    """

    kind: Literal["constant"] = "constant"
    value: float = 0.0
    std: float = 0.0
    last: Annotated[float | None, Field(exclude_if=lambda last: last is None)] = None
    positional = ("value",)


class Constructed(Node):
    """The first value that the constructor of an ``own`` part sets for this parameter."""

    kind: Literal["constructed"] = "constructed"
    part: Any
    sizes: tuple[int, ...]
    name: str


Drawn = TruncatedNormal | Normal | FanIn | Uniform
Initializer = Annotated[Drawn, BY_KIND]


def default_init(init: Drawn) -> Drawn | Glorot:
    """The initializer of weights for which ELECTRA and XLNet set none."""
    return Glorot() if isinstance(init, TruncatedNormal | Normal) and init.glorot else init


@dataclass(frozen=True)
class Weight:
    """One trainable tensor as a fact: ``model`` allocates it, ``cost`` counts it.

    ``name`` is its path in the module tree; ``role`` decides whether an optimiser decays it.
    ``frozen``: no stage trains it, so that it has neither gradients nor moments.
    """

    name: str
    shape: tuple[int, ...]
    axes: tuple[Axis, ...]
    init: Drawn | Glorot | Constant | Constructed
    part: Part
    role: Role
    frozen: bool = False

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


ZEROS = Constant(value=0.0)
ONES = Constant(value=1.0)


def matrix(
    name: str, outputs: Dim, inputs: Dim, init: Drawn | Glorot, part: Part, role: Role = "matrix"
) -> Weight:
    """Weight (outputs, inputs) of ``y = x W^T``; as a ``table`` the vectors are its rows."""
    (out_axis, out), (in_axis, in_) = outputs, inputs
    return Weight(f"{name}.weight", (out, in_), (out_axis, in_axis), init, part, role)


def bias(name: str, outputs: Dim, part: Part) -> Weight:
    """Bias (outputs,), added to scores or states."""
    axis, width = outputs
    return Weight(f"{name}.bias", (width,), (axis,), ZEROS, part, "bias")


def affine(
    name: str, outputs: Dim, inputs: Dim, init: Drawn | Glorot, part: Part
) -> tuple[Weight, Weight]:
    """Weight (outputs, inputs) and bias (outputs) of ``y = x W^T + b``."""
    return matrix(name, outputs, inputs, init, part), bias(name, outputs, part)


Ask = TypeVar("Ask", bound=Callable[..., Any])


def once(ask: Ask) -> Ask:
    """Ask each frozen node once; bound methods are equal if their nodes are the same object.

    For questions of estimates and of building alone: compiled code traces through the cache.
    """

    @lru_cache(256)  # the latest answers to each question
    def answer(bound: Callable[..., object], *args: Hashable) -> object:
        return bound(*args)

    @wraps(ask)
    def asked(node: object, *args: Hashable) -> object:
        return answer(MethodType(ask, node), *args)

    return cast(Ask, asked)
