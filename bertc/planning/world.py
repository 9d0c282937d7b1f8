"""How the processes of a run share its batch and its memory."""

from dataclasses import dataclass
from typing import Literal

from bertc.diagnostics import UsageError
from bertc.ir.program.resolved import Resolved

Strategy = Literal["single", "ddp", "fsdp", "hsdp"]

SHARD_ABOVE = 0.6
"""Part of a device that weights, gradients and moments may take before they are sharded: a model
that fits trains up to four times as fast replicated (allenai/OLMo, issue 762)."""


@dataclass(frozen=True)
class World:
    """The processes of a run, one a device, ``per_host`` of them on each machine."""

    size: int = 1
    per_host: int = 1

    def share(self, batch: int) -> int:
        """Examples of a batch that fall to the process with the most."""
        return -(-batch // self.size)

    def rows(self, rank: int, batch: int) -> slice:
        """Which examples of a batch fall to a process: neighbours, and as even as can be."""
        each, more = divmod(batch, self.size)
        first = rank * each + min(rank, more)
        return slice(first, first + each + (rank < more))


@dataclass(frozen=True)
class Layout:
    """What each process holds.

    ``ddp``: all of the state. ``fsdp``: a part of it, of as many as there are processes. ``hsdp``:
    a part of as many as a machine has, so that only gradients leave the machine.
    """

    world: World = World()
    strategy: Strategy = "single"
    reason: str = ""

    @property
    def shards(self) -> int:
        """In how many parts the state is cut."""
        match self.strategy:
            case "single" | "ddp":
                return 1
            case "fsdp":
                return self.world.size
            case "hsdp":
                return self.world.per_host

    @property
    def sharded(self) -> bool:
        """Whether weights lie in parts on several devices."""
        return self.strategy in ("fsdp", "hsdp")

    @property
    def copies(self) -> int:
        """How many processes hold the same part."""
        return self.world.size // self.shards


ALONE = Layout()


def lay_out(resolved: Resolved, world: World, state_bytes: int, memory_bytes: int) -> Layout:
    """Decide how the state lies on devices of ``memory_bytes``, and say why.

    Raises:
        UsageError: if there are more processes than examples in a batch.
    """
    if world.size == 1:
        return ALONE
    refuse_too_many(resolved, world)
    asked = resolved.run.strategy
    if asked != "auto":
        return Layout(world, asked, f"{asked} on {world.size} processes, as asked")
    used = state_bytes / memory_bytes
    fits = used <= SHARD_ABOVE
    sharded: Strategy = "hsdp" if 1 < world.per_host < world.size else "fsdp"
    return Layout(
        world,
        "ddp" if fits else sharded,
        f"{'ddp' if fits else sharded} on {world.size} processes: weights, gradients and moments "
        f"take {used:.0%} of a device" + ("" if fits else f", more than {SHARD_ABOVE:.0%}"),
    )


def refuse_too_many(resolved: Resolved, world: World) -> None:
    """Every process is to have an example of every batch.

    Raises:
        UsageError: if there are more processes than examples in a batch.
    """
    for stage in resolved.stages:
        if stage.batch < world.size:
            raise UsageError(
                f"stage {stage.name}: a batch of {stage.batch} examples cannot be shared by "
                f"{world.size} processes",
                help=f"{stage.batch} processes at most, or a larger batch",
            )
