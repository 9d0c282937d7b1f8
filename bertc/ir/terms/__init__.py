"""The terms of an objective without torch: a file each, which states everything but tensors."""
