"""Folders of the models that settings name as the Hugging Face hub does."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bertc.hub.published import model_folder
from bertc.ir.changing.growth import FromOther
from bertc.ir.program.teacher import FromFolder, Teacher
from bertc.ir.program.written import Given
from bertc.ir.vocabulary import TokenizerFile

_NAMING = ("init", "teacher", "vocab")
"""Settings that name a model or its tokenizer."""


def with_folders(settings: Mapping[str, Given]) -> dict[str, Given]:
    """Settings with the folder in the hub's cache of each model, which has the commit's name."""
    named = {name: settings[name] for name in _NAMING if name in settings}
    return {
        **settings,
        **{
            name: replace(setting, value=_with_folder(setting.value))
            for name, setting in named.items()
        },
    }


def _with_folder(value: Any) -> Any:
    match value:
        case FromOther(path=path) | FromFolder(path=path) | TokenizerFile(path=path):
            return value.model_copy(update={"path": model_folder(path)})
        case Teacher(source=source):
            return value.model_copy(update={"source": _with_folder(source)})
        case tuple():
            return tuple(map(_with_folder, value))
        case _:
            return value
