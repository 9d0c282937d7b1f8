"""A token table factorised by its singular values: a narrow table and a projection.

Axes: v tokens, h width of embeddings, r rank.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from bertc.compress.prune import with_table
from bertc.ir.network.table import FactorisedTable
from bertc.ir.program.model import model_weights
from bertc.ir.program.network import MAIN
from bertc.ir.program.resolved import Resolved

TABLE, PROJECT = f"{MAIN}.embeddings.token.weight", f"{MAIN}.embeddings.token.project.weight"


def factorised(
    resolved: Resolved, tensors: Mapping[str, Tensor], target: Resolved
) -> tuple[Resolved, dict[str, Tensor]]:
    """A network with the token table of ``target``, and its weights.

    The table is the best approximation of its rank (Eckart and Young 1936); heads over the
    vocabulary project their features by the same map.
    """
    table = target.encoder.table
    assert isinstance(table, FactorisedTable), "the stage factorises its table"
    narrowed = with_table(resolved, table)
    narrow_vr, axes_hr = low_rank(tensors[TABLE], table.rank)
    new = {**tensors, TABLE: narrow_vr, PROJECT: axes_hr}
    for weight in model_weights(narrowed):
        if weight.name.startswith("heads.") and weight.name.endswith(".project.weight"):
            new.setdefault(weight.name, axes_hr.T.contiguous())
    return narrowed, new


def low_rank(table_vh: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """A table (v, r) and orthonormal axes (h, r) whose product is closest to the table.

    The largest coordinate of each axis is positive, so that signs do not depend on the machine.
    """
    whole_vh = table_vh.detach().cpu().double()
    _, axes_hh = torch.linalg.eigh(whole_vh.T @ whole_vh)
    axes_hr = axes_hh.flip(1)[:, :rank]
    largest_1r = axes_hr.abs().argmax(dim=0, keepdim=True)
    axes_hr = axes_hr * axes_hr.gather(0, largest_1r).sign()
    return (whole_vh @ axes_hr).float(), axes_hr.float()


def kept_share(whole_vh: Tensor, narrow_vr: Tensor) -> float:
    """The share of the sum of squares of a table that its factorised form has."""
    return float(narrow_vr.double().square().sum() / whole_vh.double().square().sum())
