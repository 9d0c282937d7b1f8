"""Tokenizers as transformers makes them of the files of others, and their trial on texts."""

import json
import math
import re
import resource
import signal
import sys
import time
import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from posixpath import commonprefix
from typing import TYPE_CHECKING, Any

from bertc.base.diagnostics import BertcError, DataError, UnsafeError, as_data_error
from bertc.base.storage.plain_file import parse_json, read_bytes, shown

if TYPE_CHECKING:
    from tokenizers import Tokenizer

LARGEST_FILE_BYTES = 256 * 2**20
TOKEN_ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
"""The special tokens that have a name."""
CLASS_OF_FILE: Mapping[str, str] = {
    "tokenizer.json": "TokenizersBackend", "vocab.txt": "BertTokenizer",
    "spiece.model": "AlbertTokenizer", "sentencepiece.bpe.model": "XLMRobertaTokenizer",
    "spm.model": "DebertaV2Tokenizer", "vocab.json": "RobertaTokenizer",
}  # fmt: skip
"""Files of vocabularies, the first that is there counts, and the class where none is named."""
FILE_NAMES = tuple(CLASS_OF_FILE)
SENTENCEPIECE_FILES = ("spiece.model", "sentencepiece.bpe.model", "spm.model")
OTHER_FILES = (
    "merges.txt", "sentencepiece.model", "tokenizer.model",
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
)  # fmt: skip
"""Other files that transformers reads."""
GENERIC_CLASSES = frozenset(
    {"TokenizersBackend", "PythonBackend", "PreTrainedTokenizer", "PreTrainedTokenizerFast"}
)
"""Classes that take a tokenizer.json as it is written, and read nothing else."""
NOT_PASSED_ON = frozenset(
    {"name_or_path", "is_local", "local_files_only", "backend", "added_tokens_decoder",
     "extra_special_tokens", "additional_special_tokens", "chat_template", "auto_map",
     *(f"{role}_token" for role in TOKEN_ROLES)}
)  # fmt: skip
"""Settings that say where a tokenizer was read, or what its tokens say already."""
ANOTHER = (
    "copy it again from its source, or take another tokenizer: vocab=wordpiece(30k) learns one"
)
ESM_CLASS = "EsmTokenizer"
"""A class of Python alone whose rules are written as a tokenizer.json."""
TOKENS_OF_CHARACTER = 64
"""Tokens that a character may become; compatibility forms have up to 18 characters."""
FAST_ONLY = (
    "bertc reads classes with a fast backend; a tokenizer.json that is named itself, as in "
    'vocab="folder/tokenizer.json", is read as it is written'
)
LARGEST_ID = 10_000_000
TRIAL_TEXTS = (
    "",
    " ",
    "The quick brown Fox's 12,000 hens: café, naïve ÉCOLE, don't!",
    "  two  spaces  and\ttabs\nand\r\nlines\u2028next\u0085next\x0bnext\x1cnext\u3000next\u00a0 ",
    "control \x00null \x07bell \x1b[2J \x7f \u202e \ufeffbom \u200bzero\u200d \u00ad",
    "鶏 once 東京都 and カタカナ ＦＵＬＬ width, ½ ² Ⅻ ① ﬁ ﷺ",
    "emoji 😀👩\u200d👩\u200d👧 flags 🇩🇪 private \ue000 \U0010ffff",
    "``quoted'' text'' “x” ‘y’ «z» … — `x = y**2 # code_with_underscore`",
    "ΑΒΓ ἄνθρωπος İstanbul ǅ ß ẞ ŉ Straße x\u0301y\u0327 e\u0301 \u0301",
    "\u2581literal \u2581 a\u2581b \u0120x ##piece </w>",
    "नमस्ते दुनिया สวัสดี 한국어 텍스트 مرحبا שלום Привет",
    "3.14159 1e-5 A.B.C. U.S.A @user #tag https://example.com/a?b=1&c=2 <b>html</b> &amp;",
    *(character * 40 + "!" for character in "ax0 .-é鶏"),
    "word " * 400,
)
"""Texts of the trial: the differences of normalisers and splits, and runs that trap patterns."""


