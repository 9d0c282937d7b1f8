"""Specs to start from: one written from a few answers, those shipped, and every setting of one."""
