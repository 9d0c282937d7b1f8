"""Forecasts: the loss that a run will reach, by a law fitted to small runs of the same spec."""
