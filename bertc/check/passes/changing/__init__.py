"""Checks of what a network begins from, grows into, and loses."""
