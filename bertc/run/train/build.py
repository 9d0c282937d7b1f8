"""``bertc build``: allocate the model, compile and run its training step, save the model."""

import time
from dataclasses import replace
from pathlib import Path

import torch

from bertc.cost.planning.plan import Plan
from bertc.cost.units import bytes_text
from bertc.hub.exporting import export_model
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.learn.objectives import Inputs
from bertc.learn.step.feed import to_inputs
from bertc.learn.step.step import TrainStep
from bertc.machine.machine import dtype_of, make_plan
from bertc.machine.memory import peak_memory_bytes
from bertc.machine.profile import graphs_so_far
from bertc.model import Model
from bertc.run.beginning.init_from import source_of
from bertc.run.beginning.synthetic import RandomText, first_step, unlearned
from bertc.run.train.state import begin


def build(resolved: Resolved, out: Path | None) -> str:
    """Compile and run the first stage's step on random tokens, and write the initial model."""
    plan = make_plan(resolved)
    others = tuple(reason for reason in plan.reasons if not reason.startswith("compile="))
    plan = replace(plan, compile=True, reasons=others)
    source, resolved = source_of(resolved), resolved.as_in(resolved.stages[0])
    model = begin(resolved, resolved.stages[0], source).model.to(plan.device)
    tensors = {name: weight.detach().cpu().clone() for name, weight in model.named_parameters()}
    model.compute_dtype = dtype_of(plan)
    lines = _trial(resolved, resolved.stages[0], model.train(), plan)
    folder = out or Path("builds") / resolved.name
    exported = export_model(resolved, tensors, unlearned(resolved), folder)
    return "\n".join([*lines, exported.summary()])


def _trial(resolved: Resolved, stage: Stage, model: Model, plan: Plan) -> list[str]:
    """Lines on the network, its plan, and two training steps, the first with compilation."""
    rows = plan.microbatches[0]
    tokens = rows * stage.seq
    text = RandomText(stage.model_copy(update={"batch": rows}), resolved.encoder.vocab_size)
    first, second = (to_inputs(text.train(k), torch.device(plan.device)) for k in (0, 1))
    step = first_step(resolved, model, plan)
    before = graphs_so_far()
    first_seconds, loss = _timed(step, first, stage)
    compiled = graphs_so_far()
    second_seconds, _ = _timed(step, second, stage)
    after = graphs_so_far()
    return [
        f"{resolved.name}: {sum(w.numel for w in model_weights(resolved)):,} parameters, "
        "built as counted",
        f"plan: {plan.device}, {plan.precision}, micro-batches of {rows} x {stage.seq} tokens"
        + "".join(f"; {reason}" for reason in plan.reasons),
        f"step: {compiled.since(before).compiled} graphs, {after.since(before).breaks} graph "
        f"breaks, {after.since(compiled).compiled} recompiles on the second batch",
        f"time: first step {first_seconds:.1f} s with compilation, second "
        f"{second_seconds:.3f} s, {tokens / second_seconds:,.0f} tokens/s",
        f"memory: {bytes_text(peak_memory_bytes(plan.device))} at the peak; loss {loss:.3f}",
    ]


def _timed(step: TrainStep, inputs: Inputs, stage: Stage) -> tuple[float, float]:
    start = time.perf_counter()
    result = step(step.read(inputs), 0, stage.optimizer.lr)
    return time.perf_counter() - start, result.loss
