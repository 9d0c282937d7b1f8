"""Tokenizers built from a vocabulary and facts, as their classes of transformers 5 build them.

Except for kind ``written``, only the tokens of a tokenizer.json are used: normaliser and
pre-tokenizer are built from tokenizer_config.json, which may differ from it.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from bertc.diagnostics import DataError
from bertc.passes.vocabulary import sentencepiece_model, word_list
from bertc.storage.foreign import as_data_error
from bertc.storage.plain_file import read_text
from bertc.tokenizer_files.classes import LARGEST_FILE_BYTES, TOKEN_ROLES, TokenizerKind
from bertc.tokenizer_files.facts import TokenizerFacts
from bertc.tokenizer_files.sentencepiece import PIECE_CONTROL, PIECE_UNKNOWN, PIECE_USER_DEFINED
from bertc.tokenizer_files.special_words import SpecialToken, read_object

BLANK = "\u2581"
UNKNOWN_IDS: Mapping[TokenizerKind, int] = {"albert": 1, "xlm-roberta": 3}
"""The id of the unknown piece by class, whatever the vocabulary says."""
COPY_AGAIN_HELP = "copy it again from its source"


def make_tokenizer(facts: TokenizerFacts) -> Tokenizer:
    """Build the tokenizer of a folder, with special and added tokens and template.

    Raises:
        MissingInputError: if a file is not there.
        DataError: if the vocabulary is damaged, or not that of its class.
    """
    match facts.kind:
        case "written":
            tokenizer, extra = _as_written(facts), facts.extra or ()
        case "bert":
            tokenizer, extra = _bert(facts), facts.extra or ()
        case "roberta":
            tokenizer, extra = _roberta(facts), facts.extra or ()
        case "albert" | "xlnet" | "xlm-roberta" | "camembert":
            tokenizer, extra = _unigram(facts)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    _refuse_nameless(tokenizer, facts)
    _add(tokenizer, facts, extra)
    _put_around(tokenizer, facts)
    return tokenizer


def _as_written(facts: TokenizerFacts) -> Tokenizer:
    text = read_text(facts.file, LARGEST_FILE_BYTES)
    with as_data_error(f"{facts.file}: not a tokenizer.json", COPY_AGAIN_HELP):
        return Tokenizer.from_str(text)


def _bert(facts: TokenizerFacts) -> Tokenizer:
    if facts.file.name == "tokenizer.json":
        ids = _ids(facts, _model(facts, "WordPiece")["vocab"])
    else:
        ids = word_list(facts.file)
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=_name(facts, "unk")))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=bool(facts.options["tokenize_chinese_chars"]),
        strip_accents=facts.options["strip_accents"],
        lowercase=bool(facts.options["do_lower_case"]),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    return tokenizer


def _roberta(facts: TokenizerFacts) -> Tokenizer:
    if facts.file.name == "tokenizer.json":
        model = _model(facts, "BPE")
        ids, merges = _ids(facts, model["vocab"]), _merges(facts, model.get("merges"))
    else:
        ids = _ids(facts, read_object(facts.file))
        merges = _merges(facts, _merge_lines(facts.file.with_name("merges.txt")))
    with as_data_error(f"{facts.file}: its merges are not of its tokens", COPY_AGAIN_HELP):
        bpe = models.BPE(ids, merges, continuing_subword_prefix="", end_of_word_suffix="")
    tokenizer = Tokenizer(bpe)
    spaced = bool(facts.options["add_prefix_space"])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _merge_lines(file: Path) -> list[str]:
    lines = read_text(file, LARGEST_FILE_BYTES).split("\n")
    return [line for line in lines if line and not line.startswith("#version")]


def _unigram(facts: TokenizerFacts) -> tuple[Tokenizer, tuple[SpecialToken, ...]]:
    extra, unknown = facts.extra or (), UNKNOWN_IDS.get(facts.kind, facts.unknown)
    if facts.file.name == "tokenizer.json":
        pieces = _pieces(facts, _model(facts, "Unigram")["vocab"])
        charsmap = _charsmap(read_object(facts.file).get("normalizer"))
        if facts.kind == "camembert":  # the piece of that name, wherever it stands
            name = _name(facts, "unk")
            unknown = next((n for n, (piece, _) in enumerate(pieces) if piece == name), 0)
    else:
        model = sentencepiece_model(facts.file)
        pieces, charsmap = model.pieces, model.charsmap
        if facts.kind == "xlnet":
            unknown = model.unknown
        unlike = [n for n, kind in enumerate(model.types) if kind == PIECE_UNKNOWN and n != unknown]
        if unlike:
            raise DataError(
                f"{facts.file}: its unknown piece has id {unlike[0]}, and {facts.kind}'s class "
                f"takes {unknown} for it",
                "save the tokenizer with a tokenizer.json",
            )
        if facts.extra is None:
            extra = tuple(
                SpecialToken(piece, {"normalized": False, "special": kind == PIECE_CONTROL})
                for (piece, _), kind in zip(pieces, model.types, strict=True)
                if kind in (PIECE_CONTROL, PIECE_USER_DEFINED)
            )
    with as_data_error(f"{facts.file}: not a unigram vocabulary", COPY_AGAIN_HELP):
        tokenizer = Tokenizer(models.Unigram(pieces, unk_id=unknown, byte_fallback=False))
        if steps := _normal(facts, charsmap):
            tokenizer.normalizer = normalizers.Sequence(steps)
    scheme = "always" if facts.options.get("add_prefix_space", True) else "never"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(replacement=BLANK, prepend_scheme=scheme),
        ]
    )
    tokenizer.decoder = decoders.Metaspace(replacement=BLANK, prepend_scheme=scheme)
    return tokenizer, extra


def _normal(facts: TokenizerFacts, charsmap: bytes) -> list[normalizers.Normalizer]:
    mapped: list[normalizers.Normalizer] = [normalizers.Precompiled(charsmap)] if charsmap else []
    if facts.kind in ("xlm-roberta", "camembert"):
        return mapped
    steps: list[normalizers.Normalizer] = [
        normalizers.Replace("``", '"'),
        normalizers.Replace("''", '"'),
    ]
    if not facts.options.get("keep_accents"):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if facts.options["do_lower_case"]:
        steps.append(normalizers.Lowercase())
    return [*steps, *mapped]


def _charsmap(normalizer: Any) -> bytes:
    """SentencePiece's precompiled character map of a tokenizer.json; empty if it has none."""
    if not isinstance(normalizer, dict):
        return b""
    steps = normalizer.get("normalizers") if normalizer.get("type") == "Sequence" else [normalizer]
    for step in steps or ():
        if isinstance(step, dict) and step.get("type") == "Precompiled":
            with as_data_error(
                "a tokenizer.json with a damaged map of characters", COPY_AGAIN_HELP
            ):
                return base64.b64decode(str(step.get("precompiled_charsmap") or ""))
    return b""


