"""Text in several languages: pairs, who is drawn how often, and what a batch says of its rows."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bertc.base.diagnostics import DataError, MissingInputError
from bertc.ir.data import Files, Parallel, Share
from bertc.ir.program.resolved import Resolved
from bertc.ir.vocabulary import WordPiece
from bertc.tasks.corpus import PreparedCorpus, prepare
from bertc.text.batches.order import draw_weights, set_proportions, texts_of
from bertc.text.cache.store import Silent
from bertc.text.sources.opening import open_source
from bertc.text.sources.source import CorpusText
from bertc.text.vocab.learned import BERT_SPECIALS, bert_tokenizer, learn
from bertc.text.vocabularies import sample
from tests.text.conftest import Make

PAIRS = [
    ("the hen is red", "la poule est rouge"), ("a duck", "un canard"), ("", "rien"),
    ("the goose sleeps in the barn", "l'oie dort dans la grange"), ("nothing", " "),
    ("鸡 and ducks", "des poules et des canards"),
]  # fmt: skip
WHOLE = [pair for pair in PAIRS if all(text.strip() for text in pair)]


def lines(path: Path, texts: list[str]) -> Path:
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def aligned(tmp_path: Path) -> Parallel:
    en = lines(tmp_path / "a.en", [en for en, _ in PAIRS])
    fr = lines(tmp_path / "a.fr", [fr for _, fr in PAIRS])
    return Parallel(sides=(("en", str(en)), ("fr", str(fr))))


def read(corpus: Parallel, side: int | None = None) -> list[str]:
    return [piece.text for piece in open_source(corpus, side).read()]


def test_lines_side_by_side_without_those_empty_on_either(aligned: Parallel) -> None:
    assert read(aligned) == ["\n".join(pair) for pair in WHOLE]
    for side in (0, 1):
        assert read(aligned, side) == [pair[side] for pair in WHOLE]


@pytest.mark.parametrize("suffix", [".tsv", ".jsonl"])
def test_columns_side_by_side(tmp_path: Path, suffix: str) -> None:
    rows = ["english\tn\tfrench", *(f"{en}\t1\t{fr}" for en, fr in PAIRS)]
    if suffix == ".jsonl":
        rows = [json.dumps({"english": en, "french": fr}) for en, fr in PAIRS]
    path = str(lines(tmp_path / f"a{suffix}", rows))
    whole = ["\n".join(pair) for pair in WHOLE]
    assert read(Parallel(path=path, sides=(("en", "english"), ("fr", "french")))) == whole


def test_what_cannot_be_pairs_says_what_can(tmp_path: Path, aligned: Parallel) -> None:
    table = str(lines(tmp_path / "a.tsv", ["english\tfrench", "a\tb"]))
    bytes_file, short = tmp_path / "b.en", str(lines(tmp_path / "b.fr", ["un"]))
    bytes_file.write_bytes(b"one\n\xff\n")
    (_, en), (_, fr) = aligned.sides
    for path, sides, message in (
        ("", (("en", en), ("fr", short)), r"a\.en has 6 lines, .*b\.fr has 1"),
        ("", (("en", table), ("fr", en)), r"a\.tsv: a file of columns"),
        (en, (("en", "english"), ("fr", "french")), r"a\.en: text has no columns"),
        (table, (("en", "english"), ("de", "german")), r"a\.tsv:1: no column 'german'"),
        ("", (("en", en), ("fr", str(tmp_path / "c.fr"))), "no file matches"),
        ("", (("en", str(bytes_file)), ("fr", fr)), r"b\.en:2: byte 0xff is not UTF-8"),
    ):
        with pytest.raises((DataError, MissingInputError), match=message):
            read(Parallel(path=path, sides=sides))


LANGUAGES = {"en": 1600, "fr": 400, "sw": 100}


@pytest.fixture
def several(tmp_path: Path) -> dict[str, str]:
    """Text in three languages of very different sizes, and pairs of two directions."""
    found = {}
    for name, count in LANGUAGES.items():
        texts = [f"{name}{n} {name} words\n" for n in range(count)]  # a document a line
        path = lines(tmp_path / f"{name}.txt", texts)
        found[name] = f'files("{path}", language="{name}", sentences=lines)'
    for name, count in (("fr", 300), ("sw", 40)):
        one = lines(tmp_path / f"{name}.en", [f"en{n} en words" for n in range(count)])
        two = lines(tmp_path / f"{name}.{name}", [f"{name}{n} or {name}" for n in range(count)])
        found[f"en-{name}"] = f'pairs(en="{one}", {name}="{two}")'
    return found


SETTINGS = "vocab=wordpiece(300) seq=16 batch=8 holdout=0.1"


def drawn(corpus: PreparedCorpus, steps: int = 300) -> Counter[tuple[str, str]]:
    """How many rows were drawn of each language, or direction."""
    names = (*corpus.resolved.languages, "")
    batch = corpus.stages[0].train(0, steps=steps)
    return Counter((names[one], names[two]) for one, two in batch.languages.tolist())


@pytest.mark.parametrize("exponent", [1, 0.7, 0.5, 0])
def test_sampling_follows_the_power_of_the_share(made, several, exponent):
    data = "+".join(several[name] for name in LANGUAGES)
    corpus = made(SETTINGS, f"smoothing={exponent} steps=1000 format=blocks", data=data)
    tokens = [text.facts["train"]["tokens"] for text in corpus.texts]
    shares = np.array(tokens) / sum(tokens)
    wanted = shares**exponent / (shares**exponent).sum()
    counts = drawn(corpus, -(-corpus.stages[0].examples // 8))
    found = np.array([counts[name, name] for name in LANGUAGES]) / sum(counts.values())
    assert np.abs(found - wanted).max() < 0.015  # quotas are whole rows


def test_pairs_are_smoothed_by_themselves_and_weights_multiply() -> None:
    single = [Files(path="a", language=language) for language in ("en", "en", "fr")]
    pairs = [Parallel(sides=(("en", "a"), (language, "b"))) for language in ("fr", "sw")]
    texts = [*zip((1.0, 2.0, 1.0, 1.0, 1.0), map(CorpusText, (*single, *pairs)), strict=True)]
    tokens = [100, 50, 20, 160, 40]
    assert draw_weights(texts, tokens, 1) == (1, 2, 1, 1, 1)
    even, half = (np.multiply(draw_weights(texts, tokens, part), tokens) for part in (0, 0.5))
    assert np.allclose(even, [55, 55, 110, 100, 100])
    assert np.isclose(half[3] / half[4], 2)
    assert np.isclose((half[0] + half[1]) / half[2], np.sqrt(10))
    # Parts are of rows, and only where there are both.
    assert set_proportions((1, 2, 1), (30, 10, 100), (False, False, True), 0.5) == (1, 2, 0.5)
    assert set_proportions((1, 1), (30, 90), (False, True), 0.25) == pytest.approx((1, 1 / 9))
    for paired in ((False, False), (True, True)):
        assert set_proportions((1, 2), (30, 10), paired, 0.5) == (1, 2)
    assert set_proportions((1, 2), (30, 10), (False, True), 0) == (1, 2)


def test_a_batch_of_one_language_at_a_time(made: Make, several: dict[str, str]) -> None:
    data = "+".join(several.values())
    corpus = made(SETTINGS, "mixing=batches objective=mlm+tlm", data=data)
    stage = corpus.stages[0]
    for step in range(40):
        assert len({tuple(pair) for pair in stage.train(step).languages.tolist()}) == 1
    mixed = made(SETTINGS, "objective=mlm+tlm", data=data)
    assert len({tuple(pair) for pair in mixed.stages[0].train(0).languages.tolist()}) > 1
    # As often as row by row, and any step by itself.
    passes = -(-stage.examples // 8)
    for name, count in drawn(corpus, passes).items():
        assert abs(count - drawn(mixed, passes)[name]) <= 16
    assert np.array_equal(stage.train(3, steps=5).token_ids[16:24], stage.train(5).token_ids)


@pytest.mark.parametrize("mixing", ["rows", "batches"])
def test_a_part_of_what_is_drawn_are_translations(made, several, mixing):
    settings = f"{SETTINGS.replace('batch=8', 'batch=1')} smoothing=0 objective=mlm+tlm"
    corpus = made(settings, f"mixing={mixing}(translations=50%)", data="+".join(several.values()))
    counts = drawn(corpus, corpus.stages[0].examples)
    pairs = sum(count for (one, two), count in counts.items() if one != two)
    assert pairs / sum(counts.values()) == pytest.approx(0.5, abs=0.02)
    assert corpus.vocabulary.unigram.sum() == pytest.approx(1)
    assert np.array_equal(corpus.stages[0].vocabulary.unigram, corpus.vocabulary.unigram)


def test_pairs_are_read_in_both_orders_as_often(made: Make, several: dict[str, str]) -> None:
    settings = (SETTINGS, "objective=mlm+tlm steps=5")
    data = f"{several['en']} + {several['en-fr']}"
    once = made(*settings, data=data).stages[0]
    both = made(*settings, "mixing=rows(both_orders=true)", data=data).stages[0]
    _, one, other = both.train_sources
    assert (one.languages, other.languages) == ((0, 1), (1, 0))
    for mine, its in (("a", "b"), ("a_length", "b_length")):
        first, second = (source.copies[0].opened(0)[1] for source in (one, other))
        assert np.array_equal(first[mine], second[its])
    assert [drawn / both.weights[0] for drawn in both.weights] == pytest.approx([1, 0.5, 0.5])
    assert both.examples == pytest.approx(once.examples, abs=1)
    assert len(both.heldout_sources) == 3


def test_a_translation_stands_as_it_would_alone(made: Make, aligned: Parallel) -> None:
    (_, en), (_, fr) = aligned.sides
    for pack in ("false", "true"):
        corpus = made(
            f"vocab=wordpiece(200) seq=64 batch=4 objective=tlm pack={pack} steps=5",
            data=f'pairs(en="{en}", fr="{fr}")',
        )
        vocabulary, batch = corpus.vocabulary, corpus.stages[0].train(0)
        assert batch.languages.tolist() == [[0, 1]] * 4
        for row in range(4):
            starts = [s for s in batch.starts[row].tolist() if s < 64]
            for start, end in zip(starts, [*starts[1:], int(batch.lengths[row])], strict=True):
                ids, segments = batch.token_ids[row, start:end], batch.segment_ids[row, start:end]
                (second,) = np.flatnonzero(ids == vocabulary.cls)[1:]
                assert ids[0] == vocabulary.cls
                assert ids[second - 1] == ids[-1] == vocabulary.sep
                assert segments.tolist() == [int(at >= second) for at in range(len(ids))]
                words = [vocabulary.tokenizer.decode(i) for i in (ids[:second], ids[second:])]
                assert tuple(words) in [tuple(t.replace("'", " ' ") for t in p) for p in WHOLE]


def test_long_translations_are_cut_at_the_end_of_the_longer(made: Make, tmp_path: Path) -> None:
    one, two = (
        lines(tmp_path / f"a.{name}", [" ".join(f"w{n}" for n in range(k)) for k in lengths])
        for name, lengths in (("en", (3, 30, 30, 9)), ("fr", (4, 4, 30, 9)))
    )
    settings = "vocab=wordpiece(500) seq=16 batch=4 objective=tlm steps=5 holdout=0.01"
    stage = made(settings, data=f'pairs(en="{one}", fr="{two}")').stages[0]
    batch = stage.train(0, steps=3)
    assert (batch.lengths <= 16).all()
    assert stage.lost > 0
    assert (batch.token_ids[:, :3] == batch.token_ids[0, :3]).all()


def test_pairs_without_tlm_are_texts_of_one_language(program: Callable[..., Resolved]) -> None:
    pairs = 'pairs(en="a.en", fr="a.fr")'
    both = f'{pairs}+files("a.txt", language="de")'
    for objective, data, expected in (
        ("mlm", both, [0, 1, "alone"]), ("mlm+tlm", both, [None, "alone"]),
        ("mlm+tlm", pairs, [None, 0, 1]), ("tlm", pairs, [None]),
    ):  # fmt: skip
        texts = texts_of(program(f"objective={objective} data={data}").stages[0])
        sides = [text.side if isinstance(text.corpus, Parallel) else "alone" for _, text in texts]
        assert sides == expected


def test_a_pair_and_its_sides_are_held_out_together(made: Make, several: dict[str, str]) -> None:
    corpus = made(SETTINGS, "objective=mlm+tlm", data=several["en-fr"])
    pairs, english, _ = corpus.stages[0].heldout_sources
    ids, rows = pairs.copies[0].opened(0)
    held = [tuple(ids[row["a"] : row["a"] + row["a_length"]]) for row in rows]
    alone = english.copies[0].opened(0)[0].tolist()
    assert held
    assert [t for row in held for t in (*row, corpus.vocabulary.sep)] == alone


def test_held_out_batches_are_of_one_language_and_leave_none_out(made, several):
    stage = made(SETTINGS, "objective=mlm+tlm", data="+".join(several.values())).stages[0]
    met: Counter[tuple[int, int]] = Counter()
    sizes = range(1, 5)
    for batch in stage.heldout(sizes, 20):
        assert batch.token_ids.shape == (4, 16)
        ((one, two),) = {tuple(pair) for pair in batch.languages.tolist()}
        met[one, two] += 1
    assert len(met) == 5
    assert sum(met.values()) <= 10
    assert stage.heldout_rows(sizes, 20) == sum(met.values()) * 4


def test_the_text_of_a_vocabulary_is_smoothed(several: dict[str, str], tmp_path: Path) -> None:
    sources = [
        (name, open_source(Files(path=str(tmp_path / f"{name}.txt"), sentences="lines")))
        for name in LANGUAGES
    ]
    shares = []
    for exponent in (1.0, 0.5, 0.0):
        texts = sample(sources, Silent(), exponent)
        shares.append([sum(name in text for text in texts) for name in LANGUAGES])
    assert shares[0] == [1600, 400, 100]
    assert shares[1] == [pytest.approx(400, abs=59), pytest.approx(200, abs=39), 100]
    assert shares[2] == [pytest.approx(105, abs=34), pytest.approx(105, abs=34), 100]


def test_chinese_characters_are_words_and_cased_text_keeps_its_accents() -> None:
    texts = ["Œuvre d'Été 鸡鸭和鹅 Hühner"] * 9
    for lower in (True, False):
        tokenizer = learn(WordPiece(size=200, lower=lower), texts)
        normal = tokenizer.normalizer.normalize_str("鸡鸭 Été")
        assert normal.split() == ["鸡", "鸭", "ete" if lower else "Été"]
        known = bert_tokenizer([*BERT_SPECIALS, "鸡", "鸭", "ete", "Été"], lower)
        assert known.encode("鸡鸭Été", add_special_tokens=False).tokens == normal.split()


def test_a_language_that_is_not_named_comes_last(made, several, farm, tmp_path):
    corpus = made(SETTINGS, data=f'{several["sw"]} + "{farm}"')
    assert corpus.resolved.languages == ("sw",)
    assert set(drawn(corpus)) == {("sw", "sw"), ("", "")}
    assert Share(corpus=Files(path=str(farm))) in corpus.resolved.stages[0].data
    assert prepare(corpus.resolved, tmp_path, Silent()).fingerprint == corpus.fingerprint
