"""The tokenizer's files of a folder, carried along as they are; nothing in them is run."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertc.diagnostics import DataError
from bertc.passes.vocabulary import FILE_NAMES, LARGEST_FILE_BYTES
from bertc.storage.json_file import read_json

FILES = (
    *FILE_NAMES,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
)
PAD, CLS, SEP = ("[PAD]", "<pad>"), ("[CLS]", "<s>"), ("[SEP]", "</s>")
"""The names of special tokens in the vocabularies of BERT and ALBERT, and of RoBERTa."""


@dataclass(frozen=True)
class TokenizerFiles:
    """Files to copy, and the ids of the special tokens where they are known."""

    paths: tuple[Path, ...]
    pad: int
    cls: int | None
    sep: int | None

    def save(self, folder: Path) -> None:
        """Copy the files into a folder."""
        for path in self.paths:
            shutil.copyfile(path, folder / path.name)


def tokenizer_files(folder: Path, pad: int | None = None) -> TokenizerFiles:
    """What a folder holds of a tokenizer. ``pad`` is the padding id where no file says it.

    Raises:
        DataError: if its ``tokenizer.json`` is broken.
    """
    paths = tuple(folder / name for name in FILES if (folder / name).is_file())
    ids = _special_ids(folder)
    found = [next((ids[n] for n in names if n in ids), None) for names in (PAD, CLS, SEP)]
    return TokenizerFiles(paths, pad if pad is not None else found[0] or 0, found[1], found[2])


def lower_cased(folder: Path) -> bool:
    """Whether the tokenizer lower-cases its text; true unless ``tokenizer_config.json`` denies."""
    path = folder / "tokenizer_config.json"
    return (
        not path.is_file() or read_json(path, LARGEST_FILE_BYTES).get("do_lower_case") is not False
    )


def _special_ids(folder: Path) -> dict[str, int]:
    path = folder / "tokenizer.json"
    if not path.is_file():
        return {}
    added: Any = read_json(path, LARGEST_FILE_BYTES).get("added_tokens") or []
    try:
        return {str(token["content"]): int(token["id"]) for token in added}
    except (KeyError, TypeError, ValueError):
        raise DataError(
            f"{path} has added tokens without content or id", help="copy it again from its source"
        ) from None
