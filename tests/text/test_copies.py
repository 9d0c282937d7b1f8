"""Examples that are made: changed copies by their address, and hard negatives by a search."""

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest

from bertc.base.diagnostics import DataError
from bertc.ir.learning.augmentation import UNCHANGED, Augmentation, EditedCopies, ReplacedCopies
from bertc.ir.learning.vector_task import Mined
from bertc.tasks.examples.copies import Copier, edit, replaceable, replaced, split_text
from bertc.tasks.examples.mined import mined
from bertc.tasks.layouts.example import TextExample
from bertc.text.cache.store import Silent
from bertc.text.vocab.token_rows import nearest_words, read_vectors
from tests.text.test_prepare import Notes

SENTENCE = "The old hens, sadly, don't sit in the barn."
MASK = "[MASK]"


class Toy:
    """Networks that say what may stand for short words."""

    def __init__(self, weights: str = "a") -> None:
        self.weights, self.asked = weights, 0

    def digest(self, folder: str) -> str:
        return f"{folder} {self.weights}"

    def candidates(self, folder, texts, places, number, progress):
        self.asked += 1
        for text, of_text in zip(texts, places, strict=True):
            yield {at: ("geese", "ducks")[:number] for at in of_text if len(text.words[at]) < 5}


def copier(cache: Path, networks: Toy | None = None) -> Copier:
    return Copier(cache, networks or Toy(), MASK, Silent())


def examples(count: int = 20, pair: bool = False) -> list[TextExample]:
    texts = [f"the {n} old hens sit in a barn near the red gate" for n in range(count)]
    return [
        TextExample(f"{n}", (text, f"{n} hens sat")[: 2 if pair else 1], "yes")
        for n, text in enumerate(texts)
    ]


def test_words_keep_the_spaces_between_them() -> None:
    text = split_text(SENTENCE)
    assert text.words[2:6] == ("hens", ",", "sadly", ",")
    assert "don't" in text.words
    assert text.with_words(text.words, 0, len(text.words), MASK) == SENTENCE
    masked = [MASK if word == "hens" else word for word in text.words]
    assert text.with_words(masked, 0, 5, MASK) == "The old[MASK], sadly"


def test_words_are_masked_and_an_ngram_is_a_run_of_one_to_five() -> None:
    text, node = split_text("a bb ccc " * 3), EditedCopies(mask=0.2, ngram=0)
    copies = [edit(node, text, MASK, Random(seed)) for seed in range(4000)]
    words = [word for copy in copies for word in copy.replace(MASK, f" {MASK}").split()]
    assert len(words) == len(text.words) * 4000
    assert words.count(MASK) / len(words) == pytest.approx(0.2, abs=0.01)
    text, node = split_text("a b c d e f g h"), EditedCopies(mask=0, ngram=0.25)
    copies = [edit(node, text, MASK, Random(seed)) for seed in range(4000)]
    short = [copy for copy in copies if copy != text.text]
    assert len(short) == pytest.approx(1000, abs=100)
    assert all(copy in text.text for copy in short)
    lengths = Counter(len(copy.split()) for copy in short)
    assert sorted(lengths) == [1, 2, 3, 4, 5]
    assert min(lengths.values()) > 140
    assert edit(node, split_text(""), MASK, Random(1)) == ""


def test_words_with_a_meaning_are_replaced() -> None:
    text = split_text("the hens sit in 3 barns")
    assert [text.words[at] for at in replaceable(text)] == ["hens", "sit", "barns"]
    candidates = {1: ("geese",), 5: ("sheds", "coops")}
    copies = Counter(replaced(text, candidates, 0.4, Random(seed)) for seed in range(2000))
    assert copies["the hens sit in 3 barns"] == pytest.approx(2000 * 0.36, rel=0.1)
    assert copies["the geese sit in 3 coops"] == pytest.approx(2000 * 0.08, rel=0.3)


def test_copies_are_a_function_of_their_address(tmp_path: Path) -> None:
    source = (Augmentation(weight=3, copies=EditedCopies()),)
    added = copier(tmp_path / "a").copies("x", examples(), source)
    assert added == copier(tmp_path / "b").copies("x", examples(), source)
    more = source[0].model_copy(update={"weight": 5.0})
    longer = copier(tmp_path / "b").copies("x", examples(), (more,))
    assert {each.texts for each in added} < {each.texts for each in longer}
    other = Augmentation(weight=3, copies=EditedCopies(seed=1))
    assert copier(tmp_path / "a").copies("x", examples(), (other,)) != added
    assert {each.answer for each in added} == {"yes"}
    assert copier(tmp_path).copies("x", examples(), UNCHANGED) == []
    # They are made once, and again with other weights.
    source, networks, changed = (Augmentation(copies=ReplacedCopies(model="t")),), Toy(), Toy("b")
    for network in (networks, networks, changed, changed):
        copier(tmp_path, network).copies("x", examples(), source)
    assert (networks.asked, changed.asked) == (1, 1)


