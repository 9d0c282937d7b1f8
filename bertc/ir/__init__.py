"""Programs as values: frozen nodes, closed unions by kind."""
