"""The vocabulary as tensors for corruption."""

import torch
from torch import Tensor

from bertc.learn.objectives import VocabTensors
from bertc.text.vocab.vocabulary import Vocabulary


def vocab_tensors(vocabulary: Vocabulary, device: torch.device) -> VocabTensors:
    """Convert a vocabulary to tensors on the device."""
    frequency_v = torch.from_numpy(vocabulary.unigram)
    if not frequency_v.any():  # no text was read: all tokens count as equally frequent
        frequency_v = torch.full_like(frequency_v, 1 / vocabulary.size)
    lowest = frequency_v[frequency_v > 0].min()
    return VocabTensors(
        size=vocabulary.size, pad=vocabulary.pad, cls=vocabulary.cls, sep=vocabulary.sep,
        mask=vocabulary.mask, word_start=torch.from_numpy(vocabulary.word_start).to(device),
        special=torch.from_numpy(vocabulary.special).to(device),
        unigram_cdf=cumulative(frequency_v).to(device),
        frequency=frequency_v.clamp(min=lowest).to(device),
    )  # fmt: skip


def cumulative(frequency_v: Tensor) -> Tensor:
    """Cumulative distribution of relative frequencies (v,), ending at exactly 1."""
    # In double precision: rare tokens are rarer than the precision of a float.
    cdf_v = frequency_v.double().cumsum(0)
    return cdf_v / cdf_v[-1]
