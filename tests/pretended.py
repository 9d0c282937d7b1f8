"""A GPU that computes nothing, for machines without one: what a step would ask of a real one.
Code between ``with Gpu()`` sees CUDA tensors and takes their branches; beneath they are torch's
``meta`` tensors, which have a shape and no values. Every operation is recorded: what launches a
kernel, what makes the host wait, what is copied between memories, and the bytes in use.
"""

import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _foreach_utils, checkpoint
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CUDA, META = torch.device("cuda:0"), torch.device("meta")
WAITING = {"_local_scalar_dense", "equal", "is_nonzero", "masked_select", "nonzero"}
"""Operations whose answer, or its size, the host must know before it goes on."""
BY_INDEX = {"index", "index_put", "index_put_", "_index_put_impl_"}
"""Those that a mask may be given to, whose true places then have to be found."""
SORTING = {"scatter", "scatter_", "scatter_add", "scatter_add_", "index_add", "index_add_"}
"""By a tensor of values; a single value that is written needs no order (torch, ScatterGather)."""
ALLOCATING = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}

_device = torch.Tensor.device.__get__  # type: ignore[attr-defined]
_is_cuda = torch.Tensor.is_cuda.__get__  # type: ignore[attr-defined]


class Gpu:
    """What happened since it was entered. Operations go by their names in ``torch.ops.aten``."""

    def __init__(self) -> None:
        self.launches = Counter[str]()
        self.waits = Counter[str]()
        self.copies = Counter[str]()
        self.sorts = Counter[str]()
        """What deterministic kernels of CUDA do by sorting the places first."""
        self.before_the_wait = 0
        """Launches that were asked for before the latest tensor was read as a list."""
        self.used_bytes = self.peak_bytes = 0
        self._stack = ExitStack()
        self._known = set[int]()

    def __enter__(self) -> Self:
        names, enter = _Names(self), self._stack.enter_context
        known = _foreach_utils._get_foreach_kernels_supported_devices
        # While a function of Python is answered its mode is off; what backward calls sees CUDA too.
        backward = torch.autograd._engine_run_backward

        def within(*args: Any, **kwargs: Any) -> Any:
            with names:
                return backward(*args, **kwargs)

        enter(
            patch.object(
                _foreach_utils, "_get_foreach_kernels_supported_devices", lambda: [*known(), "meta"]
            )
        )
        enter(patch.object(torch.autograd, "_engine_run_backward", within))
        enter(patch.object(torch.cuda, "synchronize", self._synchronize))
        # A device named in the middle of an operation is another than one named afterwards.
        said = {checkpoint._DEFAULT_DETERMINISM_MODE: lambda tensor: None}
        enter(patch.dict(checkpoint._allowed_determinism_checks_to_fns, said))
        enter(names)
        enter(_Operations(self))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def begin(self) -> None:
        """Forget what happened so far, but for the bytes in use."""
        for found in (self.launches, self.waits, self.copies, self.sorts):
            found.clear()
        self.peak_bytes = self.used_bytes

    def hold(self, tensor: Tensor) -> None:
        """Count the memory of a tensor from now on until nobody has it."""
        storage = tensor.untyped_storage()
        if storage._cdata in self._known:
            return
        self._known.add(storage._cdata)
        self.used_bytes += storage.nbytes()
        self.peak_bytes = max(self.peak_bytes, self.used_bytes)
        weakref.finalize(storage, self._let_go, storage._cdata, storage.nbytes())

    def _synchronize(self, device: object = None) -> None:
        self.waits["synchronize"] += 1

    def _let_go(self, number: int, size: int) -> None:
        self._known.discard(number)
        self.used_bytes -= size


class _Names(TorchFunctionMode):
    """Between Python and torch: tensors on ``meta`` are said to be CUDA's, and the reverse."""

    def __init__(self, gpu: Gpu) -> None:
        super().__init__()
        self._gpu = gpu

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func == _device:
            found = func(*args)
            return CUDA if found.type == "meta" else found
        if func == _is_cuda:
            return args[0].is_meta
        if func is torch.device:
            return func(*args, **kwargs)
        if func is torch.Tensor.pin_memory:
            return args[0]
        args = tuple(map(_renamed, args))
        kwargs = {name: _renamed(value) for name, value in kwargs.items()}
        if func is torch.Tensor.tolist and args[0].is_meta:
            self._gpu.waits["tolist"] += 1
            self._gpu.before_the_wait = self._gpu.launches.total()
            return torch.ones(args[0].shape, dtype=args[0].dtype).tolist()
        if func is F.scaled_dot_product_attention and args[0].is_meta:
            with torch._C.DisableTorchFunction():
                return _attention(*args, **kwargs)
        made = func(*args, **kwargs)
        if func in (torch.tensor, torch.Tensor.new_tensor) and made.is_meta and made.numel():
            self._gpu.waits["copy of Python numbers"] += 1
        return made


