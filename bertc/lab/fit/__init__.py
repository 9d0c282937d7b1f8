"""Sizes, steps and shares that meet a budget or a target: programs estimated until one fits."""
