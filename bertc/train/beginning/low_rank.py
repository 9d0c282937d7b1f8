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

    The table is the best approximation of its rank (Eckart and Young 1936). Heads over the
    vocabulary project their features by the same map; those that projected them to a wider table
    go on to the narrower one by least squares of their scores.
    """
    table = target.encoder.table
    assert isinstance(table, FactorisedTable), "the stage factorises its table"
    narrowed = with_table(resolved, table)
    narrow_vr, axes_hr = low_rank(whole_table(tensors), table.rank)
    new = {**tensors, TABLE: narrow_vr, PROJECT: axes_hr}
    for weight in model_weights(narrowed):
        if weight.name.startswith("heads.") and weight.name.endswith(".project.weight"):
            new[weight.name] = axes_hr.T.contiguous()
            if weight.name in tensors:
                new[weight.name] = _between(narrow_vr, tensors[TABLE]) @ tensors[weight.name].cpu()
    return narrowed, new


def whole_table(tensors: Mapping[str, Tensor]) -> Tensor:
    """The token table (v, h), of a factorised one the product."""
    table = tensors[TABLE].detach().cpu().double()
    return table @ tensors[PROJECT].detach().cpu().double().T if PROJECT in tensors else table


def _between(narrow_vr: Tensor, wide_vw: Tensor) -> Tensor:
    """The map (r, w) after which the narrow table gives scores closest to the wide one's."""
    narrow, wide = narrow_vr.double(), wide_vw.detach().cpu().double()
    between: Tensor = torch.linalg.lstsq(narrow, wide, driver="gelsd").solution
    return between.float()


def low_rank(table_vh: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """A table (v, r) and orthonormal axes (h, r) whose product is closest to the table.

    The largest coordinate of each axis is positive, so that signs do not depend on the machine.
    """
    whole_vh = table_vh.double()
    _, axes_hh = torch.linalg.eigh(whole_vh.T @ whole_vh)
    axes_hr = axes_hh.flip(1)[:, :rank]
    largest_1r = axes_hr.abs().argmax(dim=0, keepdim=True)
    axes_hr = axes_hr * axes_hr.gather(0, largest_1r).sign()
    return (whole_vh @ axes_hr).float(), axes_hr.float()


def kept_share(whole_vh: Tensor, narrow_vr: Tensor) -> float:
    """The share of the sum of squares of a table that its factorised form has."""
    return float(narrow_vr.double().square().sum() / whole_vh.double().square().sum())
