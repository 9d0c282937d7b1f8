"""Losses of softmaxes over a vocabulary, without a second copy of the logits."""
