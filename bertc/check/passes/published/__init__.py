"""Published recipes for tasks, as data."""
