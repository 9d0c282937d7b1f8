"""Cross entropies of classes as their loss weighs them.

Axes: n examples or words, c classes.
"""

from functools import lru_cache

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from bertc.ir.learning.class_loss import ClassLoss

LEAST = 1e-6
"""The least 1 - p that is raised to a power: the gradient of lower ones is not finite."""


@lru_cache(maxsize=64)
def class_weights(weights: tuple[float, ...], device: torch.device) -> Float[Tensor, "c"] | None:
    """The weights of classes on a device; None if they weigh the same."""
    return torch.tensor(weights, device=device) if weights else None


def label_losses(
    loss: ClassLoss, scores_nc: Float[Tensor, "n c"], classes_n: Int[Tensor, "n"]
) -> Float[Tensor, "n"]:
    """Losses of one class per example."""
    weight_c = class_weights(loss.weights, scores_nc.device)
    losses_n = F.cross_entropy(
        scores_nc, classes_n, weight_c, reduction="none", label_smoothing=loss.smoothing
    )
    if not loss.power:
        return losses_n
    likely_n = scores_nc.softmax(1).gather(1, classes_n[:, None])[:, 0]
    return losses_n * (1 - likely_n).clamp(min=LEAST) ** loss.power


def several_losses(
    loss: ClassLoss, scores_nc: Float[Tensor, "n c"], targets_nc: Float[Tensor, "n c"]
) -> Float[Tensor, "n"]:
    """Losses of several labels per example, the mean over them; targets are 0 or 1."""
    losses_nc = F.binary_cross_entropy_with_logits(
        scores_nc,
        targets_nc * (1 - loss.smoothing) + loss.smoothing / 2 if loss.smoothing else targets_nc,
        pos_weight=class_weights(loss.weights, scores_nc.device),
        reduction="none",
    )
    if loss.power:
        unlikely_nc = torch.sigmoid(scores_nc * (1 - 2 * targets_nc))
        losses_nc = losses_nc * unlikely_nc.clamp(min=LEAST) ** loss.power
    return losses_nc.mean(1)
