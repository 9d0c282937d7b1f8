"""A task of every kind of answer, as for ONNX."""

from tests.lab.onnx.conftest import tasks

__all__ = ["tasks"]
