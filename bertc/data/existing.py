"""Existing vocabularies: ``tokenizer.json``, ``vocab.txt``, ``spiece.model``, or their folder."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer, normalizers

from bertc.data.learned import albert_tokenizer, bert_tokenizer
from bertc.data.vocabulary import Vocabulary, from_tokenizer
from bertc.diagnostics import DataError, MissingInputError
from bertc.ir.data import TokenizerFile

FILE_NAMES = ("tokenizer.json", "vocab.txt", "spiece.model")
UNIGRAM_MODEL = 1
NORMAL, UNKNOWN = 1, 2
"""Values of sentencepiece_model.proto: TrainerSpec.ModelType, SentencePiece.Type."""


def vocabulary_file(node: TokenizerFile) -> Path:
    """The file that ``path`` names, or that stands in the folder it names.

    Raises:
        MissingInputError: there is none.
    """
    path = Path(node.path).expanduser()
    candidates = [path / name for name in FILE_NAMES] if path.is_dir() else [path]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise MissingInputError(
        f"no vocabulary at {node.path}", f"name a folder or one of {', '.join(FILE_NAMES)}"
    )


def load_vocabulary(node: TokenizerFile) -> Vocabulary:
    """Read a vocabulary file.

    Raises:
        MissingInputError: it is not there.
        DataError: it cannot be used.
    """
    path = vocabulary_file(node)
    match path.suffix:
        case ".json":
            return from_tokenizer(_tokenizer_json(path), str(path))
        case ".txt":
            return from_tokenizer(_vocab_txt(path, node.lower), str(path))
        case ".model":
            content = path.read_bytes()
            tokenizer = _sentencepiece(content, str(path), node.lower)
            return from_tokenizer(tokenizer, str(path), extra_files={"spiece.model": content})
    raise DataError(f"{path}: not a vocabulary", f"bertc reads {', '.join(FILE_NAMES)}")


def _tokenizer_json(path: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises bare Exception
        reason = str(error).splitlines()[0] if str(error) else "unreadable"
        raise DataError(f"{path}: not a tokenizer.json: {reason}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _vocab_txt(path: Path, lower: bool) -> Tokenizer:
    try:
        tokens = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8", "vocab.txt holds one token a line") from None
    while tokens and not tokens[-1]:
        tokens.pop()
    if repeated := len(tokens) - len(set(tokens)):
        raise DataError(f"{path}: {repeated} tokens stand twice or more")
    if "[UNK]" not in tokens:
        raise DataError(
            f"{path}: no [UNK]", "vocab.txt holds one token a line, BERT's specials too"
        )
    return bert_tokenizer(tokens, lower)


def _sentencepiece(content: bytes, name: str, lower: bool) -> Tokenizer:
    """A unigram model of SentencePiece, normalised as ALBERT's tokenizer does."""
    try:
        model = read_sentencepiece(content)
    except (IndexError, ValueError, struct.error, UnicodeDecodeError):
        raise DataError(f"{name}: not a SentencePiece model") from None
    if model.kind != UNIGRAM_MODEL or not model.pieces:
        raise DataError(
            f"{name}: not a unigram model", "bertc reads unigram models of SentencePiece"
        )
    unknown = [i for i, kind in enumerate(model.types) if kind == UNKNOWN]
    steps: list[normalizers.Normalizer] = [
        normalizers.Replace("``", '"'),
        normalizers.Replace("''", '"'),
        normalizers.NFKD(),
        normalizers.StripAccents(),
    ]
    if lower:
        steps.append(normalizers.Lowercase())
    if model.charsmap:
        steps.append(normalizers.Precompiled(model.charsmap))
    return albert_tokenizer(model.pieces, steps, unknown[0] if unknown else 0)


class SentencePieceModel(NamedTuple):
    """What of a SentencePiece model decides how text is cut."""

    pieces: list[tuple[str, float]]
    types: list[int]
    kind: int
    charsmap: bytes


def read_sentencepiece(content: bytes) -> SentencePieceModel:
    """Read a serialised ModelProto (sentencepiece_model.proto): fields 1, 2.3 and 3.2.

    Raises:
        ValueError, IndexError, struct.error, UnicodeDecodeError: it is no such message.
    """
    pieces: list[tuple[str, float]] = []
    types: list[int] = []
    kind, charsmap = UNIGRAM_MODEL, b""
    for number, value in _fields(content):
        if number == 1 and isinstance(value, bytes):
            parts = dict(_fields(value))
            text, score = parts[1], parts.get(2, b"\0\0\0\0")
            if not isinstance(text, bytes) or not isinstance(score, bytes):
                raise ValueError("a piece without text")
            pieces.append((text.decode(), struct.unpack("<f", score)[0]))
            types.append(int(parts.get(3, NORMAL)))
        elif number == 2 and isinstance(value, bytes):
            kind = int(dict(_fields(value)).get(3, UNIGRAM_MODEL))
        elif number == 3 and isinstance(value, bytes):
            charsmap = bytes(dict(_fields(value)).get(2, b""))
    return SentencePieceModel(pieces, types, kind, charsmap)


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """(field number, value) of a protobuf message; fixed32 and fixed64 stay bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        match tag & 7:
            case 0:
                number, at = _varint(message, at)
                yield tag >> 3, number
            case (1 | 2 | 5) as wire:
                length = {1: 8, 5: 4}.get(wire, 0)
                if wire == 2:
                    length, at = _varint(message, at)
                if at + length > len(message):
                    raise ValueError("cut short")
                yield tag >> 3, message[at : at + length]
                at += length
            case wire:
                raise ValueError(f"wire type {wire}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("a number longer than 64 bits")
