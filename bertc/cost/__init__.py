"""Cost estimates of a program: parameters, FLOPs, memory and time. No torch."""

from bertc.cost.cost import estimate, largest_microbatches
from bertc.cost.figures import Convention, convention_named
from bertc.cost.machines.device import Device
from bertc.cost.machines.devices import device_named, this_cpu
from bertc.cost.planning.plan import Machine, Plan
from bertc.cost.planning.world import Layout, World
from bertc.cost.processes import layout_on
from bertc.cost.table import Estimate, as_json, as_table, where_table
from bertc.cost.units import duration_text
