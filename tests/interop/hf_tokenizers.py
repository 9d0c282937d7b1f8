"""Folders of tokenizers of every kind that bertc reads, and how transformers reads them."""

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import transformers
from tokenizers import AddedToken

from bertc.data.vocab.learned import learn
from bertc.ir.vocabulary import ByteBpe, Unigram, WordPiece
from bertc.tokenizer_files.sentencepiece import (
    PIECE_CONTROL,
    PIECE_NORMAL,
    PIECE_UNKNOWN,
    PIECE_USER_DEFINED,
)

LAYOUTS = {
    "BertTokenizer": "bert",
    "RobertaTokenizer": "roberta",
    "AlbertTokenizer": "albert",
    "XLNetTokenizer": "xlnet",
    "XLMRobertaTokenizer": "bert",
    "CamembertTokenizer": "bert",
}
ALBERT_FIRST = [("<pad>", PIECE_CONTROL), ("<unk>", PIECE_UNKNOWN)]
ALBERT_FIRST += [(name, PIECE_CONTROL) for name in ("[CLS]", "[SEP]", "[MASK]")]
XLNET_FIRST = [
    ("<unk>", PIECE_UNKNOWN),
    ("<s>", PIECE_CONTROL),
    ("</s>", PIECE_CONTROL),
    ("<cls>", PIECE_CONTROL),
]
XLNET_FIRST += [("<sep>", PIECE_CONTROL), ("<pad>", PIECE_CONTROL), ("<mask>", PIECE_CONTROL)]
XLNET_FIRST += [("<eod>", PIECE_USER_DEFINED), ("<eop>", PIECE_USER_DEFINED)]

Piece = tuple[str, float, int]


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def _field(number: int, value: bytes | int | float) -> bytes:
    if isinstance(value, bytes):
        return _varint(number << 3 | 2) + _varint(len(value)) + value
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    return _varint(number << 3) + _varint(value)


def sentencepiece(pieces: Iterable[Piece], unknown: int, charsmap: bytes = b"") -> bytes:
    """A ModelProto, written by hand."""
    body = b"".join(
        _field(1, _field(1, text.encode()) + _field(2, score) + _field(3, kind))
        for text, score, kind in pieces
    )
    trainer = _field(2, _field(3, 1) + _field(40, unknown))
    return body + trainer + _field(3, _field(1, b"nmt_nfkc") + _field(2, charsmap))


@dataclass(frozen=True)
class Words:
    """Vocabularies of some text, of each kind."""

    pieces: tuple[str, ...]
    bpe: Any
    unigram: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, lines: Sequence[str], size: int) -> "Words":
        """Learn them, cased, so that lower-casing shows."""
        learned = learn(WordPiece(size=size, lower=False), lines).get_vocab()
        bpe = json.loads(learn(ByteBpe(size=max(size, 300)), lines).to_str())["model"]
        unigram = json.loads(learn(Unigram(size=size, lower=False), lines).to_str())["model"]
        scored = tuple((piece, score) for piece, score in unigram["vocab"][5:])
        return cls(tuple(sorted(learned, key=lambda w: learned[w])), bpe, scored)

    def sentencepiece(self, first: Sequence[tuple[str, int]]) -> bytes:
        """A spiece.model that begins with some tokens."""
        taken = {piece for piece, _ in first}
        pieces = [(piece, 0.0, kind) for piece, kind in first]
        pieces += [(p, score, PIECE_NORMAL) for p, score in self.unigram if p not in taken]
        unknown = next(n for n, (_, kind) in enumerate(first) if kind == PIECE_UNKNOWN)
        # Any map of characters will do; this one is empty.
        return sentencepiece(pieces, unknown)


