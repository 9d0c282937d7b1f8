"""Specs in an editor: what may be written at a place, what it means, and the language server."""
