"""The classes of tokenizers that bertc reads, with the defaults of transformers 5.23."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

LARGEST_FILE_BYTES = 256 * 2**20
FILE_NAMES = ("tokenizer.json", "vocab.txt", "spiece.model", "vocab.json")

TokenizerKind = Literal["written", "bert", "roberta", "albert", "xlnet", "xlm-roberta", "camembert"]
"""Ways to make a tokenizer.

``written`` takes tokenizer.json as it stands; the others are built anew from their tokens, as the
classes of transformers 5 do even beside a tokenizer.json.
"""

ALL: tuple[TokenizerKind, ...] = get_args(TokenizerKind)

KIND_OF_CLASS: Mapping[str, TokenizerKind] = {
    "BertTokenizer": "bert",
    "ElectraTokenizer": "bert",
    "MobileBertTokenizer": "bert",
    "RobertaTokenizer": "roberta",
    "AlbertTokenizer": "albert",
    "XLNetTokenizer": "xlnet",
    "XLMRobertaTokenizer": "xlm-roberta",
    "CamembertTokenizer": "camembert",
    "PreTrainedTokenizer": "written",
    "TokenizersBackend": "written",
}
"""The kind of each class that bertc reads; ``Fast`` after its name is ignored."""

CLASS_OF_MODEL_TYPE: Mapping[str, str] = {
    "bert": "BertTokenizer",
    "electra": "BertTokenizer",
    "roberta": "RobertaTokenizer",
    "albert": "AlbertTokenizer",
    "xlnet": "XLNetTokenizer",
    "xlm": "XLMTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "camembert": "CamembertTokenizer",
}
"""The default class of each model_type, for folders that name none."""

FILES_OF_KIND: Mapping[TokenizerKind, tuple[str, ...]] = {
    "written": FILE_NAMES,
    "bert": ("tokenizer.json", "vocab.txt"),
    "roberta": ("tokenizer.json", "vocab.json"),
    "albert": ("tokenizer.json", "spiece.model"),
    "xlnet": ("tokenizer.json", "spiece.model"),
    "xlm-roberta": ("tokenizer.json",),
    "camembert": ("tokenizer.json",),
}
"""The files of each kind; the first that exists is read."""

TOKEN_ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
"""The special tokens with a name, in the order in which they are added."""

DEFAULT_TOKENS: Mapping[TokenizerKind, Mapping[str, str]] = {
    "written": {},
    "bert": {
        "unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]",
    },
    "roberta": {
        "bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>",
        "mask": "<mask>",
    },
    "albert": {
        "bos": "[CLS]", "eos": "[SEP]", "unk": "<unk>", "sep": "[SEP]", "pad": "<pad>",
        "cls": "[CLS]", "mask": "[MASK]",
    },
    "xlnet": {
        "bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "<sep>", "pad": "<pad>",
        "cls": "<cls>", "mask": "<mask>",
    },
    "xlm-roberta": {
        "bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>",
        "mask": "<mask>",
    },
    "camembert": {
        "bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>",
        "mask": "<mask>",
    },
}  # fmt: skip
"""The special tokens of each kind, by role, where no file names them."""

EXTRA: Mapping[TokenizerKind, tuple[str, ...]] = {
    "xlnet": ("<eop>", "<eod>"),
    "camembert": ("<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"),
}
"""Special tokens without a role that a class adds where no file lists any."""

OPTIONS: Mapping[TokenizerKind, Mapping[str, bool | None]] = {
    "written": {},
    "bert": {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True},
    "roberta": {"add_prefix_space": False, "trim_offsets": True},
    "albert": {"do_lower_case": True, "keep_accents": False, "add_prefix_space": True},
    "xlnet": {"do_lower_case": False},
    "xlm-roberta": {"add_prefix_space": True},
    "camembert": {"add_prefix_space": True},
}
"""The settings of tokenizer_config.json that each kind follows, with their defaults."""

SINGLE_VALUES: Mapping[str, tuple[Any, tuple[TokenizerKind, ...]]] = {
    "split_special_tokens": (False, ALL),
    "fast_tokenizer_files": ([], ALL),
    "keep_accents": (False, ("xlnet",)),
    "remove_space": (True, ("xlnet",)),
}
"""Settings of which bertc follows one value only: that value, and the kinds that have them."""

PASSED_ON = (
    "model_max_length", "padding_side", "truncation_side", "model_input_names",
    "clean_up_tokenization_spaces", "do_lower_case",
)  # fmt: skip
"""Settings of tokenizer_config.json that change no token, saved again for other readers."""
