"""The file of a program, compared with its modules before it is written."""

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from bertc.base.diagnostics import DataError
from bertc.model import EncoderInputs, Model
from bertc.use.source.classes import PARAMETERS
from bertc.use.source.outputs import program_outputs

SHAPES = ((1, 5), (3, 16))
"""Rows and tokens that are compared."""
TOLERANCE = 1e-6
"""Largest difference, of values up to 1; of larger ones in proportion."""
MOST_DOUBLED = 150_000_000
"""Parameters up to which both compute in fp64, and gradients are compared too."""


def check_source(source: str, model: Model) -> None:
    """Compare a file with the module whose program it is.

    Raises:
        DataError: with the largest difference, if they differ.
    """
    doubles = sum(weight.numel() for weight in model.parameters()) <= MOST_DOUBLED
    before, model.compute_dtype = model.compute_dtype, torch.float64 if doubles else torch.float32
    try:
        apart = source_differences(source, model.double() if doubles else model, gradients=doubles)
    finally:
        model.float()
        model.compute_dtype = before
    refuse_difference(*max(apart.items(), key=lambda pair: pair[1]))


def refuse_difference(name: str, largest: float) -> None:
    """Refuse to write what differs by more than rounding."""
    if not largest <= TOLERANCE:
        raise DataError(
            f"the written source differs from the program by {largest:.1e} in {name}; nothing was "
            "written",
            help="report the spec: its source cannot be written yet",
        )


def source_differences(source: str, model: Model, *, gradients: bool) -> dict[str, float]:
    """The largest difference by output, and of gradients, over random batches with padding."""
    weights, largest = dict(model.named_parameters()), dict[str, float]()
    network = loaded(source, weights)
    for rows, tokens in SHAPES:
        arguments = random_inputs(model, rows, tokens)
        # Both compute with plain functions of torch, not with the kernels for a CPU.
        plain = patch.object(torch.compiler, "is_compiling", lambda: True)
        with torch.set_grad_enabled(gradients), plain:
            expected = program_outputs(model.eval(), inputs_of(arguments))
            results = network(**{name: arguments[name] for name in read_by(network)})
        for name, difference in _pairs(results, expected, weights if gradients else {}):
            largest[name] = max(largest.get(name, 0.0), difference)
    return largest


def loaded(source: str, weights: Mapping[str, Tensor]) -> nn.Module:
    """The module of a file, for evaluation, with these very weights."""
    with torch.device("meta"):
        network: nn.Module = run_source(source)["Model"]()
    network.load_state_dict(weights, assign=True)
    return network.eval()


def run_source(source: str) -> dict[str, Any]:
    """The names that a file defines."""
    module = ModuleType("emitted")
    exec(compile(source, "emitted", "exec"), vars(module))
    return vars(module)


def read_by(network: nn.Module) -> list[str]:
    """The arguments of a file's module."""
    names = network.forward.__code__.co_varnames
    return [name for name in PARAMETERS if name in names]


def random_inputs(model: Model, rows: int, tokens: int) -> dict[str, Tensor]:
    """Random arguments of a program's file; the last of several rows is half padding."""
    node = model.encoder.node
    shape = rows, min(tokens, node.room or tokens)
    generator = torch.Generator().manual_seed(tokens)
    mask_bs = torch.ones(shape, dtype=torch.long)
    if rows > 1:
        mask_bs[-1, shape[1] // 2 :] = 0
    kinds = max(1, min(2, node.kinds_of_segments))
    return {
        "token_ids": torch.randint(node.vocab_size, shape, generator=generator),
        "attention_mask": mask_bs,
        "segment_ids": torch.randint(kinds, shape, generator=generator),
        "language_ids": torch.randint(len(node.languages) + 1, shape, generator=generator),
    }


def inputs_of(arguments: dict[str, Tensor]) -> EncoderInputs:
    """Random arguments as inputs of an encoder."""
    return EncoderInputs(
        arguments["token_ids"],
        arguments["segment_ids"],
        arguments["attention_mask"].bool(),
        language_ids=arguments["language_ids"],
    )


def _pairs(
    results: dict[str, Tensor], expected: dict[str, Tensor], weights: Mapping[str, Tensor]
) -> Iterator[tuple[str, float]]:
    """Differences of outputs, and of the gradients of a random sum of them."""
    generator = torch.Generator().manual_seed(1)
    sums = torch.zeros(()), torch.zeros(())
    for name, result in results.items():
        yield name, difference(result, expected[name])
        factor = torch.randn(result.shape, generator=generator) / result.numel() ** 0.5
        sums = tuple(
            total + (value.masked_fill(value.isinf(), 0) * factor).sum()
            for total, value in zip(sums, (result, expected[name]), strict=True)
        )
    if weights:
        both = [torch.autograd.grad(s, [*weights.values()], allow_unused=True) for s in sums]
        for mine, theirs in zip(*both, strict=True):
            if mine is not None and theirs is not None:
                yield "the gradients", difference(mine, theirs)


def difference(one: Tensor, other: Tensor) -> float:
    """The largest difference, over the largest value where that is above 1; inf for shapes."""
    if one.shape != other.shape:
        return float("inf")
    one, other = one.detach(), other.detach()
    apart = (one - other).abs().masked_fill(one == other, 0)
    return float(apart.max()) / max(1.0, float(other.masked_fill(other.isinf(), 0).abs().max()))
