"""The machine under a run: devices, memory, signals, profiles, the terminal."""
