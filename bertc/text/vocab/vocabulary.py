"""Vocabularies: a tokenizer, its special tokens by role, and its tokens that start a word."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, processors

from bertc.base.diagnostics import DataError, escaped
from bertc.base.storage.paths import user_path
from bertc.ir.vocabulary import MASKS, TokenizerFile
from bertc.text.tokenizers.by_transformers import ANOTHER, ESM_CLASS, checked_size
from bertc.text.tokenizers.reading import read_tokenizer, tokenizer_folder

ROLES: Mapping[str, tuple[str, ...]] = {
    "pad": ("[PAD]", "<pad>"), "unk": ("[UNK]", "<unk>"), "cls": ("[CLS]", "<cls>", "<s>"),
    "sep": ("[SEP]", "<sep>", "</s>", "<eos>"), "mask": MASKS,
}  # fmt: skip
"""Spellings of the five special tokens in published vocabularies, for files that name none.

XLNet's has ``<s>`` and ``</s>`` too, and puts neither around a text."""
STAND_INS = {"cls": ("bos",), "sep": ("eos",)}
"""Stand-ins for roles that nothing names, as in EuroBERT's."""
OF_DECODERS = {
    "cls": ("bos", "eos"), "sep": ("eos",), "unk": ("pad", "eos"), "pad": ("eos",),
    "mask": ("pad", "eos"),
}  # fmt: skip
"""Stand-ins in byte pairs, whose bytes leave no text unknown: Qwen3's name an end and padding."""
BLANK_MASK = "_"
"""Stands for a mask where there is none (LLM2Vec, run_mntp.py, mask_token_type blank)."""
BEGINS = "\u0120"  # a space, in byte-level vocabularies
BLANK = "\u2581"  # a space, in SentencePiece vocabularies
PUNCTUATION = frozenset('!"#$%&()*+,-./:;?@[\\]^_`{|}~\u20ac\u00a3')
Segments = Literal["needed", "unread", "as-it-came"]
"""The use of token types in a network: ``needed`` by pairs that it learned."""
INPUTS = "model_input_names"
LONGEST_ROW = "model_max_length"
"""The setting of tokenizer_config.json at which transformers cuts rows that are to be cut."""
FAILS = ("the tokenizer fails on a text: a rule of its tokenizer.json comes to no end", ANOTHER)
"""The error, and its help, where the library gives up. Folders of others were tried before."""
ENGLISH = frozenset("abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A tokenizer with ids below ``size``, and the ids of its special tokens.

    ``bos`` and ``eos`` are those of its configuration, None if it names none. ``word_start`` is
    true for tokens that start a word, ``special`` for those that never stand for text (the unknown
    token does); ``unigram`` has relative frequencies in the training text, 0 for special ones.
    """

    tokenizer: Tokenizer
    size: int
    pad: int
    unk: int
    cls: int
    sep: int
    mask: int
    word_start: NDArray[np.bool_]  # (size,)
    special: NDArray[np.bool_]  # (size,)
    unigram: NDArray[np.float64]  # (size,)
    bos: int | None = None
    eos: int | None = None
    passed_on: Mapping[str, Any] = field(default_factory=dict)
    """Settings of tokenizer_config.json that change no token."""
    extra_files: Mapping[str, bytes] = field(default_factory=dict)

    def save(
        self, folder: Path, seq: int = 0, room: int | None = None, segments: Segments = "as-it-came"
    ) -> None:
        """Write the files that ``AutoTokenizer`` reads, and the older files of its kind.

        ``model_max_length`` is at most ``room``, the longest row that its network reads; without
        that what the tokenizer came with, or else ``seq``, the longest row of training.
        """
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(self.tokenizer.to_str(pretty=True), encoding="utf-8")
        names = {f"{role}_token": token for role, token in self.named.items()}
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            INPUTS: ["input_ids", "token_type_ids", "attention_mask"],
            "clean_up_tokenization_spaces": False, **names, **self.passed_on,
        }  # fmt: skip
        if segments in ("needed", "unread"):
            types = ["token_type_ids"] if segments == "needed" else []
            config[INPUTS] = ["input_ids", *types, "attention_mask"]
        if config["tokenizer_class"] == ESM_CLASS:  # whose own default is a token
            config.setdefault("eos_token", None)
        came = self.passed_on.get(LONGEST_ROW)
        stated = came if isinstance(came, int | float) and came > 0 else 0
        if longest := stated or room or seq:
            config[LONGEST_ROW] = min(longest, room or longest)
        for name, value in (("tokenizer_config", config), ("special_tokens_map", names)):
            content = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
            (folder / f"{name}.json").write_text(content, encoding="utf-8")
        model = json.loads(self.tokenizer.to_str())["model"]
        if model["type"] == "WordPiece" or config["tokenizer_class"] == ESM_CLASS:
            tokens = (self.token(token_id) for token_id in range(self.size))
            (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
        elif model["type"] == "BPE":
            self.tokenizer.model.save(str(folder))
        for name, raw in self.extra_files.items():
            (folder / name).write_bytes(raw)

    def token(self, token_id: int) -> str:
        """The text of a token, as the tokenizer spells it."""
        return str(self.tokenizer.id_to_token(token_id) or "")

    def readable(self, token_id: int) -> str:
        """A token for a person: bytes decoded or escaped, the blank before a word as U+2581."""
        piece = self.tokenizer.id_to_token(token_id)
        if piece is None:
            return f"#{token_id}"
        if (raw := self.raw(token_id)) is not None and not self.special[token_id]:
            blank = raw[:1] == b" "
            piece = BLANK * blank + raw[blank:].decode(errors="backslashreplace")
        return escaped(piece)

    def plain(self, token_id: int) -> str:
        """A token as text; special ones, parts of characters and NUL as they are ``readable``."""
        text = str(self.tokenizer.decode([token_id])).strip()
        return text if text and not {*text} & {*"\0\ufffd"} else self.readable(token_id)

    def raw(self, token_id: int) -> bytes | None:
        """The bytes that a token is spelled in; None where it is spelled in characters."""
        piece = self.token(token_id)
        if not piece or token_id in self._added or not self._byte_of.keys() >= {*piece}:
            return None
        return bytes(self._byte_of[sign] for sign in piece)

    @cached_property
    def _added(self) -> frozenset[int]:
        return frozenset(self.tokenizer.get_added_tokens_decoder())

    @cached_property
    def _byte_of(self) -> dict[str, int]:
        """The byte of each sign of a byte-level vocabulary; empty for others."""
        signs = byte_signs() if is_byte_level(self.tokenizer) else {}
        return {sign: byte for byte, sign in signs.items()}

    @property
    def cls_last(self) -> bool:
        """True if [CLS] is the last token of a row, as in XLNet."""
        return self.cls != self.sep and self.tokenizer.encode("a", "a").ids[-1:] == [self.cls]

    def require_mask(self, dropped: int, *, masks: bool) -> None:
        """Refuse masks without a token, and a table that drops another one than that; -1: none."""
        if masks and self.mask == self.pad:
            message = "the vocabulary has no token for masks, nor _, which would stand for it"
            raise DataError(message, help="add <mask> to its tokenizer")
        if dropped not in (-1, self.mask):
            message = f"table drops the embedding of token {dropped}, and the mask is {self.mask}"
            raise DataError(message, help=f"table=whole(dropped={self.mask})")

    @property
    def named(self) -> dict[str, str]:
        """Its special tokens by role."""
        ids = {role: getattr(self, role) for role in (*ROLES, "bos", "eos")}
        if self.mask == self.pad or self.mask not in self._added:
            del ids["mask"]  # what stands for it is text
        return {role: self.token(number) for role, number in ids.items() if number is not None}


def splits(tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """The steps of its pre-tokenizer, as tokenizer.json has them."""
    steps = json.loads(tokenizer.to_str())["pre_tokenizer"] or {}
    return list(steps.get("pretokenizers", [steps]))


def is_byte_level(tokenizer: Tokenizer) -> bool:
    """True if tokens are spelled in signs of bytes."""
    return any(step.get("type") == "ByteLevel" for step in splits(tokenizer))


def byte_signs() -> dict[int, str]:
    """The sign of each byte in byte-level vocabularies."""
    plain = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = count(256)  # the others are numbered from 256 on, in order
    return {byte: chr(byte if byte in plain else next(hidden)) for byte in range(256)}


def characters_by_token(vocabulary: Vocabulary) -> NDArray[np.int64] | None:
    """Characters (v,) that begin in each token; None if tokens lose text, unlike bytes."""
    tokenizer = vocabulary.tokenizer
    loses = tokenizer.normalizer is not None or _added_ids(tokenizer)  # which take in any blanks
    if loses or not is_byte_level(tokenizer):
        return None
    # Bytes that go on with a character of UTF-8: 10xxxxxx.
    inside = {sign for byte, sign in byte_signs().items() if byte & 0b11000000 == 0b10000000}
    counts = np.zeros(vocabulary.size, dtype=np.int64)
    for token, number in tokenizer.get_vocab(with_added_tokens=False).items():
        counts[number] = sum(sign not in inside for sign in token)
    counts[vocabulary.special] = 0
    return counts


def from_tokenizer(
    tokenizer: Tokenizer,
    name: str,
    named: Mapping[str, str] | None = None,
    passed_on: Mapping[str, Any] | None = None,
    extra_files: Mapping[str, bytes] | None = None,
) -> Vocabulary:
    """The vocabulary of a tokenizer; ``named`` has special tokens by role."""
    ids = tokenizer.get_vocab(with_added_tokens=True)
    size = checked_size(ids, name)
    known = {role: ids[token] for role, token in (named or {}).items() if token in ids}
    written = json.loads(tokenizer.to_str())["model"]
    model = str(written["type"])
    if written.get("merges") == [] and not is_byte_level(tokenizer):
        model = "WordLevel"  # ESMC's: each character is a word
    roles = {role: _role(role, known, ids, name, model) for role in ROLES}
    if tokenizer.post_processor is None and roles["cls"] not in (roles["sep"], known.get("bos")):
        ends = ((str(tokenizer.id_to_token(roles[role])), roles[role]) for role in ("sep", "cls"))
        tokenizer.post_processor = processors.BertProcessing(*ends)
    special = np.zeros(size, dtype=np.bool_)
    special[list(roles.values())] = True
    special[ids.get(BLANK_MASK, roles["mask"])] = BLANK_MASK not in ids
    special[[i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special]] = 1
    starts = np.ones(size, dtype=np.bool_)
    for token, token_id in ids.items():
        starts[token_id] = special[token_id] or _starts_word(token, model)
    starts[_added_ids(tokenizer)] = True
    if list((roles | known).values()).count(roles["unk"]) == 1:
        special[roles["unk"]] = False  # it is text that no other token spells
    return Vocabulary(
        tokenizer=tokenizer, size=size, word_start=starts, special=special, unigram=np.zeros(size),
        bos=known.get("bos"), eos=known.get("eos"), passed_on=passed_on or {},
        extra_files=extra_files or {}, **roles,
    )  # fmt: skip


def _added_ids(tokenizer: Tokenizer) -> list[int]:
    """The ids of added tokens that are whole words."""
    added = tokenizer.get_added_tokens_decoder()
    return [number for number, token in added.items() if token.single_word and not token.special]


def _role(role: str, has: Mapping[str, int], ids: Mapping[str, int], name: str, model: str) -> int:
    """The id of a special token: as named, as spelled in published ones, or of its stand-in."""
    spelled = (ids[token] for token in ROLES[role] if token in ids)
    names = (OF_DECODERS if model == "BPE" else STAND_INS).get(role, ())
    stand_ins = [has[name] for name in names if name in has]
    if role == "mask" and model == "BPE" and BLANK_MASK in ids:
        stand_ins = [ids[BLANK_MASK]]
    number = has.get(role, next(spelled, next(iter(stand_ins), None)))
    if number is not None:
        return number
    message = f"{name}: no token for {role}"
    raise DataError(message, f"add one of {' '.join(ROLES[role])} to the vocabulary")


def _starts_word(token: str, model: str) -> bool:
    match model:
        case "WordPiece":
            return not token.startswith("##")
        case "WordLevel":
            return True
        case "BPE":
            return token.startswith((BEGINS, BLANK))
        case _:  # ALBERT's create_pretraining_data.py
            # A blank, a control, punctuation, or a character that is not English.
            if token.startswith((BLANK, "<")) or token in PUNCTUATION:
                return True
            return not all(c.lower() in ENGLISH or c in PUNCTUATION for c in token)


def vocabulary_of(run: Path, rows: int) -> Vocabulary:
    """The vocabulary of a run or model folder whose token table has ``rows`` rows."""
    return load_vocabulary(TokenizerFile(path=str(tokenizer_folder(run))), rows)


def load_vocabulary(node: TokenizerFile, rows: int = 0) -> Vocabulary:
    """Read a tokenizer's files; ``rows`` is the size of the token table, 0 if unknown."""
    read = read_tokenizer(user_path(node.path), node.lower)
    name, files = str(read.file), read.sentencepiece_files
    vocabulary = from_tokenizer(read.tokenizer, name, read.named, read.passed_on, files)
    if rows and vocabulary.size > rows:
        raise DataError(
            f"{read.file} has {vocabulary.size:,} tokens, the model only {rows:,}: token "
            f"{vocabulary.token(rows)!r} has no row",
            "leave the size of the vocabulary out, so that it is read from the file; of a model "
            "folder take all files from one source",
        )
    return vocabulary
