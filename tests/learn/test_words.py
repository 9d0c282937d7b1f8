"""Words of three kinds of tokenizers, and masking by whole words."""

import pytest
import torch
from scipy import stats

from bertc.learn.objectives import Inputs, VocabTensors
from bertc.learn.objectives.words import Text, Words, find_words, next_stop, read_text
from tests.learn import references
from tests.learn.material import CONTINUES, chosen, corrupted, rows, vocab
from tests.learn.samples import draw_order, sample

SPECIALS = ["<pad>", "<unk>", "<cls>", "<sep>", "<mask>"]

# The same text three times: the pieces, and how each tokenizer writes that a word begins.
WORDPIECE = "<cls> play ##ing chess <sep> ##s well ##known . <sep> <pad>"
BYTE_BPE = "<cls> play ing Ġchess <sep> s Ġwell known . <sep> <pad>"
SENTENCEPIECE = "<cls> ▁play ing ▁chess <sep> s ▁well known . <sep> <pad>"


def spell(pieces: list[str], starts: set[str]) -> tuple[Text, Words]:
    """Words of one row in a vocabulary of just its pieces."""
    vocabulary = [*SPECIALS, *sorted(set(pieces) - set(SPECIALS))]
    known = VocabTensors(
        size=len(vocabulary), pad=0, cls=2, sep=3, mask=4,
        word_start=torch.tensor([piece in starts for piece in vocabulary]),
        special=torch.tensor([piece in SPECIALS for piece in vocabulary]),
        unigram_cdf=torch.linspace(0, 1, len(vocabulary)),
        frequency=torch.ones(len(vocabulary)).double(),
    )  # fmt: skip
    ids = torch.tensor([[vocabulary.index(piece) for piece in pieces]])
    real = torch.tensor([[piece != "<pad>" for piece in pieces]])
    text = read_text(ids, real, known, specials=False)
    return text, find_words(ids, text, known)


@pytest.mark.parametrize(
    ("pieces", "starts"),
    [
        (WORDPIECE, {"play", "chess", "well", "."}),
        (BYTE_BPE, {"Ġchess", "Ġwell", "."}),
        (SENTENCEPIECE, {"▁play", "▁chess", "▁well", "."}),
    ],
    ids=["wordpiece", "byte-bpe", "sentencepiece"],
)
def test_words_of_three_kinds_of_tokenizers(pieces: str, starts: set[str]) -> None:
    text, words = spell(pieces.split(), starts)
    # What follows a special token begins a word, whatever its mark; specials stand alone.
    assert words.number[0].tolist() == [1, 2, 2, 3, 4, 5, 6, 6, 7, 8, 9]
    assert words.begin[0, 1:].tolist() == [0, 1, 3, 4, 5, 6, 8, 9, 10, 11, 11, 11]
    assert words.heads[0].nonzero()[:, 0].tolist() == [1, 3, 5, 6, 8]
    assert next_stop(text)[0].tolist() == [0, 4, 4, 4, 4, 9, 9, 9, 9, 9, 10]


def test_words_agree_with_a_loop() -> None:
    inputs, known = rows(100, 40), vocab()
    case = sample(inputs, 0.15, known)
    for row, words in enumerate(case.words_of_row):
        heads = case.words.heads[row].nonzero()[:, 0].tolist()
        assert heads == [begin for begin, _ in words]
        ends = case.words.begin[row].gather(0, case.words.number[row, heads] + 1).tolist()
        assert ends == [end for _, end in words]


@pytest.mark.parametrize("p", [0.15, 0.4])
def test_words_are_taken_in_random_order_while_they_fit(p: float) -> None:
    case = sample(rows(400, 48), p, vocab())
    marks = case.whole_words()
    for row, words in enumerate(case.words_of_row):
        wanted = references.whole_words(words, draw_order(case, row), case.budget[row])
        assert set(marks[row].nonzero()[:, 0].tolist()) == wanted


def whole(inputs: Inputs, marks: torch.Tensor, known: VocabTensors) -> bool:
    """Whether every word is marked as a whole or not at all."""
    case = sample(inputs, 0.15, known)
    return all(
        len({bool(marks[row, token]) for token in range(begin, end)}) == 1
        for row, words in enumerate(case.words_of_row)
        for begin, end in words
    )


@pytest.mark.parametrize("unit", ["word", "ngram(3)"])
@pytest.mark.parametrize("continues", [CONTINUES, 300])
def test_words_are_never_split(unit: str, continues: int) -> None:
    inputs, known = rows(200, 48), vocab(continues)
    assert whole(inputs, chosen(corrupted(f"mlm(unit={unit})", inputs, known)), known)


def test_every_word_is_equally_likely() -> None:
    inputs, known = rows(1, 24, full=True), vocab()
    many = Inputs(*(part.expand(5000, *part.shape[1:]).contiguous() for part in inputs))
    many = many._replace(example_ids=torch.arange(5000))
    marks = chosen(corrupted("mlm(unit=word, p=8%)", many, known)).sum(0)
    singles = [b for b, e in sample(inputs, 0.15, known).words_of_row[0] if e == b + 1]
    assert len(singles) > 5
    assert stats.chisquare(marks[singles].numpy()).pvalue > 1e-4
