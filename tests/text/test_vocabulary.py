"""Vocabularies learned and read: sizes, roles, word starts, determinism, files they leave."""

import itertools
import json
import random
from collections import Counter
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2
from tokenizers import Tokenizer

from bertc import resolve
from bertc.base.diagnostics import DataError, MissingInputError
from bertc.ir.vocabulary import ByteBpe, Bytes, TokenizerFile, Unigram, WordPiece, Words
from bertc.text.shards import Encode
from bertc.text.vocab import changed
from bertc.text.vocab.learned import ALBERT_SPECIALS, _alphabet, learn
from bertc.text.vocab.vocabulary import Vocabulary, _starts_word, from_tokenizer, load_vocabulary
from tests.hub.hf_tokenizers import trained

Learned = WordPiece | ByteBpe | Unigram
KINDS: dict[str, Learned] = {
    "wordpiece": WordPiece(size=300), "bpe": ByteBpe(size=400), "unigram": Unigram(size=300),
    "roberta": Unigram(size=300, lower=False, specials="roberta"),
}  # fmt: skip
AS_ROBERTA = KINDS["bpe"], KINDS["roberta"]
EVERY = pytest.mark.parametrize("node", KINDS.values(), ids=KINDS)


def texts() -> list[str]:
    rng = random.Random(0)
    syllables = ["ka", "lo", "mi", "ru", "te", "shun", "Vor", "pel", "qui", "za"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(400)]
    lines = [" ".join(rng.choices(words, k=9)) + rng.choice(".!?") for _ in range(500)]
    return [*lines, "Süß, 12 hens: don't [MASK] <mask> me.", "鶏 once"]


def learned(node: Learned) -> Vocabulary:
    return from_tokenizer(learn(node, texts()), "test")


@EVERY
def test_sizes_roles_and_the_same_vocabulary_of_the_same_text(node: Learned) -> None:
    vocabulary = learned(node)
    again = (learn(node, texts()).to_str() for _ in range(3))
    assert {vocabulary.tokenizer.to_str()} == {*again}
    few = from_tokenizer(learn(node.model_copy(update={"size": 5000}), ["a hen, a hen"]), "")
    assert few.size < 400
    assert vocabulary.size <= node.size
    roles = {role: getattr(vocabulary, role) for role in ("pad", "unk", "cls", "sep", "mask")}
    of_roberta = {"cls": 0, "pad": 1, "sep": 2, "unk": 3, "mask": vocabulary.size - 1}
    of_bert = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    assert roles == (of_roberta if node in AS_ROBERTA else of_bert)
    assert set(np.flatnonzero(vocabulary.special)) == set(roles.values()) - {vocabulary.unk}
    assert vocabulary.word_start[list(roles.values())].all()
    assert sorted(vocabulary.tokenizer.get_vocab().values()) == list(range(vocabulary.size))


def test_tiny_sizes_are_met_or_refused() -> None:
    for node in (kind(size=size) for kind in (WordPiece, Unigram) for size in (16, 40)):
        assert learn(node, texts()).get_vocab_size() <= node.size
    with pytest.raises(DataError, match="no room for the 256 bytes"):
        learn(ByteBpe(size=200), texts())
    with pytest.raises(DataError, match="no text"):
        learn(WordPiece(), [])


def test_digits_are_tokens_one_by_one(tmp_path: Path) -> None:
    tokenizer = learn(ByteBpe(size=400, digits=True), ["in 1984 hens, 1984 ducks"] * 9)
    assert tokenizer.encode(" 1984", add_special_tokens=False).tokens == ["Ġ1", "9", "8", "4"]
    from_tokenizer(tokenizer, "test").save(tmp_path)
    again = load_vocabulary(TokenizerFile(path=str(tmp_path))).tokenizer
    assert again.to_str() == tokenizer.to_str()


