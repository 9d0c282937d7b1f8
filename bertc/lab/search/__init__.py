"""Searches: trials of a spec with ranges, in one store that several processes share."""
