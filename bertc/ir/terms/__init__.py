"""Terms of an objective without torch, one file each."""
