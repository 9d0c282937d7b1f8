"""Answers of fine-tuned models: metrics, decoding of spans, files for submission."""
