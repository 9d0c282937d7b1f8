"""Questions that passes ask of written settings, and edits that they suggest."""