def test_word_starts() -> None:
    for kind in ("wordpiece", "bpe"):
        vocabulary = learned(KINDS[kind])
        assert vocabulary.word_start[vocabulary.special].all()
        words = vocabulary.tokenizer.encode(" kalo miru", add_special_tokens=False)
        assert vocabulary.word_start[words.ids].sum() == 2
    starts = ["\u2581the", "\u2581", "<x>", ",", "'", "4", "é", "s4", "'s", "'ll", "=>"]
    assert all(_starts_word(token, "Unigram") for token in starts)
    assert not any(_starts_word(token, "Unigram") for token in ("s", "the", "s."))


@EVERY
def test_transformers_reads_what_is_saved(node: Learned, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    vocabulary = learned(node)
    vocabulary.save(tmp_path)
    reference = AutoTokenizer.from_pretrained(tmp_path)
    line = "Kalo, mirute shun!"
    mine = vocabulary.tokenizer.encode(line)
    assert reference(line)["input_ids"] == mine.ids
    assert (mine.ids[0], mine.ids[-1]) == (vocabulary.cls, vocabulary.sep)
    pair = vocabulary.tokenizer.encode("kalo", "miru")
    assert reference("kalo", "miru")["input_ids"] == pair.ids
    if node not in AS_ROBERTA:
        assert reference("kalo", "miru")["token_type_ids"] == pair.type_ids
        assert max(pair.type_ids) == 1
    for role in ("pad", "unk", "cls", "sep", "mask"):
        assert getattr(reference, f"{role}_token_id") == getattr(vocabulary, role)
    shown = reference.decode(mine.ids, skip_special_tokens=True)
    assert shown.replace(" ", "").lower() == line.replace(" ", "").lower()
    again = load_vocabulary(TokenizerFile(path=str(tmp_path)))
    assert again.tokenizer.to_str() == vocabulary.tokenizer.to_str()
    assert (again.word_start == vocabulary.word_start).all()


def test_vocab_txt(tmp_path: Path) -> None:
    vocabulary = learned(WordPiece(size=300))
    vocabulary.save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    for path in (tmp_path, tmp_path / "vocab.txt"):
        again = load_vocabulary(TokenizerFile(path=str(path)))
        assert again.tokenizer.get_vocab() == vocabulary.tokenizer.get_vocab()
        assert again.tokenizer.encode("Kalo!").ids == vocabulary.tokenizer.encode("Kalo!").ids


def sentencepiece() -> bytes:
    """A model of ALBERT's kind."""
    model = sentencepiece_model_pb2.ModelProto()
    kinds = model.SentencePiece
    special = [("<pad>", kinds.CONTROL), ("<unk>", kinds.UNKNOWN)]
    special += [(name, kinds.CONTROL) for name in ("[CLS]", "[SEP]", "[MASK]")]
    scored = [("\u2581", -3.0), ("\u2581hen", -1.0), ("s", -2.0), *((c, -5.0) for c in "hen")]
    pieces = [(piece, 0.0, kind) for piece, kind in special]
    for piece, score, kind in (*pieces, *((*one, kinds.NORMAL) for one in scored)):
        model.pieces.add(piece=piece, score=score, type=kind)
    model.trainer_spec.unk_id = 1
    return bytes(model.SerializeToString())


def test_sentencepiece_model(tmp_path: Path) -> None:
    path = tmp_path / "spiece.model"
    path.write_bytes(sentencepiece())
    vocabulary = load_vocabulary(TokenizerFile(path=str(path)))
    assert (vocabulary.size, vocabulary.pad, vocabulary.mask) == (11, 0, 4)
    tokens = vocabulary.tokenizer.encode("Hens hen").tokens
    assert tokens == ["[CLS]", "\u2581hen", "s", "\u2581hen", "[SEP]"]
    vocabulary.save(tmp_path / "out")
    assert (tmp_path / "out" / "spiece.model").read_bytes() == sentencepiece()


WRONG = {
    "cut.model": sentencepiece()[:-3], "noise.model": bytes(range(200)), "a.json": b"{}",
    "b.json": b"\xff", "a.txt": b"hen\nduck\n", "a.bin": b"",
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files_are_named(tmp_path: Path, name: str) -> None:
    for path in (tmp_path, tmp_path / "vocab.txt"):
        with pytest.raises(MissingInputError):
            load_vocabulary(TokenizerFile(path=str(path)))
    (tmp_path / name).write_bytes(WRONG[name])
    with pytest.raises(DataError) as caught:
        load_vocabulary(TokenizerFile(path=str(tmp_path / name)))
    assert str(tmp_path / name) in caught.value.message
    assert "\n" not in caught.value.message


def test_unknown_special_names_are_named() -> None:
    content = json.loads(learn(WordPiece(size=100), texts()).to_str())
    ids = content["model"]["vocab"]
    ids["<blank>"] = ids.pop("[PAD]")
    content["added_tokens"] = content["added_tokens"][1:]
    with pytest.raises(DataError, match="no token for pad"):
        from_tokenizer(Tokenizer.from_str(json.dumps(content)), "test")


def many_characters() -> list[str]:
    """Chinese words and Korean ones, of 1,500 characters as common as Zipf's law has them."""
    rng = random.Random(0)
    han = [chr(0x4E00 + n) for n in range(1000)]
    hangul = [chr(0xAC00 + 11 * n) for n in range(500)]
    odds = [1 / (n + 5) for n in range(1000)]
    lines = []
    for _ in range(500):
        chinese = "".join(rng.choices(han, odds, k=20))
        korean = ["".join(rng.choices(hangul, odds[:500], k=2)) for _ in range(6)]
        lines.append(f"{chinese} {' '.join(korean)}")
    return lines


def test_an_alphabet_grows_where_the_text_needs_it() -> None:
    unknown, lines = [], many_characters()
    for alphabet in (0, 400):
        tokenizer = learn(WordPiece(size=8000, alphabet=alphabet), lines)
        encoded = tokenizer.encode_batch(lines, add_special_tokens=False)
        read = [token for line in encoded for token in line.tokens]
        unknown.append(read.count("[UNK]") / len(read))
    assert unknown[0] < 0.005 < 0.1 < unknown[1]
    english = Counter({chr(97 + n): 10**6 for n in range(26)})
    english.update({chr(0x4E00 + n): 1 for n in range(9000)})  # 1 character in 2,900
    assert [_alphabet(size, english) for size in (30_522, 8000, 300)] == [1000, 500, 128]
    chinese = Counter({chr(0x4E00 + n): 1 for n in range(6000)})
    assert [_alphabet(size, chinese) for size in (119_547, 8000, 300)] == [5997, 2000, 128]


def test_accents_are_stripped_by_accents_false() -> None:
    text = ["Süße Früchte, été"]
    kept = learn(Unigram(size=60), text).normalizer.normalize_str(text[0])
    bare = learn(Unigram(size=60, accents=False), text).normalizer.normalize_str(text[0])
    assert (kept, bare) == ("süße früchte, été", "suße fruchte, ete")


WHITE = [c for c in map(chr, range(0x3001)) if c.isspace() and not "\x1c" <= c <= "\x1f"]


@pytest.mark.parametrize("kind", get_args(learn.__annotations__["node"]))
def test_white_space_of_tasks_is_read_as_that_of_training(kind, tmp_path: Path) -> None:
    """Spaces, or in bytes what they are; BERT's own drops controls that are no line ends."""
    base = from_tokenizer(learn(kind(size=261), [*texts(), "".join(WHITE)]), "")
    base.save(tmp_path)
    read = [base.tokenizer, load_vocabulary(TokenizerFile(path=str(tmp_path))).tokenizer]
    if kind not in (Words, Bytes):
        counts = np.ones(base.size, np.int64)
        read += [changed.extended(base, ["vorpelqui"]), changed.trim_tokenizer(base, counts, 0)]
    for tokenizer, white in itertools.product(read, WHITE):
        gap = white + " " * (kind is WordPiece and white in "\x0b\x0c\x85")
        text = f"{white}kalo{gap}mi, ru{gap}{white}te{white}"
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        if kind in (ByteBpe, Bytes):
            assert tokenizer.decode(ids) == text
        else:
            assert ids == tokenizer.encode("kalo mi, ru te", add_special_tokens=False).ids
            assert ids == Encode(tokenizer.to_str(), "lines")([(text, False)])[0].tolist()


def test_unigrams_read_every_character_as_sentencepiece_does() -> None:
    """But for controls, of which it reads none, and those that its rules lack."""
    vocabulary = from_tokenizer(learn(Unigram(size=300, lower=False), texts()[:400]), "")
    model = sentencepiece_model_pb2.ModelProto.FromString(trained(texts(), 300, {}))
    model.ClearField("pieces")
    learned_pieces = json.loads(vocabulary.tokenizer.to_str())["model"]["vocab"]
    for (token, score), special in zip(learned_pieces, vocabulary.special, strict=True):
        of_kind = 2 if token == "<unk>" else 3 if special else 1  # unknown, control, normal
        model.pieces.add(piece=token, score=score, type=of_kind)
    reference = SentencePieceProcessor(model_proto=model.SerializeToString())
    signs = [c for c in map(chr, range(0x2E80)) if c.isprintable() or c in "\t\n\f\r\u200b\ufeff"]
    lines = [line.replace(" ", c, 3) for line in texts()[400:500] for c in {*WHITE} - {*"\v\x85"}]
    for text in [*lines, *(f"kalo{sign}mi" for sign in signs if sign != "\u0344")]:
        ids = vocabulary.tokenizer.encode(text, add_special_tokens=False).ids
        assert ids == reference.encode(text), text


def test_unigrams_are_not_learned_from_words_without_end() -> None:
    text = ["some words of a text"] * 50
    endless = "wxtr" * 1100
    plain, beside = (learn(Unigram(size=60), texts) for texts in (text, [*text, endless]))
    pieces = {piece for piece in beside.get_vocab() if len(piece) > 1}
    assert pieces == {piece for piece in plain.get_vocab() if len(piece) > 1}


def test_unigram_pieces_are_of_letters_of_digits_or_of_marks() -> None:
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefgh", k=rng.randint(2, 7))) for _ in range(200)]
    form = "{} and {}'s ({}.x{n}), {n}% of нет{n}."
    lines = [form.format(*rng.choices(words, k=3), n=n) for n in range(1000)]
    tokenizer = learn(Unigram(size=400), lines)
    for piece in tokenizer.get_vocab().keys() - {*ALBERT_SPECIALS}:
        read = piece.removeprefix("\u2581")
        assert len({(c.isalpha(), c.isdigit()) for c in read}) <= 1, piece


def test_a_run_is_named_for_its_vocabulary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words = tmp_path / "run" / "tokenizer" / "vocab.txt"
    words.parent.mkdir(parents=True)
    words.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    monkeypatch.chdir(tmp_path)
    vocabulary = resolve("layers=2 hidden=64 vocab='run'").vocabulary
    assert vocabulary == TokenizerFile(path="run/tokenizer", size=6)


@pytest.mark.parametrize(
    ("came", "seq", "room", "longest"),
    [
        ({}, 128, 512, 512), ({}, 128, None, 128), ({"model_max_length": 8192}, 128, None, 8192),
        ({"model_max_length": int(1e30)}, 128, 514, 514),
        ({"model_max_length": 128}, 512, 512, 128),
        ({"model_max_length": int(1e30)}, 128, None, int(1e30)), ({}, 0, None, None),
    ],
)  # fmt: skip
def test_transformers_cuts_at_the_longest_row_of_the_network(came, seq, room, longest, tmp_path):
    made = from_tokenizer(learn(WordPiece(size=40), ["a hen and a duck"]), "test", passed_on=came)
    made.save(tmp_path, seq, room)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config.get("model_max_length") == longest
