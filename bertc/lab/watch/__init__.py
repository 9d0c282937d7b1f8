"""Watching a run while it trains, in a terminal or a browser. Loads no torch."""
