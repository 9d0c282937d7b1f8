"""Devices as figures: published ones, those of a device file, and this CPU as measured."""