def serve_tokenizer() -> None:
    """Read a folder within limits of a process: files may make libraries panic or take all."""
    sys.modules["torch"] = None  # type: ignore[assignment]  # tokenizers do without; it takes 2 s
    results, sys.stdout = sys.stdout, sys.stderr
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started it ends it
    folder, lower, memory_bytes, seconds = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit(resource.RLIMIT_AS, int(memory_bytes))
    import_module("transformers")  # may take long the first time, so it does not count
    limit(resource.RLIMIT_CPU, math.ceil(time.process_time() + float(seconds)))
    try:
        print(json.dumps(read_or_refuse(Path(folder), bool(lower))), file=results)
    except MemoryError:
        signal.raise_signal(signal.SIGKILL)  # as if the system had ended it


def limit(kind: int, most: int) -> None:
    """Limit what this process may take, within a limit that the machine has set already."""
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def read_or_refuse(folder: Path, lower: bool) -> dict[str, Any]:
    """The tokenizer of a folder, or ``refused`` and ``help`` of the error that it raises."""
    import transformers

    files = ", ".join(sorted(path.name for path in folder.iterdir()))
    try:
        # Whatever goes wrong within, the files are to blame.
        with as_data_error(f"transformers {transformers.__version__} cannot read {files}", ANOTHER):
            return _read(folder, lower)
    except BertcError as error:
        unsafe = isinstance(error, UnsafeError)
        return {"refused": error.message, "help": error.help, "unsafe": unsafe}


def _read(folder: Path, lower: bool) -> dict[str, Any]:
    """A tokenizer.json, tokens by role, settings for other readers, and what files say of case."""
    hf = _load(folder)
    if not lower and _lowers(hf):
        hf = _load(folder, do_lower_case=False)
        if _lowers(hf):
            raise DataError("lower=false does not keep its capitals", "leave lower=false out")
    backend = _of_esm(hf) if type(hf).__name__ == ESM_CLASS else hf.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    checked_size(hf.get_vocab(), "its vocabulary")  # whose text has a line for each id below
    written = backend.to_str()
    named = {role: str(its) for role in TOKEN_ROLES if (its := getattr(hf, f"{role}_token"))}
    saved = json.loads(written)
    model = saved["model"]
    if model.get("type") == "WordPiece" and model["unk_token"] not in model["vocab"]:
        unknown = shown(model["unk_token"])
        raise DataError(f"its vocabulary lacks the unknown token {unknown}", ANOTHER)
    _try(hf, written)
    if backend.num_special_tokens_to_add(is_pair=False) == 0:
        written = json.dumps({**saved, "post_processor": None}, ensure_ascii=False)
    settings = {"tokenizer_class": type(hf).__name__}
    for name, value in hf.init_kwargs.items():
        values = value if isinstance(value, list) else [value]
        plain = all(isinstance(item, bool | int | float | str) for item in values)
        if plain and name not in NOT_PASSED_ON and not name.endswith("_file"):
            settings[name] = value
    sides = ("model_input_names", "padding_side", "truncation_side")
    settings |= {name: getattr(hf, name) for name in sides}
    generic = type(hf).__name__ in GENERIC_CLASSES  # which lower what tokenizer.json says
    lower = settings.get("do_lower_case", generic) is True
    return {"written": written, "named": named, "passed_on": settings, "lower": lower}


def checked_size(ids: Mapping[str, int], where: str) -> int:
    """One more than the largest id."""
    size = max(ids.values(), default=-1) + 1
    if size > LARGEST_ID:
        token = max(ids, key=ids.__getitem__)
        raise DataError(f"{where}: the token {shown(token)} has id {size - 1:,}", ANOTHER)
    return size


def _load(folder: Path, **settings: Any) -> Any:
    from transformers import AutoTokenizer

    files = {path.name for path in folder.iterdir()}
    _settle_class(folder, files)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hf = AutoTokenizer.from_pretrained(
            folder, use_fast=True, trust_remote_code=False, local_files_only=True, **settings
        )
    needed = [name for role, name in hf.vocab_files_names.items() if role != "tokenizer_file"]
    if "tokenizer.json" not in files and not files.issuperset(needed):
        raise DataError(
            f"{type(hf).__name__} reads tokenizer.json or {' and '.join(needed)}, and there is "
            "neither",
            "copy the tokenizer's files into the folder: without them nothing can be read",
        )
    return hf


