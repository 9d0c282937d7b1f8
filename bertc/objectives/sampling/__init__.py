"""Random draws with an address: keyed numbers, and the order in which draws arrive."""
