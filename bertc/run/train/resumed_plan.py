"""The plan of a resumed run: that of its first start, as far as this machine can."""

from dataclasses import replace

import torch

from bertc.cost.planning.plan import Machine, Plan
from bertc.cost.planning.world import ALONE, World
from bertc.ir.program.resolved import Resolved
from bertc.machine.display import Display
from bertc.machine.machine import make_plan
from bertc.model.native import missing
from bertc.run.records.lock import Lock


def plan_of(
    resolved: Resolved,
    machine: Machine,
    lock: Lock | None,
    display: Display,
    world: World = ALONE.world,
) -> Plan:
    """The plan for this machine; on resume that of the lock, for the same sums, if possible."""
    plan = make_plan(resolved, world, machine)
    if lock:
        began = lock.plan
        strategy = resolved.run.strategy
        other_strategy = plan.processes > 1 and strategy not in ("auto", began.strategy)
        if _where(began) == _where(plan) and not other_strategy:
            settings = (stage.microbatch for stage in resolved.stages)
            sizes = zip(settings, plan.microbatches, began.microbatches, strict=True)
            chosen = tuple(new if a else old for a, new, old in sizes)
            recompute = began.recompute if resolved.run.recompute == "auto" else plan.recompute
            plan = replace(began, microbatches=chosen, recompute=recompute)
        else:
            if began.device == plan.device:
                plan = replace(plan, precision=began.precision)
            display.note(
                f"warning: started on {_where(began)}, now on {_where(plan)}: "
                "results differ in the last digits"
            )
        if began.processes == plan.processes:
            _restore_threads(lock.threads, display)
        if plan.device == "cpu":
            _tell_other_kernels(lock.machine.get("without_kernels", ""), plan, display)
    display.note("; ".join([f"on {plan.device}", *plan.reasons]))
    return plan


def _where(plan: Plan) -> str:
    return plan.device if plan.processes == 1 else f"{plan.device} in {plan.processes} processes"


def _restore_threads(began: int, display: Display) -> None:
    """Set the run's first number of threads, because another one sums in another order."""
    if began != torch.get_num_threads():
        display.note(
            f"warning: the run began with {began} threads, here it would have "
            f"{torch.get_num_threads()}; continuing with {began}, for identical sums"
        )
        torch.set_num_threads(began)


def _tell_other_kernels(lacked: str, plan: Plan, display: Display) -> None:
    """Warn if kernels for this processor are new or gone: dropout differs with them."""
    lacking = missing(plan.precision)
    if bool(lacked) != bool(lacking):
        display.note(
            f"warning: started with{'out' * bool(lacked)} kernels for this processor, now with"
            f"{'out' * bool(lacking)} them ({lacked or lacking}): dropout differs from here on"
        )
