"""Facts about a tokenizer, read from the files of its folder.

Special tokens and settings are looked up in the order of ``AutoTokenizer`` of transformers 5.23;
settings that it would read differently from bertc are refused by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertc.diagnostics import DataError, MissingInputError
from bertc.storage.json_file import shown
from bertc.storage.paths import is_file, is_folder
from bertc.tokenizer_files.classes import (
    CLASS_OF_MODEL_TYPE,
    DEFAULT_TOKENS,
    EXTRA,
    FILE_NAMES,
    FILES_OF_KIND,
    KIND_OF_CLASS,
    OPTIONS,
    PASSED_ON,
    SINGLE_VALUES,
    TOKEN_ROLES,
    TokenizerKind,
)
from bertc.tokenizer_files.special_words import (
    SpecialToken,
    extra_words,
    read_object,
    special_words,
    token_id,
    unreadable,
    word_of,
)


@dataclass(frozen=True)
class TokenizerFacts:
    """The facts about a tokenizer before its vocabulary is read from ``file``.

    ``named`` has special tokens by role, ``extra`` more of them, ``added`` tokens by id,
    ``passed_on`` settings for other readers.
    """

    file: Path
    kind: TokenizerKind
    options: Mapping[str, bool | None]
    unknown: int
    named: Mapping[str, SpecialToken]
    extra: tuple[SpecialToken, ...] | None
    added: Mapping[int, SpecialToken]
    passed_on: Mapping[str, Any]

    @property
    def lower(self) -> bool:
        """True if text becomes lower case, as far as files other than tokenizer.json say."""
        default = self.kind in ("bert", "albert", "written")
        return (
            self.options.get("do_lower_case", self.passed_on.get("do_lower_case", default)) is True
        )


def read_facts(path: Path) -> TokenizerFacts:
    """The facts of a folder's tokenizer, or of one of its files.

    The kind of a single file follows from its name: ``tokenizer.json`` is taken as it stands.

    Raises:
        MissingInputError: if there is no vocabulary.
        DataError: if it is of a class, or has a setting, that bertc does not follow.
    """
    folder = path if is_folder(path) else path.parent
    config = read_object(folder / "tokenizer_config.json")
    model = read_object(folder / "config.json")
    named_class = _class(config, model)
    kind = _kind(path, named_class)
    file = _file(path, kind)
    if file.name != "tokenizer.json" and kind == "written":
        kind = _kind_of_file(file, named_class)
    _refuse(folder, kind, config, file)
    options = {
        name: _option(folder, name, config.get(name, default))
        for name, default in OPTIONS[kind].items()
    }
    settings, added = special_words(folder, config, file)
    named = {
        role: SpecialToken(token, {"special": True}) for role, token in DEFAULT_TOKENS[kind].items()
    }
    if kind == "camembert":  # its class strips the space before a mask that is named by text alone
        named["mask"] = named["mask"]._replace(flags={"special": True, "lstrip": True})
    by_name = {word.content: word for word in added.values()}
    for role in TOKEN_ROLES:
        if f"{role}_token" in settings:
            setting = settings[f"{role}_token"]
            named.pop(role, None)
            if setting is not None:
                word = word_of(folder, setting, special=True)
                named[role] = by_name.get(word.content, word)
    return TokenizerFacts(
        file,
        kind,
        options,
        token_id(folder, "unk_id", config.get("unk_id", 0)),
        named,
        _extra(folder, kind, settings, file),
        added,
        _settings_passed_on(kind, config),
    )


def _class(config: Mapping[str, Any], model: Mapping[str, Any]) -> str:
    """The class that a folder names, else that of its model type; empty if neither is known."""
    named = config.get("tokenizer_class") or model.get("tokenizer_class")
    if named is None and (layout := model.get("model_type")):
        named = CLASS_OF_MODEL_TYPE.get(str(layout), f"that of {layout}")
    return str(named or "").removesuffix("Fast")


def _kind(path: Path, named: str) -> TokenizerKind:
    if not named or not is_folder(path):
        return "written"
    if named not in KIND_OF_CLASS:
        raise DataError(
            f"{path}: its tokenizer is {shown(named)}, which bertc does not read",
            help=f"bertc reads {', '.join(KIND_OF_CLASS)}; a tokenizer.json that is named itself, "
            'as in vocab="folder/tokenizer.json", is read as it is written',
        )
    return KIND_OF_CLASS[named]


def _file(path: Path, kind: TokenizerKind) -> Path:
    """The vocabulary file at a path, or inside it if it is a folder."""
    if not is_folder(path):
        if not is_file(path):
            raise MissingInputError(
                f"{path}: there is no such file", f"name a folder or one of {', '.join(FILE_NAMES)}"
            )
        return path
    for name in FILES_OF_KIND[kind]:
        if is_file(path / name):
            return path / name
    raise MissingInputError(
        f"{path} has no {', '.join(FILES_OF_KIND[kind])}",
        help="copy the tokenizer's files into it: without them nothing can be read",
    )


def _kind_of_file(file: Path, named: str) -> TokenizerKind:
    """The kind of a single file, or of one in a folder that names no class."""
    match file.suffix:
        case ".txt":
            return "bert"
        case ".model":
            return "xlnet" if named == "XLNetTokenizer" else "albert"
    return "roberta" if file.name == "vocab.json" else "written"


def _refuse(folder: Path, kind: TokenizerKind, config: Mapping[str, Any], file: Path) -> None:
    for name, (only, kinds) in SINGLE_VALUES.items():
        value = config.get(name)
        if kind in kinds and value is not None and value != only:
            raise DataError(
                f"{folder / 'tokenizer_config.json'}: bertc does not follow {name} = "
                f"{shown(value)}",
                help=f"only {name} = {shown(only)} is read",
            )
    ends = [name for name in ("add_bos_token", "add_eos_token") if config.get(name)]
    if ends and file.name != "tokenizer.json":
        raise DataError(
            f"{folder / 'tokenizer_config.json'}: bertc does not follow {ends[0]} without a "
            "tokenizer.json",
            help="save the tokenizer with a tokenizer.json, which says what stands around a text",
        )


def _option(folder: Path, name: str, value: Any) -> bool | None:
    if isinstance(value, bool) or (value is None and name == "strip_accents"):
        return value
    raise unreadable(folder, name, value, "true or false")


def _extra(
    folder: Path, kind: TokenizerKind, settings: Mapping[str, Any], file: Path
) -> tuple[SpecialToken, ...] | None:
    """Further special tokens; None where spiece.model lists them."""
    words = extra_words(folder, settings)
    if words is None and file.suffix != ".model":
        return tuple(SpecialToken(token, {"special": True}) for token in EXTRA.get(kind, ()))
    return words


def _settings_passed_on(kind: TokenizerKind, config: Mapping[str, Any]) -> dict[str, Any]:
    settings = {name: config[name] for name in PASSED_ON if name in config}
    return {"padding_side": "left", **settings} if kind == "xlnet" else settings
