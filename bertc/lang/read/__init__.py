"""Text to tree, with mistakes found and repaired."""
