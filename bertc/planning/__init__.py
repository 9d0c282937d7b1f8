"""Plans for a machine: device, precision, micro-batches, processes, learning rates."""

from bertc.planning.plan import Fit, Machine, Plan, plan
from bertc.planning.world import ALONE, Layout, World, lay_out, refuse_too_many

__all__ = [
    "ALONE",
    "Fit",
    "Layout",
    "Machine",
    "Plan",
    "World",
    "lay_out",
    "plan",
    "refuse_too_many",
]
