"""Places as waves. Axes: l places."""

import torch


def sinusoids(places_l: torch.Tensor, width: int) -> torch.Tensor:
    """Sines, then cosines, of places (l,) at wavelengths from 2 pi to 20,000 pi, (l, width)."""
    powers = torch.arange(0, width, 2, device=places_l.device).float() / width
    angles = places_l[:, None] * (1e4**-powers)
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :width]
