"""Vocabularies learned from the corpus, reproducible for the same text on every machine."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from io import BytesIO
from itertools import chain

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from bertc.base.diagnostics import DataError, as_data_error
from bertc.ir.vocabulary import ByteBpe, Bytes, OfText, Unigram, WordPiece, Words

BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ALBERT_SPECIALS = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")  # ALBERT: pad 0, unk 1
CLOSED_SPECIALS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
ROBERTA_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")  # fairseq dictionary.py; <mask> comes last
MASK = ("<mask>",)
LATIN_CHARACTERS = 1000  # bert-base-uncased has 997 single characters
ALPHABET_COVERAGE = 0.9995
"""Fraction of the text that a WordPiece alphabet covers, if the vocabulary has room."""
COVERAGE = 0.99995  # ALBERT README, spm --character_coverage
SCORE_DECIMALS = 4
OVERLONG_WORD = re.compile(r"\S{4193,}")
"""Words too long to learn from (SentencePiece's --max_sentence_length, 4192 bytes)."""
RESERVED = "[\0\u2581\u2585]"
"""Characters that SentencePiece has for itself: the end, a space, what is unknown."""
ALSO_SPACES = r"\x1c-\x1f\u061c\u200b\u200c\u200e\u200f\u2581\ufeff\ufffd"
"""Spaces by Python's str.split, or by SentencePiece's nmt_nfkc (builder.cc), beside ``\\s``."""
WHITE_SPACE = rf" *[[^\S ]{ALSO_SPACES}][\s{ALSO_SPACES}]*| {{2,}}"
"""A run of white space, which becomes one space; single spaces do not match, to save time."""


def learn(node: OfText, texts: Sequence[str]) -> Tokenizer:
    """Learn a tokenizer of at most ``node.size`` tokens, special ones included."""
    if not any(texts):
        raise DataError("the corpus has no text", "check the data setting")
    match node:
        case WordPiece():
            return _wordpiece(node, texts)
        case ByteBpe():
            return _byte_bpe(node, texts)
        case Unigram():
            return _unigram(node, texts)
        case Words():
            counts = Counter(word for text in texts for word in text.split())
            return _list_closed(counts, node.size, pre_tokenizers.WhitespaceSplit())
        case Bytes():
            return _bytes(node, texts)


def characters(texts: Iterable[str], normalizer: normalizers.Normalizer) -> Counter[str]:
    """Counts of the characters in the normalised texts."""
    counts = Counter[str]()
    for character, count in Counter(chain.from_iterable(texts)).items():
        for normal in normalizer.normalize_str(character):
            if not normal.isspace():
                counts[normal] += count
    return counts


def _alphabet(size: int, counts: Counter[str]) -> int:
    """The size of the WordPiece alphabet; each character has two tokens, ``c`` and ``##c``."""
    characters = max(
        min(LATIN_CHARACTERS, max(128, size // 16)),
        min(len(_covering(counts, ALPHABET_COVERAGE)), max(128, size // 4)),
    )
    return min(characters, (size - len(BERT_SPECIALS)) // 2)


def _commonest(counts: Counter[str], most: int) -> list[str]:
    """The ``most`` commonest characters, in order of code point; ties by code point."""
    ranked = sorted(counts, key=lambda c: (-counts[c], c))
    return sorted(ranked[:most])


def _wordpiece(node: WordPiece, texts: Sequence[str]) -> Tokenizer:
    normalizer = normalizers.BertNormalizer(lowercase=node.lower)
    counts = characters(texts, normalizer)
    alphabet = _commonest(counts, node.alphabet or _alphabet(node.size, counts))
    draft = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    draft.normalizer = normalizer
    draft.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    # The trainer numbers the ## characters in the order of a hash map and breaks ties by number;
    # given beforehand, they have the same numbers in every run.
    inner = [f"##{c}" for c in alphabet]
    trainer = trainers.WordPieceTrainer(
        vocab_size=node.size, special_tokens=[*BERT_SPECIALS, *inner], initial_alphabet=alphabet,
        limit_alphabet=len(alphabet), show_progress=False,
    )  # fmt: skip
    draft.train_from_iterator(texts, trainer)
    learned = draft.get_vocab()
    order = sorted(learned, key=lambda token: learned[token])
    first = dict.fromkeys([*BERT_SPECIALS, *alphabet, *inner])
    return bert_tokenizer(list(dict.fromkeys([*first, *order]))[: node.size], lower=node.lower)


def bert_tokenizer(tokens: Sequence[str], lower: bool) -> Tokenizer:
    """BERT's tokenizer over a list of word pieces, ids in order."""
    ids = {token: token_id for token_id, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens([token for token in BERT_SPECIALS if token in ids])
    _mark_ends(tokenizer, ids)
    return tokenizer


def _mark_ends(tokenizer: Tokenizer, ids: dict[str, int]) -> None:
    """Set the template of [CLS] and [SEP], or for RoBERTa's special tokens that of XLM-R."""
    if "[CLS]" in ids and "[SEP]" in ids:
        ends, single, pair = ("[CLS]", "[SEP]"), "[CLS]:0 $A:0 [SEP]:0", " $B:1 [SEP]:1"
    elif tuple(ids)[: len(ROBERTA_SPECIALS)] == ROBERTA_SPECIALS:
        ends, single, pair = ("<s>", "</s>"), "<s> $A </s>", " </s> $B </s>"
    else:
        return
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=single + pair, special_tokens=[(end, ids[end]) for end in ends]
    )


def _byte_bpe(node: ByteBpe, texts: Sequence[str]) -> Tokenizer:
    smallest = 256 + len(ROBERTA_SPECIALS) + 1
    if node.size < smallest:
        message = f"vocab=bpe({node.size}) has no room for the 256 bytes and five special tokens"
        raise DataError(message, f"vocab=bpe({smallest}) is the smallest")
    draft = Tokenizer(models.BPE())
    split: pre_tokenizers.PreTokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if node.digits:
        digits = pre_tokenizers.Split(Regex(r" ?\p{N}"), "isolated")
        split = pre_tokenizers.Sequence([digits, split])
    draft.pre_tokenizer = split
    trainer = trainers.BpeTrainer(
        vocab_size=node.size - 1, min_frequency=2, special_tokens=list(ROBERTA_SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False,
    )  # fmt: skip
    draft.train_from_iterator((f" {text}" for text in texts), trainer)
    model = json.loads(draft.to_str())["model"]
    ids: dict[str, int] = model["vocab"] | {"<mask>": len(model["vocab"])}
    tokenizer = Tokenizer(models.BPE(ids, [(first, second) for first, second in model["merges"]]))
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(ROBERTA_SPECIALS))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    ends = ("</s>", ids["</s>"]), ("<s>", ids["<s>"])
    tokenizer.post_processor = processors.RobertaProcessing(*ends, add_prefix_space=False)
    return tokenizer


def _list_closed(counts: Counter[str], size: int, split: pre_tokenizers.PreTokenizer) -> Tokenizer:
    """A tokenizer of special tokens, then others by frequency; ties in order of code point."""
    for special in CLOSED_SPECIALS:
        del counts[special]
    ranked = sorted(counts, key=lambda token: (-counts[token], token))
    tokens = [*CLOSED_SPECIALS, *ranked[: size - len(CLOSED_SPECIALS)]]
    ids = {token: token_id for token_id, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    tokenizer.pre_tokenizer = split
    tokenizer.add_special_tokens(list(CLOSED_SPECIALS))
    return tokenizer


def _bytes(node: Bytes, texts: Sequence[str]) -> Tokenizer:
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    counts = Counter(chain.from_iterable(level.pre_tokenize_str(t)[0][0] for t in texts))
    if node.size == 261:
        counts.update(pre_tokenizers.ByteLevel.alphabet())
    parting = pre_tokenizers.Sequence([level, pre_tokenizers.Split(Regex("."), "isolated")])
    tokenizer = _list_closed(counts, node.size, parting)
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel()])
    return tokenizer


def _unigram(node: Unigram, texts: Sequence[str]) -> Tokenizer:
    # As ALBERT's tokenization.py and XLNet's prepro_utils.py do before SentencePiece reads.
    bare = [] if node.accents else [normalizers.NFKD(), normalizers.StripAccents()]
    steps = [*bare, normalizers.NFKC(), *([normalizers.Lowercase()] if node.lower else [])]
    blanks = [normalizers.Replace(Regex(WHITE_SPACE), " "), normalizers.Strip()]
    normalizer = normalizers.Sequence([*steps, *blanks])
    first, last = (ALBERT_SPECIALS, ()) if node.specials == "albert" else (ROBERTA_SPECIALS, MASK)
    specials = (*first, *last)
    most = min((node.size - len(specials)) // 2, max(128, node.size // 4))
    alphabet = _commonest(_covering(characters(texts, normalizer), COVERAGE), most)
    unread = re.compile(f"[^{re.escape(''.join(alphabet))}]+|{OVERLONG_WORD.pattern}|{RESERVED}")
    lines = (" ".join(unread.sub(" ", normalizer.normalize_str(text)).split()) for text in texts)
    learned = _by_sentencepiece(lines, node.size - len(specials))
    chosen = [(p, score) for p, score in learned.items() if p not in specials]
    chosen.sort(key=lambda piece: (-piece[1], piece[0]))
    pieces = [(special, 0.0) for special in first]
    pieces += [*chosen, *((special, 0.0) for special in last)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=first.index("<unk>")))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    ids = {piece: token_id for token_id, (piece, _) in enumerate(pieces)}
    names = (*ALBERT_SPECIALS, "<s>", "</s>", "<mask>", "<cls>", "<sep>")
    tokenizer.add_special_tokens([name for name in names if name in ids])
    _mark_ends(tokenizer, ids)
    return tokenizer


def _by_sentencepiece(lines: Iterable[str], size: int) -> dict[str, float]:
    """At most ``size`` pieces and their scores, as sentencepiece learns them by default.

    So no piece mixes scripts, or letters with digits or marks (split_by_unicode_script,
    split_by_number). Counts are summed in as many parts as there are threads, so their number
    is set; last digits of scores, which depend on the machine, are rounded away.
    """
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    model = BytesIO()
    with as_data_error(
        "no unigram vocabulary can be learned from this text",
        "vocab=wordpiece or vocab=bpe, or a larger vocabulary",
    ):
        SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, num_threads=16, minloglevel=3,
            vocab_size=size + 1,  # with its own <unk>
            hard_vocab_limit=False, character_coverage=1.0, max_sentence_length=2**30,
            normalization_rule_name="identity", unk_id=0, bos_id=-1, eos_id=-1, pad_id=-1,
        )  # fmt: skip
    learned = SentencePieceProcessor(model_proto=model.getvalue())
    ids = range(1, learned.get_piece_size())
    return {learned.id_to_piece(n): round(learned.get_score(n), SCORE_DECIMALS) for n in ids}


def _covering(counts: Counter[str], part: float) -> Counter[str]:
    total, covered, covering = counts.total(), 0, Counter[str]()
    for character in sorted(counts, key=lambda c: (-counts[c], c)):
        if covered >= part * total:
            break
        covering[character] = counts[character]
        covered += counts[character]
    return covering
