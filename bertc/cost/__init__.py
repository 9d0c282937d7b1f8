"""Cost estimates of a program: parameters, FLOPs, memory and time. No torch."""

from bertc.cost.cost import estimate, largest_microbatches
from bertc.cost.figures import Convention, convention_named
from bertc.cost.machines.device import Device
from bertc.cost.machines.devices import device_named
from bertc.cost.processes import layout_on
from bertc.cost.table import Estimate, as_json, as_table, where_table

__all__ = [
    "Convention", "Device", "Estimate", "as_json", "as_table", "convention_named", "device_named",
    "estimate", "largest_microbatches", "layout_on", "where_table",
]  # fmt: skip
