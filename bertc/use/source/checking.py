"""The file of a program, compared with its modules before it is written."""

from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from bertc.base.diagnostics import DataError
from bertc.ir.base import Constant
from bertc.ir.program import Resolved, model_weights
from bertc.model import EncoderInputs, Model, build
from bertc.use.source.classes import PARAMETERS
from bertc.use.source.file import emit_source
from bertc.use.source.outputs import program_outputs

SHAPES = ((1, 5), (2, 16))
"""Rows and tokens that are compared."""
TOLERANCE = 1e-6
"""Largest difference, of values up to 1; of larger ones in proportion."""
MOST_GRADIENTS = 150_000_000
"""Parameters up to which gradients are compared too."""
SPREAD = 0.02
DRAWN = 1_000_003
"""Random numbers of which weights are made: a prime, so that no two weights repeat alike."""


def emit_checked(resolved: Resolved, settings: str) -> str:
    """The file of a program, with its settings above, once it agrees with the modules."""
    source = emit_source(resolved, settings)
    check_source(source, resolved)
    return source


def check_source(source: str, resolved: Resolved) -> None:
    """Compare a file with the module whose program it is, in fp64 with random weights."""
    model = build(resolved, device="meta").eval()
    model.load_state_dict(random_weights(resolved), assign=True)
    model.compute_dtype = torch.float64
    weights, largest = dict(model.named_parameters()), dict[str, float]()
    network = load_source(source, weights)
    few = sum(weight.numel() for weight in weights.values()) <= MOST_GRADIENTS
    for rows, tokens in SHAPES:  # random batches with padding
        arguments = random_inputs(model, rows, tokens)
        names = network.forward.__code__.co_varnames
        passed = {name: arguments[name] for name in PARAMETERS if name in names}
        expected = partial(program_outputs, model, inputs_of(arguments))
        differentiated = weights if few and rows > 1 else {}
        for name, apart in name_differences(partial(network, **passed), expected, differentiated):
            largest[name] = max(largest.get(name, 0.0), apart)
    refuse_difference(*max(largest.items(), key=lambda pair: pair[1]))


def random_weights(resolved: Resolved) -> dict[str, Tensor]:
    """Weights around their first values, as parts of one tensor, which are made at once."""
    table = model_weights(resolved)
    numbers = torch.randn(DRAWN, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    most = DRAWN + max(weight.numel for weight in table)
    numbers = numbers.mul_(SPREAD).repeat(-(-most // DRAWN))
    weights = dict[str, Tensor]()
    for place, weight in enumerate(table):
        values = numbers[place * len(table) % DRAWN :][: weight.numel].view(weight.shape)
        mean = weight.init.value if isinstance(weight.init, Constant) else 0
        weights[weight.name] = values + mean if mean else values
    return weights


def refuse_difference(name: str, largest: float) -> None:
    """Refuse to write what differs by more than rounding."""
    if not largest <= TOLERANCE:
        apart = f"the written source differs from the program by {largest:.1e} in {name}"
        remedy = "report the spec: its source cannot be written yet"
        raise DataError(f"{apart}; nothing was written", help=remedy)


Results = Callable[[], dict[str, Tensor]]


def name_differences(
    written: Results, expected: Results, weights: Mapping[str, Tensor]
) -> list[tuple[str, float]]:
    """Differences of outputs by name, and of the gradients of a random sum of them."""
    # Both compute with plain functions of torch, not with the kernels for a CPU.
    plain = patch.object(torch.compiler, "is_compiling", lambda: True)
    with torch.set_grad_enabled(bool(weights)), plain:
        results, references = written(), expected()
        differences = [(name, difference(x, references[name])) for name, x in results.items()]
        if not weights:
            return differences
        generator = torch.Generator().manual_seed(1)
        sums = [torch.zeros(()), torch.zeros(())]
        for name, result in results.items():
            factor = torch.randn(result.shape, generator=generator) / result.numel() ** 0.5
            weighted = (x.masked_fill(x.isinf(), 0) * factor for x in (result, references[name]))
            sums = [total + x.sum() for total, x in zip(sums, weighted, strict=True)]
        both = [torch.autograd.grad(s, [*weights.values()], allow_unused=True) for s in sums]
    for mine, reference in zip(*both, strict=True):
        if mine is not None and reference is not None:
            largest = max(1.0, float(torch.linalg.vector_norm(reference, torch.inf)))
            apart = torch.linalg.vector_norm(mine.sub_(reference), torch.inf)
            differences.append(("the gradients", float(apart) / largest))
    return differences


def load_source(source: str, weights: Mapping[str, Tensor]) -> nn.Module:
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
        arguments["token_ids"], arguments["segment_ids"], arguments["attention_mask"].bool(),
        language_ids=arguments["language_ids"],
    )  # fmt: skip


def difference(result: Tensor, target: Tensor) -> float:
    """The largest difference, over the largest value where that is above 1; inf for shapes."""
    if result.shape != target.shape:
        return float("inf")
    result, target = result.detach(), target.detach()
    apart = (result - target).abs().masked_fill(result == target, 0)
    return float(apart.max()) / max(1.0, float(target.masked_fill(target.isinf(), 0).abs().max()))
