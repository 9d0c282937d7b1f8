"""The lab: what people look at runs with, and decide by; built on the public API."""
