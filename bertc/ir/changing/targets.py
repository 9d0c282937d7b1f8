"""Targets of pruning: a size or a cost that the network left has at most."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import Node

Share = Annotated[float, Field(gt=0, lt=1)]


class ByShare(Node):
    """A share of what there is, as written."""

    kind: Literal["share"] = "share"


class ToParameters(Node):
    """Parameters of the network with its heads: a number, or a share of those before."""

    kind: Literal["params"] = "params"
    most: Share | Annotated[int, Field(ge=1, le=10**15)]
    positional = ("most",)


class ToFlops(Node):
    """FLOPs of the forward pass of an example: a number, or a share of those before."""

    kind: Literal["flops"] = "flops"
    most: Share | Annotated[int, Field(ge=1, le=10**18)]
    positional = ("most",)


class ToLatency(Node):
    """Predicted seconds per text on this machine's CPU, in fp32 (``bertc latency --predict``)."""

    kind: Literal["latency"] = "latency"
    most: Annotated[float, Field(gt=0, le=3600)]
    length: Annotated[int, Field(ge=1, le=1 << 16)] = 128
    batch: Annotated[int, Field(ge=1, le=1 << 16)] = 1
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    positional = ("most",)


Target = Annotated[ByShare | ToParameters | ToFlops | ToLatency, Field(discriminator="kind")]
"""The closed union of targets; a share needs none."""
