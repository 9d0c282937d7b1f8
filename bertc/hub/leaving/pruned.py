"""Pruned networks: which heads and neurons have only weights of zero, and weights without them."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from bertc.ir.network.encoder import Encoder
from bertc.ir.network.sharing import SharedPart
from bertc.ir.program import Resolved
from bertc.ir.weight_maps.pruned import Entries, Removed, entries, prune


def find_removed(encoder: Encoder, tensors: Mapping[str, Tensor]) -> Removed:
    """Heads and neurons whose weights are all zero, by part and layer."""
    used: dict[tuple[SharedPart, int], Tensor] = {}
    for name, place in entries(encoder).items():
        in_use = _by_unit(tensors[name], place).ne(0).any(1)
        key = place.part, place.layer
        used[key] = used[key] | in_use if key in used else in_use
    unused: dict[SharedPart, dict[int, list[int]]] = {"attention": {}, "ffn": {}}
    for (part, layer), one_u in used.items():
        unused[part][layer] = (~one_u).nonzero().flatten().tolist()
    return unused


def norms(encoder: Encoder, part: SharedPart, tensors: Mapping[str, Tensor]) -> dict[int, Tensor]:
    """The norm (u,) of the weights of each head or neuron, by layer."""
    squares: dict[int, Tensor] = {}
    for name, place in entries(encoder).items():
        if place.part == part:
            own_u = _by_unit(tensors[name], place).double().square().sum(1)
            squares[place.layer] = squares.get(place.layer, torch.zeros_like(own_u)) + own_u
    return {layer: total_u.sqrt() for layer, total_u in squares.items()}


def remove_units(
    resolved: Resolved, tensors: Mapping[str, Tensor]
) -> tuple[Resolved, dict[str, Tensor]]:
    """Program and weights of the network that is left; its outputs are the same."""
    encoder = resolved.encoder
    if not isinstance(encoder, Encoder):
        return resolved, dict(tensors)
    removed, smaller = find_removed(encoder, tensors), dict(tensors)
    for name, place in entries(encoder).items():
        if gone := removed[place.part][place.layer]:
            staying = (~_flags(tensors[name], place, gone)).nonzero().flatten()
            smaller[name] = tensors[name].index_select(place.axis, staying)
    return prune(resolved, removed), smaller


def entries_of(tensor: Tensor, place: Entries, units: Sequence[int]) -> Tensor:
    """True, in a tensor of the same shape, at the entries of these heads or neurons."""
    axes = [1] * tensor.ndim
    axes[place.axis] = -1
    return _flags(tensor, place, units).view(axes).expand(tensor.shape).contiguous()


def _flags(tensor: Tensor, place: Entries, units: Sequence[int]) -> Tensor:
    """True along the axis of the units, at the entries of some."""
    flags_u = torch.zeros(place.units, dtype=torch.bool)
    flags_u[list(units)] = True
    return flags_u.repeat_interleave(tensor.shape[place.axis] // place.units)


def _by_unit(tensor: Tensor, place: Entries) -> Tensor:
    """The entries (u, n) of each head or neuron."""
    return tensor.movedim(place.axis, 0).reshape(place.units, -1)
