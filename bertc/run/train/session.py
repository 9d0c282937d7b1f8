"""A run in progress: opening or resuming it, entering stages, saving checkpoints."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bertc.cost import Layout, Plan, World
from bertc.ir.program import Resolved, Stage, stand_in
from bertc.learn.optim.by_tensor import Moments
from bertc.learn.step.engines import Engine, gathered, make_engine, parts
from bertc.learn.step.memory import Remembered
from bertc.machine.display import Display
from bertc.machine.machine import dtype_of
from bertc.machine.process_group import ProcessGroup
from bertc.model import Model
from bertc.run.records import checkpoints, sharded
from bertc.run.records.folder import RunFolder, identity
from bertc.run.records.lock import versions
from bertc.run.records.metrics import Metrics
from bertc.run.train.start import Start
from bertc.run.train.state import Progress, describe_growth, grow_model


@dataclass
class Session:
    """The state that the loop works on; ``stage`` is the one whose network ``model`` is.

    ``held`` is what the methods of the stage have, by its file, in this process: {} before they
    begin, and in processes but the first if it is not on the devices. ``saved`` is
    the step of the last checkpoint; ``saving`` may still write it, with ``writers``, which a
    sharded run has. ``origin`` are the digests of the run's lock, which checkpoints repeat; {} but
    in the first process, which alone has ``metrics``.
    """

    start: Start
    folder: RunFolder
    display: Display
    ranks: ProcessGroup
    device: torch.device
    metrics: Metrics | None
    origin: Mapping[str, Any]
    stage: Stage
    model: Model
    engine: Engine
    moments: Moments
    progress: Progress
    remembered: Remembered
    held: dict[str, dict[str, Tensor]]
    saved: int
    writers: ProcessGroup | None
    saving: sharded.Saving | None = None

    @property
    def resolved(self) -> Resolved:
        """The program of the run."""
        return self.start.resolved

    @property
    def plan(self) -> Plan:
        """The plan of the run."""
        return self.start.plan

    @property
    def copies(self) -> int:
        """The number of processes with a copy of the same gradient."""
        return Layout(self.ranks.world, self.plan.strategy).copies

    def enter(self, stage: Stage) -> None:
        """Enter a stage; if its network differs, grow it from the current one.

        The last checkpoint stays of the old network; a resumed run grows it again, to the same
        weights. It begins with the weights that were evaluated, unless it goes on with the moments,
        which are those of the weights themselves.
        """
        if stage.grow is not None and stage is not self.stage:
            # Each process makes the whole of the new network from the whole of the old one.
            old = self.engine.parameters if stage.grow.moments == "carry" else self.evaluated
            weights, moments = gathered(old), gathered(self.moments)
            model, moments = grow_model(self.resolved, self.stage, stage, weights, moments)
            self.display.note(describe_growth(self.stage, stage))
            placed = place_on_devices(model, moments, self.plan, self.ranks.world)
            self.model, self.engine, self.moments = placed
        going_on = [method.holds for method in stage.methods if method in self.stage.methods]
        had, self.held = self.held, {}
        for store in (method.holds for method in stage.methods if method.holds):
            tensors = had[store.file] if store in going_on else {}
            if store.on_devices and not tensors:
                weights_now = self.engine.parameters.items()
                tensors = {name: weight.detach().clone() for name, weight in weights_now}
            self.held[store.file] = tensors
        self.remembered.enter(stage, self.progress.step)
        self.stage = stage

    @property
    def evaluated(self) -> Mapping[str, Tensor]:
        """The weights that are evaluated, or what stands for them, as this process holds them."""
        store = stand_in(self.stage, self.progress.step)
        return self.held[store.file] if store else self.engine.parameters

    def weights(self) -> dict[str, Tensor]:
        """Gather all weights in the first process's main memory; every process takes part."""
        return gathered(self.engine.parameters, self.ranks.is_main)

    def write(self, stage: Stage, kind: str, figures: Mapping[str, Any]) -> None:
        """Write a line of metrics, in the first process."""
        if self.metrics:
            progress = self.progress
            where = {"kind": kind, "step": progress.step, "stage": stage.name}
            so_far = {"tokens": progress.tokens, "seconds": round(progress.seconds, 3)}
            if words := self.resolved.words_by(progress.step):
                so_far["words"] = words
            self.metrics.write({**where, **so_far, **figures})

    def save(self) -> None:
        """Write a checkpoint of the current step, unless there is one; all processes take part."""
        self.save_in_background()
        self.finish_saving()

    def save_in_background(self) -> None:
        """Begin to write the same; one that is not sharded is complete at once."""
        step = self.progress.step
        if self.saved != step:
            self.finish_saving()
            self._begin_saving(step)
            self.saved = step

    def finish_saving(self) -> None:
        """Wait for the checkpoint that is being written, if any, and raise what went wrong."""
        saving, self.saving = self.saving, None
        if saving:
            saving.finish()

    def _begin_saving(self, step: int) -> None:
        """Write a checkpoint of the state, or copy it and begin to write."""
        assert self.stage is self.resolved.stage_after(step), "its stage has begun"
        state: dict[str, Mapping[str, Any]]
        state = {checkpoints.WEIGHTS: self.engine.parameters, checkpoints.OPTIMIZER: self.moments}
        content = self.remembered.gathered(self.resolved.stage_at(step), step, self.ranks)
        for method in self.stage.methods:
            if method.holds and not method.holds.on_devices:
                content[method.holds.file] = self.held[method.holds.file]
            elif method.holds and method.has_begun(step):
                state[method.holds.file] = self.held[method.holds.file]
        if self.writers:
            files = {name: parts(tensors) for name, tensors in state.items()}
            place = self.folder.checkpoints, step
            if sharded.make_files(*place, files, self.ranks):
                write = partial(sharded.write_parts, *place, files, self.ranks.is_main)
                complete = self._completing(step, content, begun=True)
                self.saving = sharded.Saving(*place, self.writers, write, complete)
                return
        for name, tensors in state.items():
            content[name] = gathered(tensors, self.ranks.is_main)
        self._completing(step, content)()
        # No process continues, or ends, before there is a checkpoint to resume from.
        self.ranks.wait()

    def _completing(
        self, step: int, content: Mapping[str, Mapping[str, Tensor]], begun: bool = False
    ) -> Callable[[], None]:
        """The work that completes a checkpoint of this state; none but in the first process."""
        if not self.metrics:
            return lambda: None
        # Fails if the folder was removed.
        self.progress.metrics_bytes = self.metrics.sync()
        facts = {
            "run": identity(self.resolved), "stage": self.stage.name,
            "data": self.start.corpus.fingerprint, "origin": self.origin,
            "metrics": {
                "step": step, "bytes": self.progress.metrics_bytes, "sha256": self.metrics.sha256,
            },
            "threads": torch.get_num_threads(), "versions": versions(),
        }  # fmt: skip
        progress, keep = asdict(self.progress), self.resolved.run.keep
        parent, stay = self.folder.checkpoints, [saved.step for saved in self.resolved.run.save_at]

        def complete() -> None:
            checkpoints.save(parent, step, content, progress, facts, keep, stay, begun)

        return complete


def place_on_devices(
    model: Model, moments: Moments, plan: Plan, world: World
) -> tuple[Model, Engine, Moments]:
    """Move a model and its moments to the devices of the processes, by the plan's strategy."""
    model.compute_dtype = dtype_of(plan)
    engine = make_engine(model, Layout(world, plan.strategy), torch.device(plan.device))
    return model, engine, {n: engine.shard(m, n.partition(".")[2]) for n, m in moments.items()}
