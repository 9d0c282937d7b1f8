"""Vocabularies made from others: words added, tokens removed, rows as sums of old rows."""

import random

import numpy as np
import pytest

from bertc.base.diagnostics import DataError
from bertc.ir.changing.growth import Focus, Mean, Redrawn, SameTokens
from bertc.ir.vocabulary import ByteBpe, TokenizerFile, Unigram, WordPiece
from bertc.text.cache.store import Silent
from bertc.text.vocab import changed, vocabulary as vocabularies
from bertc.text.vocab.learned import bert_tokenizer, learn
from bertc.text.vocab.token_rows import sparsemax, token_sums, vectors_of_text
from bertc.text.vocab.vocabulary import Vocabulary, from_tokenizer, load_vocabulary

KINDS: dict[str, WordPiece | ByteBpe | Unigram] = {
    "wordpiece": WordPiece(size=150), "cased": WordPiece(size=150, lower=False),
    "bpe": ByteBpe(size=330), "unigram": Unigram(size=120),
    "roberta": Unigram(size=120, lower=False, specials="roberta"),
}  # fmt: skip
WORDS = ["Übermut", "quarzuhr", "don", "mondlicht"]
TEXTS = [
    "Die Übermut-Quarzuhr im Mondlicht: don't, Quarzuhren!",
    "a (quarzuhr), mondlicht.Übermut quarzuhr\tx_quarzuhr 鶏",
]


def lines() -> list[str]:
    rng = random.Random(3)
    parts = ["mi", "te", "Ka", "lo", "ru", "zü", "pel"]
    words = ["".join(rng.choices(parts, k=rng.randint(1, 3))) for _ in range(60)]
    return [" ".join(rng.choices(words, k=8)) + rng.choice(".!?") for _ in range(150)]


def learned(kind: str) -> Vocabulary:
    letters = ["quarz uhr mond licht Ü b e r m u t s x _ d o n' t : ( ) -"] * 20
    return from_tokenizer(learn(KINDS[kind], [*lines(), *TEXTS, *letters]), "test")


@pytest.mark.parametrize("kind", KINDS)
def test_added_words_are_whole_and_all_other_text_is_read_as_before(kind, tmp_path):
    base = learned(kind)
    words, known = changed.words_in_file(base, "words.txt", "\n".join([*WORDS, "", WORDS[0]]))
    assert len(words) + known == len(WORDS)
    made = from_tokenizer(changed.extended(base, words), "made", base.named, base.passed_on)
    assert made.size == base.size + len(words)
    for word in words:
        ids = made.tokenizer.encode(f"te {word}, mi", add_special_tokens=False).ids
        (token,) = (number for number in ids if number >= base.size)
        assert (made.token(token), made.word_start[token]) == (word, True)
        assert made.readable(token) == word
        longer = f"te {word}en mi{word} {word}_"
        pair = [v.tokenizer.encode(longer).tokens for v in (base, made)]
        assert pair[0] == pair[1], word
    for text in lines():
        assert base.tokenizer.encode(text).tokens == made.tokenizer.encode(text).tokens
    assert vocabularies.characters_by_token(made) is None
    made.save(tmp_path)
    from transformers import AutoTokenizer

    reference = AutoTokenizer.from_pretrained(tmp_path)
    for text in (*TEXTS, *lines()[:20]):
        assert reference(text)["input_ids"] == made.tokenizer.encode(text).ids
    again = load_vocabulary(TokenizerFile(path=str(tmp_path)))
    assert (again.word_start == made.word_start).all()
    assert again.tokenizer.to_str() == made.tokenizer.to_str()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.0, 0.8])
