"""Replaced token detection: which tokens others stand in for, and what finding them costs.

Axes: b rows, s positions of a row, k replacements of a row.
"""

from typing import assert_never

import torch

from bertc.ir import address
from bertc.ir.learning.objective import Rtd
from bertc.ir.network.generator import (
    Generator,
    GeneratorNetwork,
    NoGenerator,
    RandomGenerator,
    UnigramGenerator,
)
from bertc.objectives.draws import bits, unit64
from bertc.objectives.mlm import random_tokens
from bertc.objectives.targets import Columns, Inputs, Predictions, Replacements, Tables


def choose_replaced(
    objective: Rtd, inputs: Inputs, masks: Predictions, real_bs: torch.Tensor, key: int
) -> Replacements:
    """What is masked is what is replaced; a chance belongs to its token, however often chosen."""
    return Replacements(
        masks.positions,
        masks.weights,
        unit64(_bits(inputs, masks.positions, key)),
        real_bs.float() if objective.over == "all" else masks.weights,
    )


def draw_replacements(
    source: Generator, tables: Tables, inputs: Inputs, where: Replacements, key: int
) -> torch.Tensor:
    """Tokens (b, k) from a source that reads nothing."""
    match source:
        case UnigramGenerator():
            return random_tokens("corpus", tables, _bits(inputs, where.positions, key))
        case RandomGenerator():
            return random_tokens("ordinary", tables, _bits(inputs, where.positions, key))
        case NoGenerator() | GeneratorNetwork():
            raise ValueError(f"generator={source.kind} is no source that reads nothing")
        case _:
            assert_never(source)


def labels(objective: Rtd, columns: Columns) -> torch.Tensor:
    """1 where the encoder reads another token than the original, (b, s) or (b, k) float."""
    assert columns.rtd is not None, "rtd without its columns"
    other_bs = (columns.reading.token_ids != columns.originals).float()
    return other_bs if objective.over == "all" else other_bs.gather(1, columns.rtd.positions)


def _bits(inputs: Inputs, positions_bk: torch.Tensor, key: int) -> torch.Tensor:
    """Random numbers of the tokens at some positions (b, k)."""
    own = address.key(key, "replacement")
    return bits(own, inputs.copies, inputs.example_ids, inputs.token_ids.shape[1]).gather(
        1, positions_bk
    )
