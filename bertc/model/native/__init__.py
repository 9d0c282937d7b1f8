"""C kernels for the CPU's work between matrix products; absent without a compiler."""
