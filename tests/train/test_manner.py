"""Held-out text read in other manners than in training."""

import math

import pytest

from bertc.diagnostics import UsageError
from bertc.evaluation.options import Manner
from bertc.inference.evaluate import evaluate_run
from bertc.ir.data import Files, Share
from bertc.ir.learning.objective import Clm, Term
from bertc.ir.learning.optimizer import Adam
from bertc.ir.network.attention import RelativeAttention
from bertc.ir.vocabulary import Bytes
from bertc.train.loop import train


@pytest.fixture
def read(tiny, tmp_path, corpus_file):
    """Train a small run with a memory, and evaluate it in some manner."""
    whole = Share(corpus=Files(path=str(corpus_file), sentences="whole"))
    resolved = tiny(
        objective=(Term(objective=Clm()),), attention=RelativeAttention(), memory=24,
        vocab=Bytes(), data=(whole,), steps=30, eval_every=30, optimizer=Adam(lr=3e-3),
        holdout=0.1, batch=4, eval_examples=1000,
    )  # fmt: skip
    first = train(resolved, tmp_path / "run", cache=tmp_path / "cache", quiet=True)

    def evaluate(**manner):
        return evaluate_run(
            tmp_path / "run", Manner(**manner), cache=tmp_path / "cache", quiet=True
        )

    evaluate.first = first
    return evaluate


def test_manners(read):
    assert read().evaluation.losses == read.first.evaluation.losses
    assert f"perplexity {math.exp(read().evaluation.loss):,.2f}" in read().summary()
    # Everything remembered: the length of pieces makes no difference.
    one, other = (read(seq=seq, memory=1000).evaluation for seq in (16, 50))
    assert one.loss == pytest.approx(other.loss, abs=1e-5)
    assert read(seq=8, memory=40, same_length=True, clamp=20).evaluation.loss > 0
    assert read(memory=0).evaluation.loss != read().evaluation.loss
    assert read().notes == ("read as a stream in rows of 24 tokens, with a memory of 24 tokens",)
    assert "rows of 50 tokens, without memory" in read(seq=50, memory=0).summary()


def test_a_window_slides_over_the_text(read):
    found = read(sliding=20, examples=50).evaluation
    assert found.examples == 50
    assert found.unigram_losses == {"clm": found.unigram_loss}
    assert 2 < found.unigram_loss < 6
    # One row, read token by token with all there is remembered, sees no less and scores alike.
    assert found.loss == pytest.approx(read(seq=20, memory=1000).evaluation.loss, abs=0.4)
    with pytest.raises(UsageError, match="no token has"):
        read(sliding=100_000)


@pytest.mark.parametrize("manner", [{"same_length": True, "memory": 0}])
def test_what_cannot_be_read_so_is_refused(read, manner):
    with pytest.raises(UsageError, match="needs a memory"):
        read(**manner)
