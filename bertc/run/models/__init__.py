"""Models of runs and of folders of others, loaded and imported."""
