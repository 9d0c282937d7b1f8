"""Files of labelled examples in official and custom layouts, read into plain values."""
