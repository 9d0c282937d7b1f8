"""Programs: as written, as settings, resolved, and as a weight table."""
