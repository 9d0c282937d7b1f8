"""Modules for the kinds of the IR."""
