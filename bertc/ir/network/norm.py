"""Norm placements and norm functions.

Placement is a setting; it names the norm function of layers, embeddings and heads.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import BY_KIND, ONES, ZEROS, Axis, Node, Off, On, Part, Weight, once
from bertc.ir.network.sharing import SharedPart
from bertc.ir.own import Own

Epsilon = Annotated[float, Field(gt=0, le=1)]


class _Function(Node):
    """A function of a vector, scaled if ``affine``, shifted if ``bias`` too."""

    affine: bool = True
    bias: On = True

    def weights(self, name: str, axis: Axis, width: int, part: Part = "norm") -> tuple[Weight, ...]:
        if not self.affine:
            return ()
        scale = Weight(f"{name}.weight", (width,), (axis,), ONES, part, "norm")
        shift = Weight(f"{name}.bias", (width,), (axis,), ZEROS, part, "norm")
        return (scale, shift) if self.bias else (scale,)

    def operation(self, rows: int, width: int, **how: bool) -> op.Norm:
        """Its operation on states; ``how`` as ``op.Norm`` has it."""
        return op.Norm(rows, width, affine=self.affine, **how)


class LayerNorm(_Function):
    """(x - mean) / sqrt(variance + eps) (Ba et al. 2016; without ``bias`` in ModernBERT)."""

    kind: Literal["layer"] = "layer"
    eps: Epsilon


class RmsNorm(_Function):
    """x / sqrt(mean of x^2 + eps) (Zhang and Sennrich 2019)."""

    kind: Literal["rms"] = "rms"
    eps: Epsilon
    bias: On = False


class OwnNorm(Own):
    """A module of the user's own, from vectors to vectors; ``hidden`` is their width."""

    kind: Literal["own"] = "own"
    affine: bool = True
    looked_up = (*Own.looked_up, "affine")

    def weights(self, name: str, axis: Axis, width: int, part: Part = "norm") -> tuple[Weight, ...]:
        return tuple(self.own_weights(f"{name}.own", {"hidden": width}, part))

    def operation(self, rows: int, width: int, **how: bool) -> op.Recorded:
        """Its operations on states, and those before it that other norms have within them."""
        added = (op.Pointwise("add", rows * width),) if how.get("residual") else ()
        dropped = (op.Dropout(rows, width),) if how.get("dropout") else ()
        return op.Recorded((*dropped, *added, *self.own_operations({"hidden": width}, rows, 1)))


NormFunction = LayerNorm | RmsNorm | OwnNorm
"""The closed union of norm functions; ``model.norm`` builds them."""


class _Placement(Node):
    """The places of norms and their function.

    ``layer``, with or without ``bias``, ``rms``, or ``own("mine.py:Norm")``.
    """

    eps: Epsilon
    function: Annotated[
        Literal["layer", "rms"] | OwnNorm, Field(exclude_if=lambda of: of == "layer")
    ] = "layer"
    bias: On = True
    positional = ("eps",)

    residual_free: ClassVar[bool]
    """True if no norm stands on the residual path, but for one after the last layer."""
    drops_last: ClassVar[bool] = False
    """True if dropout is on what the norm of an output gives, not on what it reads."""

    @property
    def of_layers(self) -> NormFunction:
        return self._norm(True)

    @property
    def of_heads(self) -> NormFunction:
        return self._norm(True)

    @property
    def of_end(self) -> NormFunction | None:
        """The norm after the last layer, where its states are not normalised yet."""
        return None

    def after(self, part: SharedPart) -> NormFunction | None:
        """The norm of what a part adds to the residual stream; None if there is none."""
        return None

    def within(self, part: SharedPart) -> NormFunction | None:
        """The norm of what the last map of a part reads; None if there is none."""
        return None

    @property
    def skips_first(self) -> bool:
        return False

    @once
    def _norm(self, affine: bool) -> NormFunction:
        if self.function == "rms":
            return RmsNorm(eps=self.eps, affine=affine)
        if isinstance(self.function, OwnNorm):
            return self.function
        return LayerNorm(eps=self.eps, affine=affine, bias=self.bias)


class PostNorm(_Placement):
    """norm(x + f(x)): the last layer's output is normalised already (BERT).

    ``embeddings``: the sum of the embeddings is normalised too; not in Transformer-XL and XLNet.
    """

    kind: Literal["post"] = "post"
    eps: Epsilon = 1e-12  # BERT: tf.contrib.layers.layer_norm; Hugging Face layer_norm_eps
    embeddings: bool = True

    residual_free = False


class PreNorm(_Placement):
    """x + f(norm(x)), with a norm after the last layer (StackingBERT, Megatron BERT).

    ``affine=False``: norms of layers have no scale and shift (StackingBERT, --no-normalize-affine).
    ``embeddings=true`` and ``first=false``: their sum is normalised, and layer 0 attends to it as
    it is (ModernBERT). ``last=False``: none stands after the last layer (cramming, final_norm);
    ``unbiased``: one without ``bias`` (ESM C).
    ``context`` and ``inner``: what the output map of attention reads, and the last map of the
    feed-forward part, is normalised (Shleifer et al. 2021, NormFormer; without scale and shift in
    GPT-BERT). ``after_attention``: what attention gives is, with scale and shift and before dropout
    (LTG-BERT, post_layer_norm), ``after_ffn`` what the feed-forward part gives too (Gemma 3).
    """

    eps: Epsilon = 1e-5  # Megatron-LM --layernorm-epsilon
    affine: bool = True
    embeddings: Off = False
    first: On = True
    last: Annotated[bool | Literal["unbiased"], Field(exclude_if=lambda last: last is True)] = True
    kind: Literal["pre"] = "pre"
    context: Off = False
    inner: Off = False
    after_attention: Off = False
    after_ffn: Off = False

    residual_free = True
    drops_last = True

    @property
    def of_layers(self) -> NormFunction:
        return self._norm(self.affine)

    @property
    def skips_first(self) -> bool:
        return not self.first

    @property
    def of_end(self) -> NormFunction | None:
        norm = self.of_layers if self.last else None
        if self.last == "unbiased" and isinstance(norm, LayerNorm):
            return norm.model_copy(update={"bias": False})
        return norm

    def after(self, part: SharedPart) -> NormFunction | None:
        normed = self.after_attention if part == "attention" else self.after_ffn
        return self._norm(True) if normed else None

    def within(self, part: SharedPart) -> NormFunction | None:
        return self.of_layers if (self.context if part == "attention" else self.inner) else None


Norm = Annotated[PostNorm | PreNorm, BY_KIND]
"""The closed union of norm placements."""
