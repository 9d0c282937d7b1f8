"""Benchmarks: training steps beside other systems, and answers to texts, timed in turns."""
