"""Programs and trees back to text."""
