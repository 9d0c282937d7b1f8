"""One objective on many processes: torch's engines, which add gradients up while they are made.

Both average over the processes; bertc divides by the predictions of the whole batch, so ``step``
multiplies by their number.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bertc.ir.network.encoder import layer_of
from bertc.ir.program.model import is_tied
from bertc.ir.program.resolved import Stage
from bertc.nn import Memory, Model
from bertc.objectives import Columns
from bertc.planning import Layout

Objective = Callable[[Columns, Tensor], tuple[Tensor, Tensor, Memory | None]]
"""Columns of a micro-batch and factors (t,) to the loss and, detached, sums and hits (2, t), and
the memory that the next rows go on from."""


class Whole(nn.Module):
    """An objective as a module around its model: what the engines hook into is a forward."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        self.objective: Callable[..., Any] | None = None

    def forward(self, *arguments: Any) -> Any:
        """As the objective."""
        assert self.objective is not None, "an engine takes up an objective first"
        return self.objective(*arguments)


class Engine:
    """The engine of one process, which has nothing to share.

    ``parameters`` are the weights as this process holds them.
    """

    def __init__(self, model: Model, device: torch.device) -> None:
        model.to(device)
        self._device = device
        self.parameters = dict(model.named_parameters())

    def take_up(self, objective: Objective, trained: set[str]) -> Objective:
        """The objective of a stage, which trains the weights named, as a part of the run's."""
        for name, parameter in self.parameters.items():
            parameter.requires_grad_(name in trained)
        return objective

    def reading(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that reads the model, as one that may be called between steps."""
        return function

    def accumulating(self) -> AbstractContextManager[object]:
        """Inside, gradients are kept here; the first backward outside adds all of them up."""
        return nullcontext()

    @property
    def keeps_gradients(self) -> bool:
        """Whether gradients are zeroed where they lie rather than dropped."""
        return False

    def spread(self, tensor: Tensor, name: str) -> Tensor:
        """What this process holds, on its device, of a tensor that belongs to a weight."""
        return tensor.to(self._device)


class Replicated(Engine):
    """DDP: every process holds everything."""

    def __init__(self, model: Model, device: torch.device) -> None:
        super().__init__(model, device)
        self._whole = Whole(model)
        self._outer: DistributedDataParallel | None = None

    def take_up(self, objective: Objective, trained: set[str]) -> Objective:
        """Under a wrapper of its own, for DDP waits for every weight that it knows of."""
        self._whole.objective = objective
        self._outer = None  # lets go of its hooks on the weights
        for name, parameter in self.parameters.items():
            parameter.requires_grad_(name in trained)
        self._outer = DistributedDataParallel(self._whole, gradient_as_bucket_view=True)
        return self._outer

    def accumulating(self) -> AbstractContextManager[object]:
        """As in one process."""
        assert self._outer is not None, "an engine takes up an objective first"
        return self._outer.no_sync()

    @property
    def keeps_gradients(self) -> bool:
        """They lie in the buckets that DDP adds up: made anew, each would be copied there."""
        return True


class Sharded(Engine):
    """FSDP2: every process holds a part of each weight; whole parts of a layer come and go."""

    def __init__(self, model: Model, layout: Layout, device: torch.device) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        # The model stays in main memory: each unit goes to the device as it is cut.
        sizes = {"copy": layout.copies, "shard": layout.shards}
        if layout.strategy == "fsdp":
            del sizes["copy"]
        mesh = init_device_mesh(device.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes))
        self._whole = Whole(model)
        for network in model.networks():
            for part in (*network.attention.values(), *network.ffn.values()):
                fully_shard(part.get_submodule("norm"), mesh=mesh)
                fully_shard(part, mesh=mesh)
        self._root: Any = fully_shard(self._whole, mesh=mesh)
        # The model shows whole weights in their place now and then: after an evaluation, for one.
        self.parameters = dict(model.named_parameters())

    def take_up(self, objective: Objective, trained: set[str]) -> Objective:
        """In the one root; a weight that is not trained is left alone by itself."""
        self._whole.objective = objective
        return self._whole

    def reading(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Within the root, which brings the whole of the weights together."""

        def within(*arguments: Any) -> Any:
            before, self._whole.objective = self._whole.objective, function
            try:
                return self._whole(*arguments)
            finally:
                self._whole.objective = before

        return within

    @contextmanager
    def accumulating(self) -> Any:
        """As in one process."""
        self._root.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self._root.set_requires_gradient_sync(True)

    def spread(self, tensor: Tensor, name: str) -> Tensor:
        """Cut like the weight."""
        from torch.distributed.tensor import distribute_tensor

        weight: Any = self.parameters[name]
        # Every process has the same whole tensor: each keeps its part, nothing is sent.
        return distribute_tensor(
            tensor.to(weight.device), weight.device_mesh, weight.placements, src_data_rank=None
        )


def make_engine(model: Model, layout: Layout, device: torch.device) -> Engine:
    """Lay a model in main memory out over the processes."""
    match layout.strategy:
        case "single":
            return Engine(model, device)
        case "ddp":
            return Replicated(model, device)
        case "fsdp" | "hsdp":
            return Sharded(model, layout, device)


def trained_names(stage: Stage) -> set[str]:
    """The weights that a stage has a gradient for."""
    found = set()
    for network in stage.networks():
        objectives = [term.objective for term in network.terms]
        unread = () if network.pooled else ("pooler.weight", "pooler.bias")
        unread = unread if network.unseen else (*unread, "embeddings.unseen")
        for weight in network.encoder.weights() if objectives else ():
            tied = network.name == "generator" and is_tied(stage.replacements, weight.name)
            frozen = network.name == "encoder" and _frozen(weight.name, stage.freeze)
            if weight.name not in unread and not frozen:
                found.add(f"{'encoder' if tied else network.name}.{weight.name}")
        heads = (w for objective in objectives for w in objective.weights(network.encoder))
        found |= {f"heads.{weight.name}" for weight in heads}
    return found


def _frozen(name: str, layers: int) -> bool:
    """Whether a weight is of the embeddings or of one of the lowest layers, if any are frozen."""
    layer = layer_of(name)
    return bool(layers) and layer is not None and layer <= layers


def local(tensors: Iterable[Tensor]) -> list[Tensor]:
    """What this process holds of each, sharing its memory."""
    return [held(tensor) for tensor in tensors]


def held(tensor: Any) -> Tensor:
    """What this process holds of a tensor, sharing its memory."""
    part: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return part


def gathered(tensors: Mapping[str, Any], keep: bool = True) -> dict[str, Tensor]:
    """Whole tensors, in main memory, in a process that wants to keep them; {} elsewhere.

    Every process takes part, one tensor after the other.
    """
    found = {}
    for name, tensor in sorted(tensors.items()):  # dicts that were loaded have another order
        whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
        if keep:
            found[name] = whole.detach().cpu()
    return found
