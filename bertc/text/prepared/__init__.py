"""Prepared text: a folder of tokenised shards, at any address, and its manifest."""
