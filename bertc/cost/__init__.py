"""Cost estimates of a program: parameters, FLOPs, memory and time. No torch."""

from bertc.estimate.cost import estimate, largest_microbatches, layout
from bertc.estimate.figures import Convention, convention_named
from bertc.estimate.machines.device import Device, device_in
from bertc.estimate.machines.devices import device_named
from bertc.estimate.table import Estimate, as_json, as_table
from bertc.estimate.where import where_table

__all__ = [
    "Convention",
    "Device",
    "Estimate",
    "as_json",
    "as_table",
    "convention_named",
    "device_in",
    "device_named",
    "estimate",
    "largest_microbatches",
    "layout",
    "where_table",
]
