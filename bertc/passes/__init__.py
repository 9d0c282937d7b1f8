"""From a program as written to one with nothing left open."""
