"""Shapes of tensors, checked at every call of a process of its own: compilers trace no checks."""

from collections.abc import Callable
from typing import Any

from beartype import beartype
from jaxtyping import TypeCheckError, install_import_hook

TOY = "layers=2 hidden=32 heads=2 vocab=500 seq=32 batch=4 steps=10 precision=fp32 dropout=0.1"


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check the types that name axes; mypy checks all others."""
    kinds = function.__annotations__.items()
    function.__annotations__ = {name: kind for name, kind in kinds if "jaxtyping" in repr(kind)}
    return beartype(function) if function.__annotations__ else function


def check_shapes() -> None:
    """Check every call in the two rooms of tensors, from their import on."""
    install_import_hook(["bertc.model", "bertc.learn.objectives"], "tests.shapes.checked")


def refused() -> str:
    """The complaint about a mask that is one key short."""
    import torch

    from bertc.model.attention.attend import attend
    from bertc.model.attention.masks import Mask

    query, mask = torch.zeros(2, 3, 4, 5), torch.zeros(2, 1, 4, 3)
    try:
        attend(query, query, query, Mask(mask), 0.0)
    except TypeCheckError as error:
        return str(error)
    return ""


def take_steps() -> None:
    """Losses and gradients of every objective, from rows of random text."""
    import torch

    from bertc.api import resolve
    from bertc.learn.step.feed import to_inputs
    from bertc.run.beginning.synthetic import RandomText
    from tests.bench.rig import make_step
    from tests.kinds import OBJECTIVES

    for objective in OBJECTIVES.values():
        resolved = resolve(f"{TOY} {objective}", ["microbatch=4"])
        step, text = make_step(resolved, 4), RandomText(resolved.stages[0], 500)
        step.gradients(step.read(to_inputs(text.train(0), torch.device("cpu"))).micro_batches, 0)
        print(objective, flush=True)
