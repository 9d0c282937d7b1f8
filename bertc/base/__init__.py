"""Ground: diagnostics, files and folders that survive a kill, shipped resources."""
