"""Models of the Hugging Face hub by ``owner/name@revision``; no torch, and never code."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import MissingInputError
from bertc.base.storage.paths import is_folder, is_taken
from bertc.text.tokenizers.by_transformers import FILE_NAMES
from bertc.text.tokenizers.reading import network_folder, tokenizer_folder

_SECONDS_TO_ANSWER = 10.0
SMALL = ("*.json", "*.txt", "*.model")
SAFE = ("model*.safetensors", "*/model*.safetensors", "bertc_heads.safetensors")
PICKLED = ("pytorch_model*.bin", "*/pytorch_model*.bin")
UNREAD = ("onnx/*", "openvino/*", "*/onnx/*", "*/openvino/*", "coreml/*", "runs/*", "*checkpoint*")
"""Folders of repositories with copies in other formats, and of earlier training."""
NAME = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:@(\w[\w./-]*))?", re.ASCII)
"""A model of the hub, and its revision."""
_FILES = (".txt", ".json", ".model", ".bertc")
_SNAPSHOT = re.compile(r"models--(.+?)--([^/]+)/snapshots/(\w+)/?$")


def model_folder(path: str) -> str:
    """The folder in the hub's cache of a model that ``path`` names; else ``path``, as it is."""
    named = _named(path)
    known = _snapshot(*named) if named else path
    return str(known) if isinstance(known, Path) else path


def or_hub(help: str, path: str) -> str:
    """The help for a model that is not there, with the hub's reason if ``path`` may be a name."""
    named = _named(path)
    reason = _snapshot(*named) if named else ""
    return f"{help}; {reason}" if isinstance(reason, str) and reason else help


def hub_name(path: str) -> str:
    """The ``owner/name`` of a folder in the hub's cache; empty for other folders."""
    place = _SNAPSHOT.search(path)
    return f"{place[1]}/{place[2]}" if place else ""


def fetch_weights(folder: Path) -> None:
    """Download the weights of a cached folder that has none, pickled ones if it has no others."""
    place = _SNAPSHOT.search(folder.as_posix())
    if not place or _has_weights(folder):
        return
    name = hub_name(place[0])
    for patterns in (SAFE, PICKLED):
        _download(name, place[3], patterns, cache_dir=folder.parents[2])
        if _has_weights(folder):
            return
    message = f"the weights of {name} are not in the hub's cache, and were not downloaded"
    remedy = "download them once with a network, and HF_HUB_OFFLINE unset"
    raise MissingInputError(message, help=remedy)


def _named(path: str) -> tuple[str, str] | None:
    """Repository and revision; None of a path here, or next to what is here."""
    name = NAME.fullmatch(path)
    owner = path.partition("/")[0]
    if not name or path.endswith(_FILES) or is_taken(path) or is_folder(owner):
        return None
    return name[1], name[2] or "main"


@cache
def _snapshot(name: str, revision: str) -> Path | str:
    """Settings and tokenizer of a model in the cache, or the reason why they are not there."""
    known = _download(name, revision, SMALL, local_files_only=True)  # so a name stays at one commit
    if isinstance(known, Path) and is_taken(network_folder(known) / "config.json"):
        words = tokenizer_folder(known)  # there or not, as other programs may have fetched them
        if any(is_taken(words / name) for name in FILE_NAMES):
            return known
    return _download(name, revision, SMALL)


def _download(name: str, revision: str, patterns: Sequence[str], **ways: Any) -> Path | str:
    """The folder of a revision with such files, or the reason why it is not there."""
    from huggingface_hub import constants, errors, snapshot_download

    offline = constants.HF_HUB_OFFLINE
    try:
        folder = snapshot_download(
            name, revision=revision, etag_timeout=_SECONDS_TO_ANSWER, allow_patterns=[*patterns],
            ignore_patterns=[*UNREAD], **{"local_files_only": offline, **ways},
        )  # fmt: skip
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, ValueError):
        return "the hub has no such public model or revision; HF_TOKEN opens private ones"
    except (OSError, errors.HfHubHTTPError):
        reason = "HF_HUB_OFFLINE is set" if offline else "the hub cannot be reached"
        return f"the hub's cache has no such model, and {reason}"
    return Path(folder)


def _has_weights(folder: Path) -> bool:
    return any(True for pattern in (SAFE[0], PICKLED[0]) for _ in folder.rglob(pattern))
