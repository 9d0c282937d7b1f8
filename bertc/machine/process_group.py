"""The processes of one run: the rank of this one and the messages between them.

Single-process runs never initialise torch.distributed.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from bertc.base.diagnostics import BertcError, StoppedError
from bertc.cost.planning.world import World
from bertc.machine.machine import refuse_too_few_devices
from bertc.machine.signals import Stop, is_launched

STEP_TIMEOUT = timedelta(minutes=30)
PREPARATION_TIMEOUT = timedelta(days=7)
"""Wait of the other processes while the first prepares the text, which may be very large."""
GRACE_SECONDS = 5.0
"""Grace period in seconds after a peer dies; the launcher reports the original failure."""
LOST = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer")
"""Words of errors that mean that another process is gone."""
CachedT = TypeVar("CachedT")


def world_here() -> tuple[int, World]:
    """This process's rank and world, from torchrun's environment; (0, one process) without."""
    size = int(os.environ.get("WORLD_SIZE", 1))
    if size == 1 or "RANK" not in os.environ:
        return 0, World()
    return int(os.environ["RANK"]), World(size, int(os.environ.get("LOCAL_WORLD_SIZE", size)))


@dataclass(frozen=True)
class ProcessGroup:
    """The processes of a run, as one of them sees them.

    Every method is called by all processes, in the same order. ``quiet_group`` is a gloo group with
    a long timeout, for messages outside the steps.
    """

    rank: int
    world: World
    stop: Stop
    quiet_group: Any = None

    @property
    def is_main(self) -> bool:
        """True in the process that reads and writes the run folder and shows progress (rank 0)."""
        return self.rank == 0

    @property
    def is_distributed(self) -> bool:
        """True if the run has more than one process."""
        return self.world.size > 1

    def rows(self, batch: int) -> slice:
        """This process's examples of a batch."""
        return self.world.rows(self.rank, batch)

    def add(self, numbers: Tensor) -> None:
        """Replace a vector by its sum over all processes (all-reduce)."""
        if self.is_distributed:
            dist.all_reduce(numbers)

    def least(self, number: int) -> int:
        """The minimum of a number over all processes."""
        if not self.is_distributed:
            return number
        smallest = torch.tensor([number])
        dist.all_reduce(smallest, op=dist.ReduceOp.MIN, group=self.quiet_group)
        return int(smallest)

    def signal_flags(self, like: Tensor) -> list[Tensor]:
        """One number a signal, 1 if this process received it, to be summed with the step's losses.

        ``new_full`` writes them on the device; a list would have to be copied, and waited for.
        """
        if not self.is_distributed:
            return []
        return [like.new_full((1,), number == self.stop.received) for number in Stop.SIGNALS]

    def receive_signals(self, sums: list[float]) -> None:
        """Stop at the next check if any process got a signal; ``sums`` are the summed flags."""
        for number, received in zip(Stop.SIGNALS, sums, strict=False):
            if received:
                self.stop.agree(number)

    def share(self, value: Any) -> Any:
        """Broadcast the first process's value."""
        if not self.is_distributed:
            return value
        values = [value]
        dist.broadcast_object_list(values, 0, group=self.quiet_group)
        return values[0]

    def share_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Replace tensors in main memory by those of the first process."""
        if self.is_distributed:
            for name in sorted(tensors):
                dist.broadcast(tensors[name].detach(), 0, group=self.quiet_group)

    def gather(self, tensor: Tensor, dim: int, rows: list[slice]) -> Tensor:
        """Concatenate along ``dim``, in the first process, the parts that each process has."""
        if not self.is_distributed:
            return tensor
        # Shares differ by one row; gather needs messages of one size.
        most = max(part.stop - part.start for part in rows)
        local = tensor.movedim(dim, 0)
        padded = local.new_zeros(most, *local.shape[1:])
        padded[: len(local)] = local
        parts = [torch.empty_like(padded) for _ in rows] if self.is_main else None
        dist.gather(padded, parts, group=self.quiet_group)
        if parts is None:
            return tensor
        sizes = (part.stop - part.start for part in rows)
        joined = torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])
        return joined.movedim(0, dim)

    def first_message(self, text: str) -> str:
        """The first non-empty message, by rank, on every process."""
        if not self.is_distributed:
            return text
        texts = [""] * self.world.size
        dist.all_gather_object(texts, text.strip(), group=self.quiet_group)
        return next(filter(None, texts), "")

    def in_turn(self, make: Callable[[], CachedT]) -> CachedT:
        """Call ``make`` in the first process, which fills the cache, and then in the others.

        Before these, one process of each machine calls it, in case they share no disk.
        """
        results: list[CachedT] = []
        for turn in (self.world.size, self.world.per_host, 1):
            if not results and self.rank % turn == 0:
                results.append(make())
            self.wait()
        return results[0]

    def wait(self) -> None:
        """Wait for all processes (barrier)."""
        if self.is_distributed:
            dist.barrier(group=self.quiet_group)

    def aside(self) -> "ProcessGroup":
        """The same processes with a group of their own, for another thread to use."""
        return replace(self, quiet_group=dist.new_group(backend="gloo", timeout=STEP_TIMEOUT))

    @contextmanager
    def raise_on_all(self) -> Iterator[None]:
        """Raise on all processes: the first raises the error, the others exit with its code."""
        try:
            yield
        except BertcError as error:
            if self.is_main:
                raise
            raise SystemExit(error.exit_code) from None


ALONE = ProcessGroup(0, World(), Stop())


@contextmanager
def join_group(device: str, stop: Stop, resuming: Callable[[], str]) -> Iterator[ProcessGroup]:
    """Join the processes of the run, for the duration of this block."""
    rank, world = world_here()
    if world.size == 1:
        yield ProcessGroup(rank, world, stop)
        return
    refuse_too_few_devices(device, world.per_host)
    cuda = device != "cpu" and torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)))
    try:
        backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
        dist.init_process_group(backend, rank=rank, world_size=world.size, timeout=STEP_TIMEOUT)
        quiet_group = dist.new_group(backend="gloo", timeout=PREPARATION_TIMEOUT)
        yield ProcessGroup(rank, world, stop, quiet_group)
    except RuntimeError as error:
        # Gloo raises plain RuntimeErrors, whose text names gloo or the connection.
        if not isinstance(error, dist.DistError) and not any(w in str(error) for w in LOST):
            raise
        lost = True
    else:
        lost = False
        dist.destroy_process_group()
    # After the except block, so that the tensors of the failed step are freed.
    if lost:
        raise _peer_lost(rank, stop, resuming())


def _peer_lost(rank: int, stop: Stop, help: str) -> BaseException:
    """The exception that ends this process after a peer died, raised after a grace period."""
    end = time.monotonic() + GRACE_SECONDS
    while not stop.received and time.monotonic() < end:
        time.sleep(0.05)
    # The launcher already reports why the peer ended, so this process exits quietly.
    if rank or (stop.received and is_launched()):
        return SystemExit(StoppedError.exit_code)
    return StoppedError("another process of this run ended", help=help)
