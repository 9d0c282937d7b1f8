"""Several processes for one run: starting them, what they tell each other, torch's engines."""
