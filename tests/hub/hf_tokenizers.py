"""Folders of tokenizers of every kind that families come with, as downloaded and as saved."""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sentencepiece
import transformers

from bertc.ir.vocabulary import ByteBpe, WordPiece
from bertc.text.vocab.learned import learn

Special = dict[str, Any]
"""Settings of a SentencePiece trainer: which special pieces there are, and their ids."""
FAIRSEQ: Special = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1}
ALBERT_PIECES: Special = {
    "pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1,
    "control_symbols": ["[CLS]", "[SEP]", "[MASK]"], "user_defined_symbols": ["(", ")", "£"],
}  # fmt: skip
XLNET_PIECES: Special = FAIRSEQ | {
    "control_symbols": ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"],
    "user_defined_symbols": ["<eop>", ".", "(", ")"],
}
DEBERTA_PIECES: Special = {
    "pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3,
    "pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]",
}  # fmt: skip
PIECES: dict[str, tuple[str, Special]] = {
    "AlbertTokenizer": ("spiece.model", ALBERT_PIECES),
    "XLNetTokenizer": ("spiece.model", XLNET_PIECES),
    "XLMRobertaTokenizer": ("sentencepiece.bpe.model", FAIRSEQ),
    "CamembertTokenizer": ("sentencepiece.bpe.model", FAIRSEQ),
    "DebertaV2Tokenizer": ("spm.model", DEBERTA_PIECES),
}
"""The file of each class with a SentencePiece model, and how its authors trained it."""
LAYOUTS = {
    "BertTokenizer": "bert", "DistilBertTokenizer": "distilbert", "MPNetTokenizer": "mpnet",
    "RobertaTokenizer": "roberta", "AlbertTokenizer": "albert", "XLNetTokenizer": "xlnet",
    "XLMRobertaTokenizer": "xlm-roberta", "CamembertTokenizer": "camembert",
    "DebertaV2Tokenizer": "deberta-v2", "PreTrainedTokenizerFast": "modernbert",
}  # fmt: skip


@dataclass(frozen=True)
class Words:
    """Vocabularies of some text, of each kind."""

    pieces: tuple[str, ...] = field(repr=False)
    bpe: Any = field(repr=False)
    models: dict[str, bytes] = field(repr=False)

    @classmethod
    def of(cls, lines: Sequence[str], size: int) -> "Words":
        """Learn them, cased, so that lower-casing shows."""
        learned = learn(WordPiece(size=size, lower=False), lines).get_vocab()
        bpe = json.loads(learn(ByteBpe(size=max(size, 300)), lines).to_str())
        models = {name: trained(lines, size, special) for name, (_, special) in PIECES.items()}
        return cls(tuple(sorted(learned, key=lambda w: learned[w])), bpe, models)


def trained(lines: Sequence[str], size: int, special: Special) -> bytes:
    """A SentencePiece model by its own trainer, with the map of characters that releases have."""
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=made, vocab_size=size, model_type="unigram",
        hard_vocab_limit=False, minloglevel=2, num_threads=1, **special,
    )  # fmt: skip
    return made.getvalue()


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

    def write(self, folder: Path, words: Words) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        layout = self.model_type or LAYOUTS[self.cls]
        _write(folder / "config.json", {"model_type": layout})
        match self.cls:
            case "BertTokenizer" | "DistilBertTokenizer":
                (folder / "vocab.txt").write_text("\n".join(words.pieces) + "\n")
            case "MPNetTokenizer":
                tokens = ["<s>", "<pad>", "</s>", *words.pieces[5:], "[UNK]", "<mask>"]
                (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
            case "RobertaTokenizer":
                _write(folder / "vocab.json", words.bpe["model"]["vocab"])
                lines = [" ".join(merge) for merge in words.bpe["model"]["merges"]]
                (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *lines, ""]))
            case "PreTrainedTokenizerFast":
                _write(folder / "tokenizer.json", words.bpe)
            case _:
                (folder / PIECES[self.cls][0]).write_bytes(words.models[self.cls])
        if self.config:
            _write(folder / "tokenizer_config.json", self.config)
        for name, content in self.files.items():
            _write(folder / name, content)
        if self.saved:
            reference = self.reference(folder)
            for path in folder.iterdir():
                if path.name != "config.json":
                    path.unlink()
            reference.save_pretrained(folder)
            path = folder / "tokenizer_config.json"
            _write(path, {**json.loads(path.read_text()), **self.changed})

    def reference(self, folder: Path) -> Any:
        """The tokenizer of transformers."""
        return transformers.AutoTokenizer.from_pretrained(folder)


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