def _model(facts: TokenizerFacts, kind: str) -> Mapping[str, Any]:
    """The model of a tokenizer.json, checked to be of the kind of its class."""
    model = read_object(facts.file).get("model")
    if not isinstance(model, dict) or "vocab" not in model:
        raise DataError(f"{facts.file}: it has no model.vocab", COPY_AGAIN_HELP)
    if model.get("type", kind) != kind:
        raise DataError(
            f"{facts.file} is of kind {model['type']}, and the class that "
            "tokenizer_config.json names makes it one of kind " + kind,
            "tokenizer_class = PreTrainedTokenizerFast reads it as it is written",
        )
    return model


def _ids(facts: TokenizerFacts, vocabulary: Any) -> dict[str, int]:
    if isinstance(vocabulary, dict) and all(type(n) is int for n in vocabulary.values()):
        return vocabulary
    raise DataError(f"{facts.file}: its vocabulary is no list of tokens and ids", COPY_AGAIN_HELP)


def _pieces(facts: TokenizerFacts, vocabulary: Any) -> list[tuple[str, float]]:
    try:
        return [(str(piece), float(score)) for piece, score in vocabulary]
    except (TypeError, ValueError):
        raise DataError(
            f"{facts.file}: its vocabulary is no list of pieces and scores", COPY_AGAIN_HELP
        ) from None


