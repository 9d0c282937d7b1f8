"""Weights and configurations to and from the Hugging Face layouts."""

from bertc.interop.exporting import Exported, Vocabulary, export_model
from bertc.interop.importing import Imported, import_model
from bertc.interop.layout import layout
from bertc.interop.loading import load, read_model
from bertc.interop.obstacle import Obstacle
from bertc.interop.runs import ImportedRun, export_run, import_run

__all__ = [
    "Exported",
    "Imported",
    "ImportedRun",
    "Obstacle",
    "Vocabulary",
    "export_model",
    "export_run",
    "import_model",
    "import_run",
    "layout",
    "load",
    "read_model",
]
