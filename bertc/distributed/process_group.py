"""The processes of one run: which of them this is, and what they tell each other.

Most runs are one process, which tells nobody anything: then torch.distributed is never set up.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from bertc.diagnostics import BertcError, StoppedError
from bertc.distributed.parent_watch import launched
from bertc.host.machine import refuse_too_few_devices
from bertc.host.signals import Stop
from bertc.planning import World
from bertc.runs.checkpoints import how_to_resume

STEP_TIMEOUT = timedelta(minutes=30)
PREPARATION_TIMEOUT = timedelta(days=7)
"""How long the others wait while the first process reads text, which may be a whole library."""
WAY_SECONDS = 5.0
"""How long those that lost another process wait before they end: launchers tell of the first."""
SPOKEN_BYTES = 2048


def world_here() -> tuple[int, World]:
    """The rank of this process and its world, as torchrun says it; (0, one process) without."""
    size = int(os.environ.get("WORLD_SIZE", 1))
    if size == 1 or "RANK" not in os.environ:
        return 0, World()
    return int(os.environ["RANK"]), World(size, int(os.environ.get("LOCAL_WORLD_SIZE", size)))


@dataclass(frozen=True)
class Ranks:
    """The processes of a run, seen from one of them.

    Every method is called by all of them, in the same order. ``quiet_group`` is for what happens
    beside the steps and may take long.
    """

    rank: int
    world: World
    stop: Stop
    quiet_group: Any = None

    @property
    def first(self) -> bool:
        """Whether this is the process that reads and writes the run folder and shows the run."""
        return self.rank == 0

    @property
    def many(self) -> bool:
        """Whether there are others."""
        return self.world.size > 1

    def rows(self, batch: int) -> slice:
        """The examples of a batch that are this process's."""
        return self.world.rows(self.rank, batch)

    def add(self, numbers: Tensor) -> None:
        """Replace a vector by its sum over all processes."""
        if self.many:
            dist.all_reduce(numbers)

    def least(self, number: int) -> int:
        """The smallest of all processes' numbers."""
        if not self.many:
            return number
        told = torch.tensor([number])
        dist.all_reduce(told, op=dist.ReduceOp.MIN, group=self.quiet_group)
        return int(told)

    def flags(self, like: Tensor) -> list[Tensor]:
        """What this process puts beside the sums of a step: whether it was asked to stop.

        Numbers go to the device with the kernels that write them: a list would have to be copied,
        and waited for.
        """
        if not self.many:
            return []
        return [like.new_full((1,), number == self.stop.received) for number in Stop.SIGNALS]

    def hear(self, sums: list[float]) -> None:
        """Stop, at the next check, if any process was asked to; ``sums`` are those of the flags."""
        for number, asked in zip(Stop.SIGNALS, sums, strict=False):
            if asked:
                self.stop.agree(number)

    def share(self, value: Any) -> Any:
        """The first process's value, which JSON can hold, for all."""
        if not self.many:
            return value
        text = json.dumps(value).encode() if self.first else b""
        length = torch.tensor([len(text)])
        dist.broadcast(length, 0, group=self.quiet_group)
        raw = torch.zeros(int(length), dtype=torch.uint8)
        if self.first:
            raw = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        dist.broadcast(raw, 0, group=self.quiet_group)
        return json.loads(bytes(raw.tolist()))

    def share_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Replace tensors in main memory by the first process's."""
        if self.many:
            for name in sorted(tensors):
                dist.broadcast(tensors[name].detach(), 0, group=self.quiet_group)

    def gather(self, tensor: Tensor, dim: int, rows: list[slice]) -> Tensor:
        """In the first process all parts of a tensor in main memory, of which each has its rows."""
        if not self.many:
            return tensor
        # Shares differ by one row, messages do not.
        most = max(part.stop - part.start for part in rows)
        own = tensor.movedim(dim, 0)
        padded = own.new_zeros(most, *own.shape[1:])
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in rows] if self.first else None
        dist.gather(padded, parts, group=self.quiet_group)
        if parts is None:
            return tensor
        sizes = (part.stop - part.start for part in rows)
        whole = torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])
        return whole.movedim(0, dim)

    def said(self, text: str) -> str:
        """What the lowest process that has something to say says."""
        if not self.many:
            return text
        own = text.encode()[:SPOKEN_BYTES].ljust(SPOKEN_BYTES)
        every = torch.zeros(self.world.size, SPOKEN_BYTES, dtype=torch.uint8)
        every[self.rank] = torch.frombuffer(bytearray(own), dtype=torch.uint8)
        dist.all_reduce(every, group=self.quiet_group)
        texts = (bytes(row.tolist()).decode(errors="ignore").strip() for row in every)
        return next((said for said in texts if said), "")

    def wait(self) -> None:
        """Until all are here."""
        if self.many:
            dist.barrier(group=self.quiet_group)

    @contextmanager
    def alike(self) -> Iterator[None]:
        """Inside, all processes fail in the same way: the first says so, all end with its code."""
        try:
            yield
        except BertcError as error:
            if self.first:
                raise
            raise SystemExit(error.exit_code) from None


ALONE = Ranks(0, World(), Stop())


@contextmanager
def joined(device: str, stop: Stop, saved: Path) -> Iterator[Ranks]:
    """This process among the others of its run, as long as all of them live.

    ``device`` is the setting, ``saved`` the folder of the checkpoints.

    Raises:
        StoppedError: if another process ended.
        MachineError: if there are more of them than GPUs.
    """
    rank, world = world_here()
    if world.size == 1:
        yield Ranks(rank, world, stop)
        return
    try:
        yield _meet(rank, world, device, stop)
    except RuntimeError as error:
        if not _is_lost(error):
            raise
        lost = True
    else:
        lost = False
        dist.destroy_process_group()
    # Out of the except block, so that what the failed step held is let go.
    if lost:
        raise _lost(rank, stop, saved)


def _meet(rank: int, world: World, device: str, stop: Stop) -> Ranks:
    refuse_too_few_devices(device, world.per_host)
    cuda = device != "cpu" and torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)))
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if cuda else "gloo",
        rank=rank,
        world_size=world.size,
        timeout=STEP_TIMEOUT,
    )
    return Ranks(rank, world, stop, dist.new_group(backend="gloo", timeout=PREPARATION_TIMEOUT))


def _is_lost(error: RuntimeError) -> bool:
    """Whether an error means that another process is gone."""
    # Gloo raises plain RuntimeErrors; what they say names it or the connection.
    words = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer")
    return isinstance(error, dist.DistError) or any(word in str(error) for word in words)


def _lost(rank: int, stop: Stop, saved: Path) -> BaseException:
    """What ends this process when another has ended, once that one had time to be noticed."""
    end = time.monotonic() + WAY_SECONDS
    while not stop.received and time.monotonic() < end:
        time.sleep(0.05)
    # Whoever stopped this one has seen what became of the other: ``--nproc`` tells.
    if rank or (stop.received and launched()):
        return SystemExit(StoppedError.exit_code)
    return StoppedError("another process of this run ended", help=how_to_resume(saved))
