"""Learning: corruption and losses of terms, the optimiser step, update rules."""
