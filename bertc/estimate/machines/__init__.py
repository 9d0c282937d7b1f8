"""Devices as figures: published ones, those of a file, and this CPU as it was measured."""
