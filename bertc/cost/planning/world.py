"""The processes of a run: their shares of a batch, and of weights, gradients and moments."""

from typing import Literal, NamedTuple

from bertc.base.diagnostics import UsageError
from bertc.ir.program import Resolved, Stage

Strategy = Literal["single", "ddp", "fsdp", "hsdp"]

SHARD_ABOVE = 0.6
"""Fraction of a device that weights, gradients and moments may take before they are sharded.

A model that fits trains up to four times as fast replicated (allenai/OLMo, issue 762)."""


class World(NamedTuple):
    """Number of processes of a run, one per device, and of those on each machine."""

    size: int = 1
    per_host: int = 1

    def share(self, batch: int) -> int:
        """The largest number of examples of a batch that any process gets."""
        return -(-batch // self.size)

    def reads_twice(self, stage: Stage, microbatch: int) -> bool:
        """True if the parts of a batch are read once more, to compare its examples."""
        compares = any(task.compares_examples for task in stage.tasks)
        return compares and (self.size > 1 or microbatch < stage.batch)

    def rows(self, rank: int, batch: int) -> slice:
        """The examples of a batch that a process gets: contiguous, and as even as possible."""
        quotient, more = divmod(batch, self.size)
        first = rank * quotient + min(rank, more)
        return slice(first, first + quotient + (rank < more))


class Layout(NamedTuple):
    """The distribution of weights, gradients and moments over processes.

    ``ddp``: a copy in each. ``fsdp``: a shard in each. ``hsdp``: sharded within a machine and
    copied between machines, so that only gradients leave a machine.
    """

    world: World = World()
    strategy: Strategy = "single"
    reason: str = ""

    @property
    def shards(self) -> int:
        """The number of parts that the state is cut into."""
        return {"fsdp": self.world.size, "hsdp": self.world.per_host}.get(self.strategy, 1)

    @property
    def sharded(self) -> bool:
        """True if each process holds only a part of the weights."""
        return self.strategy in ("fsdp", "hsdp")

    @property
    def copies(self) -> int:
        """The number of processes that hold the same part."""
        return self.world.size // self.shards


ALONE = Layout()
"""The layout of a single process."""


def refuse_too_many(resolved: Resolved, world: World) -> None:
    """Refuse more processes than examples in a batch: each needs at least one."""
    for stage in resolved.stages:
        if stage.batch < world.size:
            raise UsageError(
                f"stage {stage.name}: a batch of {stage.batch} examples cannot be shared by "
                f"{world.size} processes",
                help="at most as many processes as examples, or a larger batch",
            )
