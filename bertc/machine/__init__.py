"""The machine under a run: devices, memory, signals, the terminal."""
