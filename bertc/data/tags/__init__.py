"""Tags of text beside its tokens: spans from a tagger or a file, as a code for each token."""
