"""SentencePiece models (sentencepiece_model.proto): the fields that decide tokenisation."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

UNIGRAM_MODEL = 1
"""TrainerSpec.ModelType of a unigram model."""
PIECE_NORMAL, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_USER_DEFINED = 1, 2, 3, 4
"""Values of SentencePiece.Type."""


class SentencePieceModel(NamedTuple):
    """The fields of a SentencePiece model that decide tokenisation."""

    pieces: list[tuple[str, float]]
    types: list[int]
    kind: int
    unknown: int
    charsmap: bytes


def read_sentencepiece(content: bytes) -> SentencePieceModel:
    """Read a serialised ModelProto: fields 1, 2.3, 2.40 and 3.2.

    Raises:
        ValueError: it is no such message.
    """
    try:
        return _read(content)
    except (IndexError, struct.error, TypeError, KeyError):
        raise ValueError("not a SentencePiece model") from None


def _read(content: bytes) -> SentencePieceModel:
    pieces: list[tuple[str, float]] = []
    types: list[int] = []
    kind, unknown, charsmap = UNIGRAM_MODEL, 0, b""
    for number, value in _fields(content):
        if number == 1 and isinstance(value, bytes):
            parts = dict(_fields(value))
            text, score = parts[1], parts.get(2, b"\0\0\0\0")
            if not isinstance(text, bytes) or not isinstance(score, bytes):
                raise ValueError("a piece without text")
            pieces.append((text.decode(), struct.unpack("<f", score)[0]))
            types.append(int(parts.get(3, PIECE_NORMAL)))
        elif number == 2 and isinstance(value, bytes):
            trainer = dict(_fields(value))
            kind, unknown = int(trainer.get(3, UNIGRAM_MODEL)), int(trainer.get(40, 0))
        elif number == 3 and isinstance(value, bytes):
            charsmap = bytes(dict(_fields(value)).get(2, b""))
    return SentencePieceModel(pieces, types, kind, unknown, charsmap)


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Pairs (field number, value) of a protobuf message; fixed32 and fixed64 stay bytes."""
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
