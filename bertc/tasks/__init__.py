"""What answers of fine-tuned models are worth, and what files they are handed in as."""
