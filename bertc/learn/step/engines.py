"""Engines: a model and its objective on one process, under DDP, or under FSDP2.

DDP and FSDP2 average gradients over processes; bertc divides by the predictions of the whole
batch, so ``step`` multiplies by the number of processes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bertc.cost.planning.world import Layout
from bertc.learn.objectives import MicroBatch
from bertc.machine.machine import finish
from bertc.model import Memory, Model

Objective = Callable[[MicroBatch, Tensor], tuple[Tensor, Tensor, Memory | None]]
"""From a micro-batch and factors (t,) to the loss, detached sums and hits (2, t), and memory.

The memory is what the following rows attend to."""


class ObjectiveModule(nn.Module):
    """A module around a model with an objective as its forward, which DDP and FSDP2 hook."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        self.objective: Callable[..., Any] | None = None

    def forward(self, *arguments: Any) -> Any:
        """Call the objective."""
        assert self.objective is not None, "wrap an objective first"
        return self.objective(*arguments)


class Engine:
    """The engine of a single process, and the interface of the others."""

    keeps_gradients = False
    """True if gradients are zeroed in place instead of being set to None."""

    def __init__(self, model: Model, device: torch.device) -> None:
        model.to(device)
        self._device = device
        self.parameters = dict(model.named_parameters())

    def wrap(self, objective: Objective, trained: set[str]) -> Objective:
        """Wrap the objective of a stage; only the weights named in ``trained`` get gradients."""
        for name, parameter in self.parameters.items():
            parameter.requires_grad_(name in trained)
        return objective

    def wrap_for_inference(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a forward-only function so that it can run under this engine."""
        return function

    def accumulating(self) -> AbstractContextManager[object]:
        """Keep gradients local inside this block; the first backward outside sums all of them."""
        return nullcontext()

    def forget_gathered(self) -> None:
        """Gather weights anew when they are next used: they changed outside an update."""

    def shard(self, tensor: Tensor, name: str) -> Tensor:
        """Cut out this process's shard of a tensor shaped like the weight ``name``."""
        return tensor.to(self._device)


class Replicated(Engine):
    """DDP: each process holds all weights, gradients and moments."""

    keeps_gradients = True  # views of DDP's buckets: new ones would be copied there

    def __init__(self, model: Model, device: torch.device) -> None:
        super().__init__(model, device)
        self._whole = ObjectiveModule(model)
        self._outer: DistributedDataParallel | None = None

    def wrap(self, objective: Objective, trained: set[str]) -> Objective:
        """Wrap anew: DDP would wait for gradients of weights that this stage does not train."""
        self._outer = None  # removes its hooks on the weights
        self._whole.objective = super().wrap(objective, trained)
        self._outer = DistributedDataParallel(self._whole, gradient_as_bucket_view=True)
        return self._outer

    def accumulating(self) -> AbstractContextManager[object]:
        """Skip DDP's all-reduce inside this block."""
        assert self._outer is not None, "wrap an objective first"
        return self._outer.no_sync()


class Sharded(Engine):
    """FSDP2: each process holds a shard of each weight, and gathers a layer's weights to use it.

    What no layer has alone is gathered once a pass, in fp32: embeddings, heads, and weights that
    layers share. A layer's own weights are cast before they are gathered, and their gradients are
    added up in fp32.
    """

    def __init__(self, model: Model, layout: Layout, device: torch.device) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        # The model is in main memory: each unit moves to the device when it is sharded.
        sizes = {"copy": layout.copies, "shard": layout.shards}
        if layout.strategy == "fsdp":
            del sizes["copy"]
        mesh = init_device_mesh(device.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes))
        self._whole = ObjectiveModule(model)
        units = [unit for network in model.networks() for unit in network.shard_units()]
        uses = Counter(weight for unit in units for weight in unit.parameters())
        shared = {weight for weight, times in uses.items() if times > 1}
        policy = MixedPrecisionPolicy(
            param_dtype=model.compute_dtype, reduce_dtype=torch.float32, cast_forward_inputs=False
        )
        units = [unit for unit in units if not shared.issuperset(unit.parameters())]
        self._sharded: list[Any] = [self._whole, *units]
        for unit in units:
            fully_shard(unit, mesh=mesh, mp_policy=policy, ignored_params=shared)
        # FSDP looks for units below the root; the model's own names of weights are others.
        self._whole.units = nn.ModuleList(units)
        gathered_alone = {*self._whole.units.parameters()} - shared
        self._root: Any = fully_shard(self._whole, mesh=mesh, ignored_params=gathered_alone)
        # Kept, because the model's own attributes are whole weights at times (after an evaluation).
        self.parameters = dict(model.named_parameters())

    def wrap(self, objective: Objective, trained: set[str]) -> Objective:
        """Set the objective of the FSDP root."""
        self._whole.objective = super().wrap(objective, trained)
        return self._whole

    def wrap_for_inference(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Run the function inside the FSDP root, which gathers the weights."""

        def within(*arguments: Any) -> Any:
            before, self._whole.objective = self._whole.objective, function
            try:
                return self._whole(*arguments)
            finally:
                self._whole.objective = before

        return within

    @contextmanager
    def accumulating(self) -> Any:
        """Skip FSDP's reduce-scatter inside this block."""
        self._root.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self._root.set_requires_gradient_sync(True)

    def forget_gathered(self) -> None:
        """An evaluation leaves what no layer has alone gathered for the next forward pass."""
        for unit in self._sharded:
            unit.reshard()

    def shard(self, tensor: Tensor, name: str) -> Tensor:
        """Cut a tensor like its weight; nothing is sent."""
        return shard_like(tensor, self.parameters[name])


def make_engine(model: Model, layout: Layout, device: torch.device) -> Engine:
    """Distribute a model in main memory over the processes by the strategy of the layout."""
    match layout.strategy:
        case "single":
            return Engine(model, device)
        case "ddp":
            return Replicated(model, device)
        case "fsdp" | "hsdp":
            return Sharded(model, layout, device)


def local_shards(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Local shards of the tensors, sharing their memory."""
    return [local_shard(tensor) for tensor in tensors]


def local_shard(tensor: Any) -> Tensor:
    """The local shard of a tensor, sharing its memory; a plain tensor is its own shard."""
    return cast(Tensor, tensor.to_local() if hasattr(tensor, "to_local") else tensor)


def whole(tensor: Any) -> Tensor:
    """The whole of a sharded tensor, gathered by all processes; a plain tensor is whole."""
    return cast(Tensor, tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor)


def shard_like(tensor: Tensor, weight: Any) -> Tensor:
    """Cut a whole tensor as a weight is cut; a plain weight is not."""
    if not hasattr(weight, "device_mesh"):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    # Every process has the same whole tensor: each keeps its shard, nothing is sent.
    return distribute_tensor(
        tensor.to(weight.device), weight.device_mesh, weight.placements, src_data_rank=None
    )


class Part(NamedTuple):
    """The rows of a tensor of ``shape`` from row ``first`` that one process saves, perhaps none."""

    shape: tuple[int, ...]
    first: int
    rows: Tensor


def parts(tensors: Mapping[str, Any]) -> dict[str, Part]:
    """Copy into main memory the rows of sharded tensors that this process saves; nothing is sent.

    FSDP2 cuts rows as ``torch.chunk`` does. Of several copies the first is saved.
    """
    copied, devices = {}, set[torch.device]()
    for name, tensor in tensors.items():
        *copies, place = tensor.device_mesh.get_coordinate()
        shard = local_shard(tensor).detach()
        first = min(len(tensor), place * -(-len(tensor) // tensor.device_mesh.size(-1)))
        rows = (shard[:0] if any(copies) else shard).to("cpu", non_blocking=True, copy=True)
        copied[name] = Part(tuple(tensor.shape), first, rows)
        devices.add(shard.device)
    for device in devices:
        finish(device)
    return copied


def gathered(tensors: Mapping[str, Any], keep: bool = True) -> dict[str, Tensor]:
    """Gather whole tensors into main memory; returns {} unless ``keep``.

    A collective call: every process takes part, one tensor after the other. A device is waited for
    once, when all copies are on their way.
    """
    whole_tensors, devices = {}, set[torch.device]()
    for name, tensor in sorted(tensors.items()):  # loaded dicts are in another order
        all_of_it = whole(tensor)
        if keep:
            whole_tensors[name] = all_of_it.detach().to("cpu", non_blocking=True)
            devices.add(all_of_it.device)
    for device in devices:
        finish(device)
    return whole_tensors