def _settle_class(folder: Path, files: set[str]) -> None:
    """Refuse a class without a fast backend, and write down that of files that name none."""
    from transformers import TokenizersBackend
    from transformers.models.auto import tokenization_auto as auto

    settings = {}
    for name in (name for name in files if name.endswith(".json")):
        try:
            content = read_bytes(folder / name, LARGEST_FILE_BYTES)
            settings[name] = parse_json(content, LARGEST_FILE_BYTES)
        except ValueError as error:
            raise DataError(f"{name} {error}", "copy it again from its source") from None
    config, model = settings.get("tokenizer_config.json", {}), settings.get("config.json", {})
    named = config.get("tokenizer_class") or model.get("tokenizer_class")
    named = str(named or auto.TOKENIZER_MAPPING_NAMES.get(str(model.get("model_type"))) or "")
    generic = not named or named in GENERIC_CLASSES
    cls = None if generic else auto.tokenizer_class_from_name(named)
    if cls is None and "AutoTokenizer" in str(config.get("auto_map")):
        message = "its tokenizer is code of the folder, which bertc does not run"
        raise UnsafeError(message, FAST_ONLY)
    slow = cls and not issubclass(cls, TokenizersBackend) and cls.__name__ != ESM_CLASS
    if slow or (cls is None and not generic and "tokenizer.json" not in files):
        reason = "a class of Python without a fast backend" if slow else "which transformers lacks"
        raise DataError(f"its tokenizer is {shown(named)}, {reason}", FAST_ONLY)
    if generic and "tokenizer.json" not in files:
        config["tokenizer_class"] = next(c for name, c in CLASS_OF_FILE.items() if name in files)
        (folder / "config.json").unlink(missing_ok=True)
    config.pop("auto_map", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


def _lowers(hf: Any) -> bool:
    normalizer = hf.backend_tokenizer.normalizer
    return normalizer is not None and "A" not in normalizer.normalize_str("A")


def _try(hf: Any, written: str) -> None:
    """Compare the rows of texts and pairs: what the class makes, and what is written."""
    from tokenizers import Tokenizer

    saved = Tokenizer.from_str(written)
    special = sorted(str(token) for token in hf.added_tokens_encoder)[:40]
    texts = (*TRIAL_TEXTS, *(f"a{token} b {token}{token.lower()}  {token}c" for token in special))
    for first, second in zip(texts, (*texts[2:], *TRIAL_TEXTS[2:4]), strict=True):
        for row in ((first,), (first, second))[: 1 + (hf.is_fast or bool(hf.eos_token))]:
            text = shown(row[-1])
            failing = as_data_error(f"its tokenizer fails on the text {text}", ANOTHER)
            with warnings.catch_warnings(), failing:
                warnings.simplefilter("ignore")
                expected, encoded = hf(*row, return_token_type_ids=True), saved.encode(*row)
            for ids, numbers in (
                (expected["input_ids"], encoded.ids),
                (expected["token_type_ids"], encoded.type_ids),
            ):
                if ids != numbers:
                    place = len(commonprefix([ids, numbers]))
                    differing = f"{ids[place : place + 5]}, {numbers[place : place + 5]} at {place}"
                    kind = type(hf).__name__
                    message = f"{kind} reads {text} otherwise than its backend alone: {differing}"
                    raise DataError(message, FAST_ONLY)
            if len(encoded.ids) > TOKENS_OF_CHARACTER * (1 + sum(map(len, row))):
                count = f"{len(encoded.ids):,} tokens of the text {text}"
                raise DataError(f"its tokenizer makes {count}", ANOTHER)


def _of_esm(hf: Any) -> "Tokenizer":
    """The longest token at each place; other letters up to one or to white space are unknown."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    ids, special = hf.get_vocab(), [str(token) for token in hf.all_special_tokens]
    cls, eos = hf.cls_token, hf.eos_token
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=str(hf.unk_token)))
    # Training reads what spells a special token as text.
    as_text = Regex("|".join(map(re.escape, special)))
    tokenizer.normalizer = normalizers.Replace(as_text, "\ufffd")
    longest_first = sorted(ids.keys() - {*special}, key=lambda token: (-len(token), token))
    tokens = pre_tokenizers.Split(Regex("|".join(map(re.escape, longest_first))), "isolated")
    words = pre_tokenizers.Split(Regex(r"[\s\x1c-\x1f]+"), "removed")  # as str.split
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([tokens, words])
    tokenizer.add_special_tokens(special)
    # The class of Nucleotide Transformer's folders puts no token after a text.
    single = [f"{cls}:0", "$A:0", *([f"{eos}:0"] if eos else [])]
    second = ["$B:1", *([f"{eos}:1"] if eos else [])]
    ends = [(token, ids[token]) for token in (cls, eos) if token]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=[*single, *second], special_tokens=ends
    )
    return tokenizer
