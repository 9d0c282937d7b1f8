"""The pass that finds an existing vocabulary and reads its size."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertc.diagnostics import Diagnostics
from bertc.ir.data import TokenizerFile
from bertc.ir.growth import FromRun
from bertc.ir.program import Given, Program

LARGEST_FILE_BYTES = 256 * 2**20
FILE_NAMES = ("tokenizer.json", "vocab.txt", "spiece.model")


def vocabulary(program: Program, diagnostics: Diagnostics) -> Program:
    """Fill in the size of ``vocab=tokenizer("...")`` where it was left open.

    ``vocab="bert/vocab.txt"`` becomes ``vocab=tokenizer("bert/vocab.txt", size=30522)``. A run that
    begins from another reads with its vocabulary, unless one is written.
    """
    given, init = program.settings["vocab"], program.settings["init"]
    if isinstance(init.value, FromRun) and given.origin.kind == "default":
        if not Path(init.value.path).is_dir():
            nowhere_to_begin(program, diagnostics)
            return program
        origin = replace(init.origin, kind="derived", source="the vocabulary of init")
        given = Given(_vocabulary_of(Path(init.value.path)), origin)
        program = program.with_settings({"vocab": given})
    if not isinstance(given.value, TokenizerFile) or given.value.size:
        return program
    try:
        size = vocabulary_size(find_file(Path(given.value.path)))
    except (OSError, ValueError, RecursionError) as error:
        diagnostics.error(
            "E212",
            f"the vocabulary {given.value.path} cannot be read: {_reason(error)}",
            given.origin.span,
            help="name a tokenizer.json, vocab.txt or spiece.model, or a folder with one",
        )
        return program
    value = given.value.model_copy(update={"size": size})
    return program.with_settings({"vocab": Given(value, given.origin)})


def nowhere_to_begin(program: Program, diagnostics: Diagnostics) -> None:
    """Report an ``init`` that is no folder."""
    init = program.settings["init"]
    diagnostics.error(
        "E265",
        f"there is no folder {init.value.path} to begin from",
        init.origin.span,
        help='name a run or a model folder, as in init="runs/albert"',
    )


def _vocabulary_of(run: Path) -> TokenizerFile:
    """A run keeps its vocabulary in a folder of its own, a model folder beside its weights.

    A token table may have more rows than the vocabulary has tokens. What cannot be read here is
    refused where it is needed.
    """
    folder = run / "tokenizer" if (run / "tokenizer").is_dir() else run
    program, config = _json(run / "resolved.json"), _json(run / "config.json")
    size = program.get("vocabulary", {}).get("size") or config.get("vocab_size") or 0
    # Of a vocab.txt nothing else says it.
    lower = _json(folder / "tokenizer_config.json").get("do_lower_case") is not False
    return TokenizerFile(path=str(folder), lower=lower, size=size)


def _json(path: Path) -> Any:
    """The object in a file, empty if there is none."""
    with suppress(OSError, ValueError, RecursionError):
        if path.stat().st_size <= LARGEST_FILE_BYTES:
            found = json.loads(path.read_text(encoding="utf-8"))
            return found if isinstance(found, dict) else {}
    return {}


def find_file(path: Path) -> Path:
    """The vocabulary file at ``path``, or in it if it is a folder.

    Raises:
        FileNotFoundError: if there is none.
    """
    if path.is_dir():
        for name in FILE_NAMES:
            if (path / name).is_file():
                return path / name
        raise FileNotFoundError(f"the folder has no {', '.join(FILE_NAMES)}")
    if not path.is_file():
        raise FileNotFoundError("there is no such file")
    return path


def vocabulary_size(path: Path) -> int:
    """Number of token ids in a ``tokenizer.json``, ``vocab.txt`` or ``spiece.model``.

    Raises:
        ValueError: if the file is none of these.
    """
    if path.stat().st_size > LARGEST_FILE_BYTES:
        raise ValueError(f"it is larger than {LARGEST_FILE_BYTES // 2**20} MiB")
    if path.suffix == ".txt":
        return sum(1 for line in path.read_text(encoding="utf-8").splitlines() if line)
    if path.suffix == ".json":
        return _json_size(path)
    if path.suffix == ".model":
        return _sentencepiece_size(path.read_bytes())
    raise ValueError(f"a {path.suffix or 'file without ending'} is no vocabulary")


def _json_size(path: Path) -> int:
    content = json.loads(path.read_text(encoding="utf-8"))
    try:
        pieces = content["model"]["vocab"]
        ids = range(len(pieces)) if isinstance(pieces, list) else pieces.values()
        added = (token["id"] for token in content.get("added_tokens", ()))
        return 1 + max(int(id) for id in (*ids, *added))
    except (KeyError, TypeError, AttributeError):
        raise ValueError("it has no model.vocab") from None


def _sentencepiece_size(message: bytes) -> int:
    """Count the ``pieces`` (field 1) of a ModelProto, walking the wire format of protobuf."""
    at = count = 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag == 0x0A:
            count += 1
        if tag & 7 == 2:
            length, at = _varint(message, at)
            at += length
        elif tag & 7 == 0:
            _, at = _varint(message, at)
        else:
            at += {1: 8, 5: 4}.get(tag & 7, len(message))
    if not count or at != len(message):
        raise ValueError("it is no SentencePiece model")
    return count


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("it is no SentencePiece model")


def _reason(error: BaseException) -> str:
    match error:
        case json.JSONDecodeError() | RecursionError():
            return "it is no JSON"
        case UnicodeDecodeError():
            return "it is not UTF-8"
        case OSError() if error.strerror:
            return error.strerror.lower()
        case _:
            return str(error)
