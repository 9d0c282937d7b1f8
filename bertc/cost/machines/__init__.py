"""Devices as figures: published ones, those that are given, and this CPU as measured."""
