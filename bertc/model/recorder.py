"""The recording of the user's class: its weights and operations, or what is wrong with it.

``python -m bertc.model.recorder`` reads a request from standard input. It runs in a process of its
own, since the class may do anything.
"""

import inspect
import json
import math
import sys
from contextlib import redirect_stdout
from functools import partial
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils.flop_counter import flop_registry

from bertc.base import own_code
from bertc.base.own_code import RefusedError, load_class
from bertc.ir.own import Own, OwnPlace, Read, Recording, Size, Work
from bertc.model.own import construct, refuse_weights, try_rule, try_schedule, try_unit

_POINTS = ((4, 32), (8, 32), (4, 64))
"""Rows and tokens of a recording; the others say how a number grows with either."""
_FUNCTIONS = {"gelu": "gelu", "relu": "relu", "silu": "silu", "tanh": "tanh", "sigmoid": "tanh"}
"""Functions that cost what one of ours does; others cost what a sum does."""
_VIEWS = {
    "view", "t", "transpose", "permute", "expand", "slice", "select", "unsqueeze", "squeeze",
    "split", "chunk", "detach", "alias", "unbind", "as_strided", "_unsafe_view", "reshape",
    "split_with_sizes", "empty", "ones_like", "zeros_like",
}  # fmt: skip
_ROWS, _TOKENS, _HALF = 2, 16, 8
_ANY_WIDTH = ("norm", "activation", "positions", "heads")
_SIZES = {
    "objective": ("hidden", "vocab"), "unit": ("vocab", "pieces"),
    **dict.fromkeys((*_ANY_WIDTH, "body"), ("hidden",)),
}  # fmt: skip  # else all but those of vocabularies
_UNREAD = {"objective": "words", "unit": "inputs"}
_TOLERANCE = 1e-5
_Sizes = dict[str, int]
_Inputs = dict[str, Tensor]
_Step = tuple[Any, list[float], bool]
"""Names, numbers, and whether a weight is a factor, of operations."""


