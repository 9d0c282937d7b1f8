"""What a program costs, before anything runs."""