def _merges(facts: TokenizerFacts, merges: Any) -> list[tuple[str, str]]:
    try:
        pairs = [m.split(" ") if isinstance(m, str) else m for m in merges or ()]
        return [(str(left), str(right)) for left, right in pairs]
    except (TypeError, ValueError):
        raise DataError(
            f"{facts.file}: its merges are not pairs of tokens", COPY_AGAIN_HELP
        ) from None


def _name(facts: TokenizerFacts, role: str) -> str:
    if role not in facts.named:
        raise DataError(
            f"{facts.file}: no token for {role}",
            f"name it in tokenizer_config.json, as {role}_token",
        )
    return facts.named[role].content


def _add(tokenizer: Tokenizer, facts: TokenizerFacts, extra: tuple[SpecialToken, ...]) -> None:
    """Add the added tokens by id, then special ones, in the order of TokenizersBackend."""
    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    added = [facts.added[number] for number in sorted(facts.added)]
    named = [facts.named[role] for role in TOKEN_ROLES if role in facts.named]
    known_or_added, in_order = known | {word.content for word in added}, added
    for word in (*named, *extra):
        if word.content not in known_or_added:
            in_order.append(word)
            known_or_added.add(word.content)
    roles = {word.content for word in named}
    tokenizer.add_tokens([_token(w, special=w.content in roles) for w in in_order])
    for number, word in facts.added.items():
        if (token_id := tokenizer.token_to_id(word.content)) != number:
            raise DataError(
                f"{facts.file}: {word.content!r} has id {token_id} there, but {number} in the "
                "files beside it",
                "save the tokenizer again, with the program that made it",
            )


def _refuse_nameless(tokenizer: Tokenizer, facts: TokenizerFacts) -> None:
    """Refuse special tokens that are not in the vocabulary: a new id would have no embedding."""
    listed = {word.content for word in facts.added.values()}
    for role, word in facts.named.items():
        if tokenizer.token_to_id(word.content) is None and word.content not in listed:
            raise DataError(
                f"{facts.file}: no token {word.content} for {role}",
                f"name the one it has in tokenizer_config.json, as {role}_token",
            )


def _token(word: SpecialToken, special: bool) -> AddedToken:
    flags = dict(word.flags)
    if special:
        flags["special"] = True
    return AddedToken(word.content, **flags)


def _put_around(tokenizer: Tokenizer, facts: TokenizerFacts) -> None:
    """Set the template of special tokens around one text or two, as the class does."""
    if facts.kind == "written":
        return
    if facts.kind == "albert" and facts.file.name == "tokenizer.json":  # the class keeps the file's
        tokenizer.post_processor = _as_written(facts).post_processor
        if tokenizer.post_processor is not None:
            return
    cls, sep = _name(facts, "cls"), _name(facts, "sep")
    known = tokenizer.get_vocab(with_added_tokens=True)
    ids = {token: known[token] for token in (cls, sep)}
    if facts.kind == "roberta":
        tokenizer.post_processor = processors.RobertaProcessing(
            (sep, ids[sep]),
            (cls, ids[cls]),
            trim_offsets=bool(facts.options["trim_offsets"]),
            add_prefix_space=bool(facts.options["add_prefix_space"]),
        )
        return
    if facts.kind in ("xlm-roberta", "camembert"):
        first, last = _name(facts, "bos"), _name(facts, "eos")
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[first, "$A", last],
            pair=[first, "$A", last, last, "$B", last],
            special_tokens=[(token, known[token]) for token in {first, last}],
        )
        return
    single, pair = f"{cls}:0 $A:0 {sep}:0", f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1"
    if facts.kind == "xlnet":
        single, pair = f"$A:0 {sep}:0 {cls}:2", f"$A:0 {sep}:0 $B:1 {sep}:1 {cls}:2"
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=list(ids.items())
    )
