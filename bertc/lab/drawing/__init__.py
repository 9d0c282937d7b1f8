"""Drawings of networks as text and images."""
