"""Weights and configurations to and from the Hugging Face layouts."""