@dataclass(frozen=True)
class Folder:
    """A way of storing a tokenizer of one class.

    ``config`` stands in tokenizer_config.json, ``files`` beside; ``saved`` is as transformers saves
    it; ``changed`` is written over what it saved.
    """

    cls: str
    config: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)
    saved: bool = False
    changed: dict[str, Any] = field(default_factory=dict)
    model_type: str = ""

    def __str__(self) -> str:
        told, changed = (
            " ".join(
                f"{name}={'{...}' if isinstance(value, dict) else value}" for name, value in given
            )
            for given in (self.config.items(), self.changed.items())
        )
        then = f"then {changed}" if changed else ""
        parts = [self.model_type or self.cls, told, "saved" if self.saved else "", then]
        return " ".join(part for part in (*parts, *self.files) if part)

    def write(self, folder: Path, words: Words) -> None:
        """Make it."""
        folder.mkdir(parents=True, exist_ok=True)
        layout = self.model_type or LAYOUTS[self.cls]
        _write(folder / "config.json", {"model_type": layout})
        match self.cls:
            case "BertTokenizer":
                (folder / "vocab.txt").write_text("\n".join(words.pieces) + "\n")
            case "RobertaTokenizer":
                _write(folder / "vocab.json", words.bpe["vocab"])
                lines = [" ".join(merge) for merge in words.bpe["merges"]]
                (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *lines, ""]))
            case "AlbertTokenizer":
                (folder / "spiece.model").write_bytes(words.sentencepiece(ALBERT_FIRST))
            case "XLNetTokenizer":
                (folder / "spiece.model").write_bytes(words.sentencepiece(XLNET_FIRST))
            case "XLMRobertaTokenizer":
                first = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
                vocabulary = [*first, *words.unigram, ("<mask>", 0.0)]
                made = transformers.XLMRobertaTokenizer(vocab=vocabulary, **self.config)
                made.save_pretrained(folder)
                return
            case "CamembertTokenizer":
                names = ("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED")
                vocabulary = [*((name, 0.0) for name in names), *words.unigram, ("<mask>", 0.0)]
                made = transformers.CamembertTokenizer(vocab=vocabulary, **self.config)
                made.save_pretrained(folder)
                return
        if self.config:
            _write(folder / "tokenizer_config.json", self.config)
        for name, content in self.files.items():
            _write(folder / name, content)
        if self.saved:
            self._save(folder)

    def _save(self, folder: Path) -> None:
        theirs = self.theirs(folder)
        for path in folder.iterdir():
            if path.name != "config.json":
                path.unlink()
        theirs.save_pretrained(folder)
        path = folder / "tokenizer_config.json"
        _write(path, {**json.loads(path.read_text()), **self.changed})

    def theirs(self, folder: Path) -> Any:
        """The tokenizer of transformers; of a spiece.model without what only reads such files."""
        alone = not (folder / "tokenizer.json").is_file() and (folder / "spiece.model").is_file()
        if not alone or find_spec("sentencepiece"):
            return transformers.AutoTokenizer.from_pretrained(folder)
        from bertc.tokenizer_files.sentencepiece import read_sentencepiece

        model = read_sentencepiece((folder / "spiece.model").read_bytes())
        added = [
            AddedToken(piece, normalized=False, special=kind == PIECE_CONTROL)
            for (piece, _), kind in zip(model.pieces, model.types, strict=True)
            if kind in (PIECE_CONTROL, PIECE_USER_DEFINED)
        ]
        return getattr(transformers, self.cls)(
            vocab=model.pieces,
            unk_id=model.unknown,
            _spm_precompiled_charsmap=model.charsmap or None,
            additional_special_tokens=added,
            **self.config,
        )


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


BERT, ROBERTA, ALBERT, XLNET, XLMR, CAMEMBERT = LAYOUTS
PLAIN = [
    Folder(BERT),
    Folder(BERT, model_type="electra"),
    Folder(BERT, {"do_lower_case": False}),
    Folder(BERT, {"strip_accents": False}),
    Folder(BERT, {"do_lower_case": False, "strip_accents": True}),
    Folder(BERT, {"tokenize_chinese_chars": False, "tokenizer_class": "BertTokenizerFast"}),
    Folder(ROBERTA),
    Folder(ROBERTA, {"add_prefix_space": True}),
    Folder(ALBERT),
    Folder(ALBERT, {"do_lower_case": False}),
    Folder(ALBERT, {"keep_accents": True}),
    Folder(XLNET),
    Folder(XLNET, {"do_lower_case": True}),
    Folder(XLMR),
    Folder(XLMR, {"add_prefix_space": False}),
    Folder(CAMEMBERT),
    Folder(CAMEMBERT, {"add_prefix_space": False}),
]
SAVED = [
    Folder(f.cls, f.config, saved=True, model_type=f.model_type)
    for f in PLAIN
    if f.cls not in (XLMR, CAMEMBERT)
]
OTHERWISE = [
    Folder(BERT, saved=True, changed={"do_lower_case": False}),
    Folder(BERT, saved=True, changed={"strip_accents": False}),
    Folder(ROBERTA, saved=True, changed={"add_prefix_space": True}),
    Folder(ALBERT, saved=True, changed={"do_lower_case": False}),
    Folder(ALBERT, saved=True, changed={"keep_accents": True}),
    Folder(BERT, saved=True, changed={"tokenizer_class": "PreTrainedTokenizerFast"}),
    Folder(XLNET, saved=True, changed={"tokenizer_class": "TokenizersBackend"}),
]
"""Folders whose tokenizer_config.json tells something else than their tokenizer.json."""


def more(words: Words) -> list[Folder]:
    """Folders with special and added tokens of their own."""
    some = [w for w in words.pieces[30:] if w.isalpha()][:2]
    first, last = some[0], len(words.pieces)
    return [
        Folder(BERT, files={"special_tokens_map.json": {"mask_token": first}}),
        Folder(BERT, {"cls_token": first, "sep_token": some[1]}),
        Folder(BERT, files={"added_tokens.json": {"Quagga": last, "<note>": last + 1}}),
        Folder(
            BERT,
            {
                "added_tokens_decoder": {
                    str(last): {"content": "Quagga", "single_word": True, "special": False}
                },
                "additional_special_tokens": ["Quagga"],
            },
        ),
        Folder(
            ROBERTA,
            files={
                "special_tokens_map.json": {
                    "mask_token": {"content": "<mask>", "lstrip": True, "normalized": True}
                }
            },
        ),
    ]


def all_folders(words: Words) -> list[Folder]:
    """Every kind, and special cases."""
    return [*PLAIN, *OTHERWISE, *more(words), *SAVED]
