"""Special and added tokens, from the JSON files beside a vocabulary."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bertc.diagnostics import DataError
from bertc.storage.json_file import read_json, shown
from bertc.storage.paths import is_taken
from bertc.tokenizer_files.classes import LARGEST_FILE_BYTES, TOKEN_ROLES


class SpecialToken(NamedTuple):
    """A token that is never split: content and flags of an ``AddedToken`` of tokenizers."""

    content: str
    flags: Mapping[str, bool]


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file of the folder; empty if there is no such file.

    Raises:
        MissingInputError: if it is no plain file.
        DataError: if it is something else.
    """
    return read_json(path, LARGEST_FILE_BYTES) if is_taken(path) else {}


def special_words(
    folder: Path, config: Mapping[str, Any], file: Path
) -> tuple[Mapping[str, Any], dict[int, SpecialToken]]:
    """The settings that name special tokens, and the added tokens by their id.

    Where tokenizer_config.json lists the added tokens, no other file is read.
    """
    listed = config.get("added_tokens_decoder")
    if listed is not None:
        if not isinstance(listed, dict):
            raise unreadable(folder, "added_tokens_decoder", listed, "a list of tokens")
        return config, {
            _id(folder, number): word_of(folder, word, special=False)
            for number, word in listed.items()
        }
    settings = {**config, **read_object(folder / "special_tokens_map.json")}
    special = [_content(settings.get(f"{role}_token")) for role in TOKEN_ROLES]
    added = {}
    for content, number in read_object(folder / "added_tokens.json").items():
        known = content in special
        flags = {"special": known, "normalized": not known}
        added[_id(folder, number)] = SpecialToken(content, flags)
    if file.name == "tokenizer.json":
        words = read_object(file).get("added_tokens") or []
        for word in words if isinstance(words, list) else [words]:
            if not isinstance(word, dict) or "id" not in word:
                raise DataError(
                    f"{file} has added tokens without content or id",
                    help="copy it again from its source",
                )
            added[_id(folder, word["id"])] = word_of(folder, word, special=False)
    return settings, added


def _id(folder: Path, number: Any) -> int:
    if isinstance(number, str) and number.isdecimal() and len(number) < 9:
        number = int(number)
    return token_id(folder, "added token's id", number)


TOKEN_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def _content(value: Any) -> str | None:
    return value.get("content") if isinstance(value, dict) else value


def word_of(folder: Path, value: Any, special: bool) -> SpecialToken:
    """A token from its entry in a file: text alone, or an object with flags.

    Raises:
        DataError: if it is neither.
    """
    content = _content(value)
    if not isinstance(content, str) or not content:
        raise unreadable(folder, "special token", value, "a token")
    flags = {"special": True} if special else {}
    if isinstance(value, dict):
        flags |= {name: value[name] for name in TOKEN_FLAGS if isinstance(value.get(name), bool)}
        if special:
            flags["special"] = True
    return SpecialToken(content, flags)


def extra_words(folder: Path, settings: Mapping[str, Any]) -> tuple[SpecialToken, ...] | None:
    """Further special tokens, with a role of their own or none; None if no file lists any."""
    extra = settings.get("extra_special_tokens") or settings.get("additional_special_tokens")
    with_roles = [
        value
        for name, value in settings.items()
        if name.endswith("_token") and name[:-6] not in TOKEN_ROLES and isinstance(value, str)
    ]
    if extra is None and not with_roles:
        return None
    listed = extra.values() if isinstance(extra, dict) else extra or ()
    if not isinstance(extra, dict | list | None):
        raise unreadable(folder, "extra_special_tokens", extra, "a list of tokens")
    return tuple(word_of(folder, value, special=True) for value in (*listed, *with_roles))


def token_id(folder: Path, name: str, value: Any) -> int:
    """A token id read from a file.

    Raises:
        DataError: if it is something else.
    """
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10_000_000:
        return value
    raise unreadable(folder, name, value, "a token id")


def unreadable(folder: Path, name: str, value: Any, expected: str) -> DataError:
    """The error for a setting of the wrong type or range."""
    return DataError(
        f"{folder}: the tokenizer's {name} = {shown(value)} is not {expected}",
        help="copy tokenizer_config.json and special_tokens_map.json again from their source",
    )
