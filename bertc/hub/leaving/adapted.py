"""Adapted networks: weights with the pairs of an adapter added into the maps."""

from collections.abc import Mapping

from torch import Tensor

from bertc.ir.methods.adapter import OF_PAIRS, Lora
from bertc.ir.network.encoder import Encoder
from bertc.ir.program.resolved import Resolved


def merged(resolved: Resolved, tensors: Mapping[str, Tensor]) -> tuple[Resolved, dict[str, Tensor]]:
    """Program and weights of the network without its adapter; the outputs are the same."""
    encoder = resolved.encoder
    if not isinstance(encoder, Encoder) or not isinstance(encoder.adapt, Lora):
        return resolved, dict(tensors)
    plain = {name: one for name, one in tensors.items() if not name.endswith(OF_PAIRS)}
    for name in tensors.keys() - plain.keys():
        at, _, one = name.rpartition(".")
        if one == OF_PAIRS[0]:
            product = tensors[f"{at}.{OF_PAIRS[1]}"] @ tensors[name]
            plain[f"{at}.weight"] = plain[f"{at}.weight"] + encoder.adapt.scale * product
    return resolved.merged, plain
