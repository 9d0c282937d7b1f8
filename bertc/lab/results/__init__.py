"""Results of runs: listed, compared, drawn."""
