"""Facts about a tokenizer from its files, without loading it; no torch."""
