"""Terms of an objective without torch, those that are alike in one file."""
