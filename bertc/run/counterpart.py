"""transformers' model of a program, and a batch as that reads it: what a step is compared with.

Axes: b batch, s sequence, k predictions of a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bertc.base.diagnostics import DataError
from bertc.hub.config import hf_config
from bertc.hub.families import family_for
from bertc.hub.families.family import Family, Obstacle, transformer
from bertc.hub.families.tokens import Wordless
from bertc.hub.networks import alone
from bertc.ir.network.encoder import Encoder
from bertc.ir.program.network import Network
from bertc.ir.program.reading import by_direction
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.learn.objectives import MicroBatch, Predictions, corrupt, mask_key
from bertc.learn.step.feed import to_inputs
from bertc.learn.step.micro_batches import split
from bertc.run.beginning.synthetic import RandomText, unlearned, unlearned_vocab

IGNORED = -100
"""The label of a position that is not predicted (torch's cross entropy)."""
OTHERWISE = "bertc bench SPEC without --against times bertc alone"


@dataclass(frozen=True)
class Counterpart:
    """transformers' models of a program's first stage, and its first batch.

    ``models`` has a class by name and the settings of its configuration, ``weights`` the weight of
    the loss of each. Of two the first is a generator, and ``ties`` what the second has of it:
    ``tokens`` (their table), ``embeddings`` or "". ``batch`` has arguments of forward, a dict a
    micro-batch, labelled as by transformers' collators, without their attention mask of ones.
    """

    models: tuple[tuple[str, dict[str, Any]], ...]
    weights: tuple[float, ...]
    ties: str
    batch: tuple[dict[str, Tensor], ...]


def counterpart(program: Resolved, rows: int) -> Counterpart:
    """The counterpart of a program, with micro-batches of ``rows`` examples of random tokens."""
    stage, vocabulary = program.stages[0], unlearned(program)
    family = family_for(alone(program), vocabulary.pad)
    if isinstance(family, Obstacle):
        raise DataError(f"transformers has no model of this spec: {family}", help=OTHERWISE)
    if stage.pack:
        raise DataError("pack=true stands in the way: transformers packs no rows", help=OTHERWISE)
    if len(by_direction(stage)) > 1:
        raise DataError("transformers reads a batch in one direction alone", help=OTHERWISE)
    networks = stage.networks()
    tied = networks[0].ties if networks[1:] else ()
    of_all = any(tie.covers("embeddings.norm.weight") for tie in tied)
    return Counterpart(
        tuple(_described(family, vocabulary, network) for network in networks),
        tuple(network.terms[0].weight for network in networks),
        "embeddings" if of_all else "tokens" * bool(tied),
        tuple(_batch(program, family.labels, rows)),
    )


def _described(family: Family, vocabulary: Wordless, model: Network) -> tuple[str, dict[str, Any]]:
    """The class for a network's objectives, and its settings."""
    kinds, body = {term.objective.kind for term in model.terms}, model.body
    chosen = family.class_for(frozenset(kinds | ({"pooler"} if body.pooler else set())))
    known = chosen is not None and kinds <= chosen.parts & family.labels.keys()
    # Its class detects replacements among all tokens.
    detects = any(term.objective.fills == "replaced" for term in model.terms)
    known = known and not (detects and model.num_outputs is not None)
    if chosen is None or not known or not isinstance(body, Encoder):
        raise DataError(
            f"objective={'+'.join(sorted(kinds))} stands in the way: transformers has no class of "
            f"the {family.title} layout for it",
            help=OTHERWISE,
        )
    return chosen.name, hf_config(family, body, vocabulary, chosen)


def _batch(program: Resolved, labels: Mapping[str, str], rows: int) -> list[dict[str, Tensor]]:
    """The first batch, masked, in micro-batches."""
    stage, encoder, cpu = program.stages[0], transformer(program), torch.device("cpu")
    text, vocab = (RandomText(stage, encoder.vocab_size), unlearned_vocab(encoder.vocab_size, cpu))
    key = mask_key(program.run.seed)
    return [
        _arguments(stage, encoder.segments, corrupt(stage, part, vocab, key), labels)
        for part in split(to_inputs(text.train(0), cpu), rows)
    ]


def _arguments(
    stage: Stage, segments: int, micro_batch: MicroBatch, labels: Mapping[str, str]
) -> dict[str, Tensor]:
    first = stage.networks()[0]  # a generator reads before the network that reads its guesses
    reading = micro_batch.read_by(first)
    inputs = {"input_ids": reading.token_ids}
    if reading.segment_ids is not None and segments:
        inputs["token_type_ids"] = reading.segment_ids
    if reading.language_ids is not None:
        inputs["langs"] = reading.language_ids
    if reading.position_ids is not None:
        inputs["position_ids"] = reading.position_ids
    for term in first.terms:
        name = labels[term.name] if len(first.terms) > 1 else "labels"
        targets = micro_batch.terms[term.name]
        if term.objective.masks is not None:
            inputs[name] = _labels(targets, stage.seq)
        elif term.objective.fills == "replaced":
            inputs[name] = (reading.token_ids != micro_batch.originals).long()
        else:
            inputs[name] = targets.labels[:, 0]
    return inputs


def _labels(targets: Predictions, seq: int) -> Tensor:
    """Labels (b, s) of all positions, from those (b, k) of the predicted ones."""
    labels = torch.full((len(targets.positions), seq + 1), IGNORED)
    # Slots that are not used write into a column beyond the row, which is dropped.
    labels.scatter_(1, torch.where(targets.weights > 0, targets.positions, seq), targets.targets)
    return labels[:, :seq].contiguous()