def test_a_trimmed_vocabulary_reads_the_text_it_was_made_for_as_before(kind, share):
    base, read = learned(kind), lines()[:40]
    counts = np.zeros(base.size, np.int64)
    for text in read:
        np.add.at(counts, base.tokenizer.encode(text, add_special_tokens=False).ids, 1)
    least = changed.staying(base)
    size = least + int(share * (base.size - least))
    made = from_tokenizer(changed.trim_tokenizer(base, counts, share and size), "", base.named)
    assert made.named == base.named
    for text in read if share == 0 else []:
        assert made.tokenizer.encode(text).tokens == base.tokenizer.encode(text).tokens
    if share:
        assert made.size <= size
        assert size - made.size < 2  # a merge takes its parts along
    else:
        assert least <= made.size < base.size
        # Other text of the same characters is spelled, if in smaller pieces.
        spelled = made.tokenizer.encode("".join(lines()[40].split()[0][::-1]).strip(".!?"))
        assert made.unk not in spelled.ids
    pytest.raises(DataError, changed.trim_tokenizer, base, counts, 3).match("no room")


def test_unused_tokens_give_way_to_words_before_the_table_grows() -> None:
    specials = ["[PAD]", *(f"[unused{n}]" for n in range(3)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = [*specials, *"abc", "##a", "##b", "##c"]
    base = from_tokenizer(bert_tokenizer(tokens, lower=True), "test")
    for count, size in ((2, base.size), (3, base.size), (5, base.size + 2)):
        words = ["ab", "bc", "cab", "abca", "cc"][:count]
        made = from_tokenizer(changed.extended(base, words), "made", base.named)
        assert (made.size, made.pad) == (size, 0)
        assert made.tokenizer.encode("ab a").tokens == ["[CLS]", "ab", "a", "[SEP]"]
        sums = token_sums(base, made, Mean())
        assert (sums.equal, sums.mixed) == (size - count, count)
        of_ab = sums.sources[sums.tokens == made.tokenizer.token_to_id("ab")]
        assert [base.token(source) for source in of_ab] == ["a", "##b"]
    text = ["ab ab ab a", "cab cab", "abca", "bcb bcb"]
    assert changed.words_in_text(base, text, 2) == ["bcb", "cab"]
    for bad, message in (("", "no words"), ("a b", "words.txt:1"), ("a\nb", "all 2 words")):
        pytest.raises(DataError, changed.words_in_file, base, "words.txt", bad).match(message)


def test_rows_of_another_tokenizer_are_those_of_equal_tokens_and_sums() -> None:
    old, new = learned("wordpiece"), learned("bpe")
    equal = token_sums(old, new, SameTokens())
    pairs = dict(zip(equal.tokens.tolist(), equal.sources.tolist(), strict=True))
    assert (equal.equal, equal.mixed) == (len(pairs), 0)
    for role in ("pad", "cls", "sep", "mask", "unk"):
        assert pairs[getattr(new, role)] == getattr(old, role)
    for token, source in pairs.items():
        if not new.special[token] and new.raw(token) is not None:
            assert new.readable(token).strip("▁") == old.token(source).removeprefix("##")
    assert token_sums(old, new, Redrawn()).equal == len(token_sums(old, new, Redrawn()).tokens) == 0
    means = token_sums(old, new, Mean())
    for token in {*means.tokens.tolist()}:
        assert means.weights[means.tokens == token].sum() == pytest.approx(1)
    ids = [np.array(new.tokenizer.encode(" ".join(lines())).ids, np.uint16)]
    vectors = vectors_of_text(ids, new, Silent())
    focused = token_sums(old, new, Focus(), vectors)
    assert equal.equal == focused.equal
    assert focused.mixed > 3
    assert not vectors[sorted({*range(new.size)} - {*focused.tokens.tolist()})].any()


def test_sparsemax_is_the_nearest_point_of_the_simplex() -> None:
    scores = np.array([[0.9, 0.8, 0.1], [5.0, 1.0, 1.0], [0.0, 0.0, 0.0]], np.float32)
    wanted = [[0.55, 0.45, 0], [1, 0, 0], [1 / 3, 1 / 3, 1 / 3]]
    assert sparsemax(scores) == pytest.approx(np.array(wanted), abs=1e-6)
