"""The shape of a published recipe: settings of a stage, and the pooler."""

from typing import Required, TypedDict

from bertc.ir.learning.optimizer import Adam
from bertc.ir.network.head import PoolerKind


class Recipe(TypedDict, total=False):
    """Settings of a stage, and whether the encoder has a pooler."""

    optimizer: Required[Adam]
    batch: Required[int]
    seq: Required[int]
    epochs: float
    steps: int
    pooler: PoolerKind
