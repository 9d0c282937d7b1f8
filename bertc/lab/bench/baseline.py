"""transformers' model of the same shape, trained the way its users train it.

Axes: b batch, s sequence, k predictions of a row.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from bertc import DataError, MissingInputError, Resolved, Stepper
from bertc.hub.config import hf_config
from bertc.hub.families import family_for
from bertc.hub.families.family import Family, transformer
from bertc.hub.families.obstacle import Obstacle
from bertc.hub.networks import alone
from bertc.ir.network.encoder import Encoder
from bertc.ir.program.network import Network
from bertc.ir.program.stage import Stage
from bertc.lab.bench.contender import Contender, Precision, Step
from bertc.lab.bench.pair import IGNORED, GuessingPair
from bertc.learn.objectives import MicroBatch, Predictions, corrupt, mask_key
from bertc.learn.step.feed import split, to_inputs
from bertc.run.beginning.synthetic import RandomText, Unlearned, unlearned_vocab

OTHERWISE = "bertc bench SPEC without --against times bertc alone"


def transformers(stepper: Stepper, compiled: bool) -> tuple[Contender, ...]:
    """Contenders: transformers in fp32, in bf16 autocast if bertc computes in bf16, and compiled.

    Raises:
        DataError: if no class of transformers has the spec's layers and objectives.
        MissingInputError: if transformers is not installed.
    """
    resolved, plan = stepper.program, stepper.plan
    networks = resolved.stages[0].networks()
    classes = [described(resolved, network) for network in networks]

    def contender(precision: Precision, compile: bool) -> Contender:
        @contextmanager
        def open() -> Iterator[Step]:
            torch.manual_seed(resolved.run.seed)
            model = model_of(networks, classes).to(plan.device).train()
            yield _step(stepper, model, precision, compile)

        title = f"transformers {precision}" + ", compiled" * compile
        return Contender(title, precision, compile, open, nullcontext)

    forms: list[tuple[Precision, bool]] = [("fp32", False)]
    if plan.precision == "bf16":
        forms.append(("bf16", False))
    if compiled:
        forms.append((plan.precision, True))
    return tuple(contender(precision, compile) for precision, compile in forms)


def model_of(networks: tuple[Network, ...], classes: list[tuple[Any, dict[str, Any]]]) -> nn.Module:
    """The model of one network, or of a generator and the network that reads its guesses."""
    models = tuple(
        model_class(model_class.config_class(**settings, attn_implementation="sdpa"))
        for model_class, settings in classes
    )
    match networks, models:
        case (sampled, main), (generator, detector):
            return GuessingPair((sampled, main), (generator, detector))
        case _:
            model: nn.Module = models[0]
            return model


def described(resolved: Resolved, network: Network) -> tuple[Any, dict[str, Any]]:
    """The class of transformers for a network's objectives in the first stage, and its settings.

    The head of a generator has the layout's activation, whatever that of the layers.

    Raises:
        DataError, MissingInputError: as ``transformers``.
    """
    vocabulary, stage = Unlearned(resolved), resolved.stages[0]
    family = family_for(alone(resolved), vocabulary.pad)
    if isinstance(family, Obstacle):
        raise DataError(f"transformers has no model of this spec: {family}", help=OTHERWISE)
    if stage.pack:
        raise DataError("pack=true stands in the way: transformers packs no rows", help=OTHERWISE)
    kinds = {term.objective.kind for term in network.terms}
    body = network.body
    parts = kinds | ({"pooler"} if body.pooler else set())
    chosen = family.class_for(frozenset(parts))
    known = chosen is not None and kinds <= chosen.parts & family.labels.keys()
    # Its class detects replacements among all tokens.
    detects = any(term.objective.fills == "replaced" for term in network.terms)
    known = known and not (detects and network.num_outputs is not None)
    if chosen is None or not known or not isinstance(body, Encoder):
        raise DataError(
            f"objective={'+'.join(sorted(kinds))} stands in the way: transformers has no class of "
            f"the {family.title} layout for it",
            help=OTHERWISE,
        )
    try:
        package = import_module("transformers")
    except ImportError:
        raise MissingInputError(
            "transformers is not installed, and --against transformers runs it",
            help=f"pip install transformers; {OTHERWISE}",
        ) from None
    config = hf_config(family, body, vocabulary, chosen)
    return getattr(package, chosen.name), config


def _step(stepper: Stepper, model: Any, precision: Precision, compiled: bool) -> Step:
    resolved, plan = stepper.program, stepper.plan
    rule, device = resolved.stages[0].optimizer, torch.device(plan.device)
    parts = [
        {name: tensor.to(device) for name, tensor in part.items()}
        for part in arguments(resolved, plan.microbatches[0])
    ]
    optimizer = torch.optim.AdamW(model.parameters(), lr=rule.lr, fused=True)
    forward = torch.compile(model) if compiled else model
    weights = list(model.parameters())
    clipped = [[weight] for weight in weights] if rule.clip_per == "tensor" else [weights]

    def step() -> float:
        for part in parts:
            with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
                loss = forward(**part).loss / len(parts)
            loss.backward()
        for together in clipped if rule.clip else ():
            torch.nn.utils.clip_grad_norm_(together, rule.clip)
        optimizer.step()
        optimizer.zero_grad()
        return 0.0

    return step


def arguments(resolved: Resolved, rows: int) -> list[dict[str, Tensor]]:
    """The first batch, masked by bertc, as arguments of transformers' forward.

    In parts of ``rows`` examples, with a label at every position like those of its collators. Those
    also give an attention mask of ones, which could keep attention from the flash kernel; there is
    none here, because every row is full.
    """
    stage, encoder = resolved.stages[0], transformer(resolved)
    text = RandomText(stage, encoder.vocab_size)
    cpu = torch.device("cpu")
    vocab = unlearned_vocab(encoder.vocab_size, cpu)
    family = family_for(alone(resolved), Unlearned(resolved).pad)
    assert isinstance(family, Family), "as described"
    key, labels = mask_key(resolved.run.seed), family.labels
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