class _Operations(TorchDispatchMode):
    """Records the operations of a module."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps: list[_Step] = []
        self.weights = {id(parameter) for parameter in module.parameters()}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out, name = func(*args, **kwargs), func._schema.name.removeprefix("aten::")
        if counts := flop_registry.get(func._overloadpacket):
            made = out[0] if isinstance(out, tuple) else out
            columns = made.shape[1] if "convolution" in name else made.shape[-1]
            times = made.shape[0] if "bmm" in name else 1
            inner = counts(*args, **kwargs, out_val=out) / max(1, 2 * made.numel())
            tensors = (x for x in args if isinstance(x, Tensor))
            maps = any({id(x), id(x._base)} & self.weights for x in tensors)
            numbers = [made.numel() // columns // times, inner, columns, times]
            self.steps.append(("product", numbers, maps))
        elif isinstance(out, Tensor) and name not in _VIEWS:
            approximate = "-tanh" if kwargs.get("approximate") == "tanh" else ""
            function = _FUNCTIONS.get(name, "add") + approximate
            self.steps.append((function, [out.numel()], False))
        return out


class _Kernels(TorchFunctionMode):
    """Records attention and norms as their fused kernels, which the recording has not."""

    def __init__(self, steps: list[_Step]) -> None:
        super().__init__()
        self.steps = steps

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is nn.functional.rms_norm:  # its kernel saves what that of a layer norm does
            x, shape, weight = (*args, None)[:3]
            return nn.functional.layer_norm(x, shape, weight)
        if func is not nn.functional.scaled_dot_product_attention:
            return func(*args, **kwargs)
        query, key, value = args[:3]
        sizes = query.shape[0], query.shape[-2], key.shape[-2], query.shape[1], query.shape[-1]
        self.steps.append(("attention", [*sizes, kwargs.get("dropout_p", 0.0) > 0], False))
        with _disable_current_modes():  # of the shape of the output, and nothing is saved for it
            return query + key.mean(-2, keepdim=True) + value.mean(-2, keepdim=True)


def _inputs(part: Own, place: OwnPlace, sizes: _Sizes, rows: int, tokens: int) -> _Inputs:
    """Make what a class gets at its place, by name: states, and others, a mask, or tokens."""
    generator = None if torch.empty(0).is_meta else torch.Generator().manual_seed(0)
    x = torch.randn(rows, tokens, sizes["hidden"], generator=generator)
    if place == "attention":
        return {"x": x, "mask": torch.ones(rows, 1, tokens, tokens, dtype=torch.bool)}
    if place == "objective":
        ids = torch.randint(sizes["vocab"], (rows, tokens), generator=generator)
        read = {"tokens": ids, "inputs": ids.flip(1), "real": torch.ones_like(ids).bool()}
        return {"x": x, **{name: read[name] for name in part.reads}}
    if place == "body":
        return {"x": x, "real": torch.ones(rows, tokens, dtype=torch.bool)}
    if place in ("positions", "heads"):
        x = x[:, :, None].repeat(1, 1, sizes["heads"], 1) if place == "heads" else x
        return {"x": x, "places": torch.arange(tokens).expand(rows, tokens)}
    return {"x": x, "y": x.flip(1)} if place == "residual" else {"x": x}


def _call(module: nn.Module, part: Own, inputs: _Inputs) -> Any:
    """Call a class; a term gets what it reads beside states by name."""
    named = {name: inputs[name] for name in part.reads}
    return module(*(x for name, x in inputs.items() if name not in named), **named)


def _steps(part: Own, place: OwnPlace, sizes: _Sizes, rows: int, tokens: int) -> list[_Step]:
    """The operations of a class, and at the end what they save, but for the states of a term."""
    saved = dict[int, Tensor]()
    with torch.device("meta"):
        module, inputs = construct(part, sizes), _inputs(part, place, sizes, rows, tokens)
        operations = _Operations(module)
        passed_in = {id(x) for n, x in inputs.items() if n != "x" or place == "objective"}

        def save(tensor: Tensor) -> Tensor:
            base = tensor if tensor._base is None else tensor._base
            if id(base) not in operations.weights | passed_in:
                saved[id(base)] = base
            return tensor

        inputs["x"].requires_grad_()
        hooks = saved_tensors_hooks(save, lambda tensor: tensor)
        with hooks, operations, _Kernels(operations.steps):
            _call(module, part, inputs)
    values = sum(x.numel() for x in saved.values() if x.is_floating_point())
    integer_bytes = sum(x.numel() * x.itemsize for x in saved.values() if not x.is_floating_point())
    return [*operations.steps, ("saved", [values, integer_bytes], False)]


def _record(part: Own, place: OwnPlace, sizes: _Sizes) -> Recording:
    """The recording with these sizes."""
    weights = construct(part, sizes).named_parameters()
    return Recording(
        sizes=tuple(part.chosen(sizes).values()),
        width=sizes["hidden"] if place in _ANY_WIDTH else 0,
        weights=tuple((name, tuple(weight.shape)) for name, weight in weights),
        works=_works([_steps(part, place, sizes, *point) for point in _POINTS]),
    )


def _works(recorded: list[list[_Step]]) -> tuple[Work, ...]:
    """Operations by their growth; refuses those that are others for other lengths."""
    if any([s[0] for s in steps] != [s[0] for s in recorded[0]] for steps in recorded):
        raise RefusedError("it does something else for other numbers of rows or tokens")
    (rows, tokens), works = _POINTS[0], list[Work]()
    for (does, first, maps), (_, wide, _), (_, long, _) in zip(*recorded, strict=True):
        numbers = []
        for n, *more in zip(first, wide, long, strict=True):
            a, b = (round(math.log2(m / n)) if n and m else 0 for m in more)
            numbers.append((n / rows**a / tokens**b, a, b))
        works.append(Work(does=does, numbers=tuple(numbers), maps=maps))
    return tuple(works)


def _update_steps(part: Own, rows: int, columns: int) -> list[_Step]:
    """The operations of an update of a matrix."""
    update, operations = own_code.make(part).update, _Operations(nn.Module())
    reads = inspect.signature(update).parameters
    values = {name: 1 if name == "step" else torch.ones(rows, columns) for name in reads}
    with torch.no_grad(), operations:
        update(**values)
    return operations.steps


def try_out(part: Own, place: OwnPlace, sizes: _Sizes) -> dict[str, bool]:
    """Try a class, or refuse it; whether the mask hides documents and later tokens from it."""
    module, inputs = construct(part, sizes), _inputs(part, place, sizes, _ROWS, _TOKENS)
    x, call = inputs["x"], partial(_call, module, part, inputs)
    read = inputs.get("y", x).requires_grad_()
    shape = tuple(x.shape[:1] if place == "objective" else x.shape)
    torch.manual_seed(0)
    y = call()
    if not isinstance(y, Tensor) or y.shape != shape:
        result = tuple(y.shape) if isinstance(y, Tensor) else f"a {type(y).__name__}"
        raise RefusedError(f"it makes {result} of states {tuple(x.shape)}, not {shape}")
    unread = _inputs(part, place, sizes, _ROWS, _TOKENS)
    if not all(map(torch.equal, inputs.values(), unread.values())):
        raise RefusedError("it changes what it reads: copy that first")
    if y.dtype != x.dtype:
        raise RefusedError(f"it makes {y.dtype} of {x.dtype}")
    if y.requires_grad:
        torch.autograd.backward(y.sum())
    if read.grad is None or not y.isfinite().all():
        raise RefusedError("no gradient reaches the states, or what it makes is not finite")
    refuse_weights(module)
    torch.manual_seed(0)
    if not torch.equal(y, call()):
        raise RefusedError("called twice in training, it differs: it keeps a state")
    module.eval()
    with torch.no_grad():
        if not torch.equal(y := call(), call()):
            raise RefusedError("called twice in evaluation, it differs")
        if not torch.equal(y, _call(construct(part, sizes).eval(), part, inputs)):
            raise RefusedError("made twice, it differs: only torch's random numbers have a seed")
        first = _call(module, part, {name: x[:1] for name, x in inputs.items()})
        if not torch.allclose(first, y[:1], atol=_TOLERANCE):
            raise RefusedError("it reads other rows of the batch")
        return _alike(module, part, place, inputs)


def _alike(module: nn.Module, part: Own, place: OwnPlace, inputs: _Inputs) -> dict[str, bool]:
    """Find what a mask hides from a class; refuse one that reads what it may not."""
    # Other states in the second half, which a mask hides, or which it does not read anyway.
    half, alike = torch.arange(_TOKENS) // _HALF, dict[str, bool]()
    states = {name: inputs[name][:, :_HALF] for name in ("x", "y") if name in inputs}
    changes = {name: torch.cat([first, first], 1) for name, first in states.items()}
    earlier = torch.ones(_TOKENS, _TOKENS, dtype=torch.bool).tril()
    masks = {"": (half == 0)[None], "packs": half[:, None] == half, "causal": earlier}
    for name, mask in masks.items():
        hiding = {"mask": mask.expand(_ROWS, 1, -1, -1), "real": mask[:1].expand(_ROWS, -1)}
        seen = {name: hiding.get(name, x) for name, x in inputs.items()}
        both = (_call(module, part, seen | changed) for changed in ({}, changes))
        first, second = (y if place == "objective" else y[:, :_HALF] for y in both)
        alike[name] = torch.allclose(first, second, atol=_TOLERANCE)
    if not alike.pop(""):
        padding = "that are padding, not real"
        hidden = {"attention": "that the mask hides", "objective": padding, "body": padding}
        raise RefusedError(f"it reads tokens {hidden.get(place, 'of its row, as attention may')}")
    unknown = {"objective": ("packs",), "body": ("packs", "causal")}.get(place, ())
    return alike | dict.fromkeys(unknown, False)


def look_up(part: Own, place: OwnPlace, layers: list[_Sizes]) -> dict[str, Any]:
    """The looked-up fields of a part, for the sizes of all layers."""
    named_class, name = load_class(part.source, part.code), part.code.rpartition(":")[2]
    parameters, stated = inspect.signature(named_class).parameters, dict(part.arguments)
    if unknown := stated.keys() - parameters.keys():
        raise RefusedError(f"it has no argument {min(unknown)}, but {', '.join(parameters)}")
    sized = place not in ("optimizer", "schedule")
    asks = tuple(n for n in get_args(Size) if sized and n in parameters and n not in stated)
    gets = _SIZES.get(place, get_args(Size)[:4])
    if lacking := {*asks} - {*gets}:
        raise RefusedError(f"at this place it gets {' and '.join(gets)}, and no {min(lacking)}")
    if place == "objective" and not name[0].isupper():
        raise RefusedError("a term begins with a capital letter: others are names of objectives")
    named = inspect.signature(named_class.forward).parameters if place in _UNREAD else ()
    reads = tuple(n for n in get_args(Read) if n in named and n != _UNREAD[place])
    needed = [n for n, p in parameters.items() if p.default is p.empty and "*" not in str(p)]
    if missing := [n for n in needed if n not in {*stated, *asks}]:
        raise RefusedError(f"{name} needs {missing[0]}: write {missing[0]}=... in own(...)")
    if place == "schedule":
        return try_schedule(part)
    if place == "optimizer":
        state = try_rule(part)
        works = _works([_update_steps(part, *point) for point in _POINTS])
        return {"state": state, "works": [work.model_dump(mode="json") for work in works]}
    recordings = dict[tuple[tuple[int, ...], int], Recording]()
    with torch.random.fork_rng(devices=[]):
        part = part.model_copy(update={"asks": asks, "reads": reads, "layer": 0})
        tried = try_unit(part, layers[0]) if place == "unit" else try_out(part, place, layers[0])
    for sizes in layers if place != "unit" else ():
        part = part.model_copy(update={"layer": sizes["layer"]})
        chosen = tuple(part.chosen(sizes).values()), sizes["hidden"] * (place in _ANY_WIDTH)
        recordings[chosen] = recordings.get(chosen) or _record(part, place, sizes)
    fixed = {sizes[:-1] if asks[-1:] == ("layer",) else sizes for sizes, _ in recordings}
    if len(fixed) > 1 and not any(recording.weights for recording in recordings.values()):
        raise RefusedError("it asks for sizes without having weights: read x.shape in forward")
    written = [recording.model_dump(mode="json") for recording in recordings.values()]
    return {"asks": asks, "reads": reads, "recordings": written, **tried}


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """Answer a request: looked-up fields, or a reason with the lines of the file."""
    with redirect_stdout(sys.stderr):
        try:
            return look_up(Own(**request["own"]), request["place"], request["sizes"])
        except RefusedError as error:
            return {"refused": str(error)}
        except BaseException as error:  # of the user's code, whatever it raises
            file, lines = request["own"]["code"].rpartition(":")[0], own_code.lines_of(error)
            if isinstance(error, SyntaxError):
                lines = [f"{file}:{error.lineno}: {(error.text or '').strip()}"]
            if request["place"] == "unit" and "pieces" in request["own"]["source"]:
                lines += ["without a vocabulary, pieces are made up: 0, 1, 2 and so on"]
            words = f"{type(error).__name__}: {error}"
            if "meta" in words.lower():  # tensors without values, which an estimate records
                words = "its shapes or steps depend on values of tensors, which no estimate knows"
                lines += ["compute it for all tokens, and choose by torch.where or a product"]
            return {"refused": words, "lines": [*dict.fromkeys(lines)]}


if __name__ == "__main__":
    own_code.allow(int(sys.argv[1]))
    json.dump(reply(json.load(sys.stdin)), sys.stdout)
