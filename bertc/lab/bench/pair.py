"""A masked language model of transformers and the detector of its guesses, trained as ELECTRA's.

Axes: b batch, s sequence, n masked tokens, v token ids.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bertc.ir.program.network import Network

IGNORED = -100
"""The label of a position that is not predicted (torch's cross entropy)."""


class PairLoss(NamedTuple):
    """The output of a pair, as of transformers' models."""

    loss: Tensor


class GuessingPair(nn.Module):
    """Both models, which share embeddings as ``sampled`` says (Clark et al. 2020, 3)."""

    def __init__(self, networks: tuple[Network, Network], models: tuple[Any, Any]) -> None:
        super().__init__()
        self.generator, self.detector = models
        self.weights = [network.terms[0].weight for network in networks]
        for tie in networks[0].ties:
            if tie.covers("embeddings.norm.weight"):
                self.detector.base_model.embeddings = self.generator.base_model.embeddings
            else:
                self.detector.set_input_embeddings(self.generator.get_input_embeddings())

    def forward(self, input_ids: Tensor, labels: Tensor, **shared: Tensor) -> PairLoss:
        """The weighted losses of ids (b, s) masked where labels (b, s) are not ``IGNORED``."""
        guessing = self.generator(input_ids=input_ids, labels=labels, **shared)
        masked_bs = labels != IGNORED
        with torch.no_grad():
            chances_nv = guessing.logits[masked_bs].float().softmax(1)
            filled_bs = input_ids.masked_scatter(masked_bs, chances_nv.multinomial(1))
            replaced_bs = filled_bs != torch.where(masked_bs, labels, input_ids)
        detecting = self.detector(input_ids=filled_bs, labels=replaced_bs.long(), **shared)
        return PairLoss(self.weights[0] * guessing.loss + self.weights[1] * detecting.loss)
