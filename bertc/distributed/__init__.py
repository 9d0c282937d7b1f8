"""Several processes for one run: their launcher, messages between them, DDP and FSDP engines."""
