"""Run folders: checkpoints, metrics, locks, and reports that load no torch."""