BERT, DISTILBERT, MPNET, ROBERTA, ALBERT, XLNET, XLMR, CAMEMBERT, DEBERTA, WRITTEN = LAYOUTS
BEGUN = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}
WHOLE = {**BEGUN, "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>"}
CASED: Special = {"do_lower_case": False}
PLAIN = [
    Folder(BERT),
    *(Folder(BERT, model_type=name) for name in ("electra", "distilbert", "nomic_bert")),
    Folder(BERT, CASED),
    Folder(BERT, {"strip_accents": False}),
    Folder(BERT, {**CASED, "strip_accents": True}),
    Folder(BERT, {"tokenize_chinese_chars": False, "tokenizer_class": "BertTokenizerFast"}),
    Folder(DISTILBERT, {"tokenizer_class": DISTILBERT, **CASED}), Folder(MPNET),
    Folder(ROBERTA), Folder(ROBERTA, {"add_prefix_space": True}),
    Folder(ROBERTA, model_type="deberta"),
    Folder(ALBERT), Folder(ALBERT, CASED), Folder(ALBERT, {"keep_accents": True}),
    Folder(XLNET), Folder(XLNET, {"do_lower_case": True}),
    Folder(XLMR), Folder(XLMR, {"tokenizer_class": XLMR}, model_type="bert"), Folder(CAMEMBERT),
    Folder(DEBERTA, {**CASED, "vocab_type": "spm"}),
    Folder(DEBERTA, {"do_lower_case": True, "split_by_punct": True}),
    Folder(WRITTEN, {"tokenizer_class": WRITTEN, **WHOLE}),
]  # fmt: skip
SAVED = [Folder(f.cls, f.config, saved=True, model_type=f.model_type) for f in PLAIN]
OTHERWISE = [
    Folder(cls, saved=True, changed=changed)
    for cls, changed in [
        (BERT, CASED), (BERT, {"strip_accents": False}), (ROBERTA, {"add_prefix_space": True}),
        (ALBERT, CASED), (ALBERT, {"keep_accents": True}),
        (BERT, {"tokenizer_class": "PreTrainedTokenizerFast"}),
        (XLNET, {"tokenizer_class": "TokenizersBackend"}),
        (DEBERTA, {"tokenizer_class": "NobodyKnowsTokenizer"}),
    ]
]  # fmt: skip
"""Folders whose tokenizer_config.json tells something else than their tokenizer.json."""


def more(words: Words) -> list[Folder]:
    """Folders with special and added tokens of their own."""
    some = [w for w in words.pieces[30:] if w.isalpha()][:2]
    first, last = some[0], len(words.pieces)
    added = {str(last): {"content": "Quagga", "single_word": True, "special": False}}
    mask = {"content": "<mask>", "lstrip": True, "normalized": True}
    return [
        Folder(BERT, files={"special_tokens_map.json": {"mask_token": first}}),
        Folder(BERT, {"cls_token": first, "sep_token": some[1]}),
        Folder(BERT, files={"added_tokens.json": {"Quagga": last, "<note>": last + 1}}),
        Folder(BERT, {"added_tokens_decoder": added, "additional_special_tokens": ["Quagga"]}),
        Folder(ROBERTA, files={"special_tokens_map.json": {"mask_token": mask}}),
    ]