class _Operations(TorchDispatchMode):
    """Beneath autograd: every operation as a device would get it."""

    def __init__(self, gpu: Gpu) -> None:
        super().__init__()
        self._gpu = gpu

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func._schema.name.removeprefix("aten::")
        with torch._C.DisableTorchFunction():
            tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
            way = _way(name, tensors, args, kwargs)
            if way is None:
                self._record(name, func, tensors, args, kwargs)
            else:
                self._gpu.copies[way] += 1
            if name in WAITING and tensors[0].is_meta:
                return _some_answer(name, tensors[0])
            if way and way.startswith("to the host"):
                # What is read there are ones: a step goes on with them.
                kwargs = {name: value for name, value in kwargs.items() if name != "non_blocking"}
                return args[0].fill_(1) if name == "copy_" else torch.ones_like(args[0], **kwargs)
            made = func(*args, **kwargs)
            for tensor in tree_leaves(made):
                if isinstance(tensor, Tensor) and tensor.is_meta:
                    self._gpu.hold(tensor)
        return made

    def _record(self, name: str, func: Any, tensors: list[Tensor], args: Any, kwargs: Any) -> None:
        # A kernel takes numbers of the host as its arguments, but no more than one at a time.
        places = {t.device.type for t in tensors if t.is_meta or t.ndim}
        assert len(places) < 2, f"{name} of tensors on {sorted(places)}"
        if "meta" not in places and getattr(kwargs.get("device"), "type", "") != "meta":
            return
        by_mask = name in BY_INDEX and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        # One that returns the memory that it was given, unchanged, only looks.
        aliases = [returned.alias_info for returned in func._schema.returns]
        looks = any(aliases) and not any(each.is_write for each in aliases if each)
        if name in WAITING or by_mask:
            self._gpu.waits[name] += 1
        elif name not in ALLOCATING and not looks:
            self._gpu.launches[name] += _kernels(name, args)
            self._gpu.sorts[name] += name in SORTING and isinstance(args[3], Tensor)


def _kernels(name: str, args: Any) -> int:
    """One for a whole list of tensors, or for each where those of two lists are not alike."""
    if not name.startswith("_foreach"):
        return 1
    lists = [part for part in args if isinstance(part, list | tuple)]
    pairs = [pair for other in lists[1:] for pair in zip(lists[0], other, strict=True)]
    alike = all(isinstance(b, float) or a.shape == b.shape for a, b in pairs)
    return 1 if alike else len(lists[0])


def _way(name: str, tensors: list[Tensor], args: Any, kwargs: Any) -> str | None:
    """Where an operation copies a tensor, if from one memory to the other."""
    if name not in ("_to_copy", "copy_"):
        return None
    to = kwargs.get("device") or tensors[0].device
    if to.type == tensors[-1].device.type:
        return None
    unwaited = kwargs.get("non_blocking") or (name == "copy_" and args[2:] == (True,))
    way = "to the device" if to.type == "meta" else "to the host"
    return way if unwaited else f"{way}, waited for"


def _renamed(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("cuda"):
        return META
    return META if isinstance(value, torch.device) and value.type == "cuda" else value


def _some_answer(name: str, asked: Tensor) -> Any:
    """An answer that a step can go on with: ones, and of places half of all."""
    if name in ("nonzero", "masked_select"):
        return asked.new_empty((asked.numel() // 2, asked.ndim), dtype=torch.long)
    return True if name in ("equal", "is_nonzero") else 1


def _attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, rate: float, causal: bool
) -> Tensor:
    """By the fused kernels of CUDA: flash where no mask is passed, else the memory-efficient."""
    if mask is None:
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        return flash(query, key, value, rate, causal)[0]  # type: ignore[no-any-return]
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, -torch.inf)
    mask = mask.expand(*query.shape[:3], key.shape[2])
    efficient = torch.ops.aten._scaled_dot_product_efficient_attention
    kept = torch.is_grad_enabled()
    return efficient(query, key, value, mask, kept, rate, causal)[0]  # type: ignore[no-any-return]
