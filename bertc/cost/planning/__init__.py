"""Plans for a machine: device, precision, micro-batches, processes, learning rates."""
