"""Programs: as written, with complete settings, resolved, and as a weight table."""