def test_a_share_of_the_examples_and_of_pairs_each_text_in_turn(tmp_path: Path) -> None:
    source = Augmentation(weight=6, copies=EditedCopies(mask=1, ngram=0, share=0.5))
    added = copier(tmp_path).copies("x", examples(20, pair=True), (source,))
    assert len({copy.key.split(",")[0] for copy in added}) == 10
    turns = Counter(tuple(MASK in text for text in each.texts) for each in added)
    # Copies of all masks repeat each other, so one of each sort is left of an example.
    assert turns == {(True, False): 10, (False, True): 10, (True, True): 10}


def test_candidates_of_several_pieces_come_from_vectors_of_both_formats(tmp_path: Path) -> None:
    file = tmp_path / "v.txt"
    file.write_text("barns 1 0\nsheds 0.9 0.1\nponds 0 1\nmills 0.8 -0.2\n")
    node = ReplacedCopies(model="m", vectors=str(file), probability=1, candidates=1)
    text = [TextExample("1", ("old barns",), None)]
    added = copier(tmp_path).copies("x", text, (Augmentation(copies=node),))
    assert [each.texts for each in added] == [("geese sheds",)]
    lines = "the 0.5 -1 2e-1\n. . . 1 2 3\nhens 1 0 1\nthe 9 9 9\n"
    for content in ("4 3\n" + lines.replace("\n", " \n"), lines):  # of word2vec, and of GloVe
        file.write_text(content)
        words, vectors = found = read_vectors(str(file), Silent())
        assert words == ("the", ". . .", "hens")
        assert np.allclose(vectors, [[0.5, -1, 0.2], [1, 2, 3], [1, 0, 1]])
    assert read_vectors(str(file), Silent(), {"hens", "geese"})[0] == ("hens",)
    assert read_vectors(str(file), Silent(), most=1)[0] == ("the",)
    assert nearest_words(found, {"the", "geese"}, 1) == {"the": ("hens",)}


@pytest.mark.parametrize(("lines", "message"), [
    ("the 1 2\nhens 1\n", ":2: 1 numbers, not 2 as before"),
    ("the 1 2\nhens 1 2 3\n", ":2: 3 numbers, not 2 as before"),
    ("the 1 2\nhens 1 x\n", ":2: not all of it after the word are numbers"),
    ("the 1 2\nhens 1 nan\n", ":2: not all of it"),
    ("the\n", ":1: 0 numbers"),
    ("", ":1: no vectors in it"),
])  # fmt: skip
def test_a_broken_line_of_vectors_is_named(lines: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text(lines)
    pytest.raises(DataError, read_vectors, str(tmp_path / "v.txt"), Silent()).match(message)


# Angles of texts: the cosine of two is that of their difference.
ANGLES = {"q": 0.0, "near": 5, "p": 10, "p2": 12, "a": 14, "b": 30, "c": 50, "d": 90, "r": 95}
PAIRS = [("q", "p"), ("Q ", "p2"), *((f"{t} asked", t) for t in ("near", "a", "b", "c", "d"))]


class Angles:
    calls = 0

    def digest(self, folder):
        return folder

    def likeness(self, folder, queries, passages, progress):
        self.calls += 1
        asked, found = (
            np.deg2rad([ANGLES[text.split()[0].lower()] for text in texts])
            for texts in (queries, passages)
        )
        yield from np.split(np.cos(asked[:, None] - found).astype(np.float32), [3])


TAKEN = {
    # The positive has a cosine of .985, so texts above .965 are false negatives: near, and a.
    "limit": ({"margin": 0.98, "number": 2}, ("b", "c")),
    "no limit": ({"margin": 1, "number": 2}, ("a", "b")),
    "ranks": ({"margin": 1, "skip": 2, "top": 4, "number": 2}, ("b", "c")),
}


@pytest.mark.parametrize("name", TAKEN)
def test_negatives_are_the_nearest_that_are_not_too_near(name, tmp_path):
    arguments, expected = TAKEN[name]
    networks, node = Angles(), Mined(run="r", **arguments)
    found, again = (mined(node, "e", PAIRS, networks, tmp_path, Silent()) for _ in range(2))
    assert found[0] == expected, "neither the positive nor another one of the same query"
    assert (again, networks.calls) == (found, 1), "mined once, and read from the cache"


def test_random_passages_fill_up_and_repeated_ones_are_one(tmp_path):
    progress, node = Notes(), Mined(run="r", margin=0.5, number=4)
    found = mined(node, "e", [*PAIRS, ("q", "P  ")], Angles(), tmp_path, progress)
    assert all(len({*row, "p"}) == 5 for row in (found[0], found[-1]))
    assert found[0][0] == "d", "the one at less than half of the positive's cosine"
    assert "of the negatives are random" in progress.notes[0]
    with pytest.raises(DataError, match="too few to take 6 negatives"):
        mined(Mined(run="r", number=6), "e", PAIRS, Angles(), tmp_path, Silent())
