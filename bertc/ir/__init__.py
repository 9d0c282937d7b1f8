"""Programs as values: frozen nodes, and closed unions of kinds."""
