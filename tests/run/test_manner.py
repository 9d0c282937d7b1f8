"""Held-out text read in other manners than in training."""

import math

import pytest

from bertc.base.diagnostics import UsageError
from bertc.ir.data import Files, Share
from bertc.ir.learning.objective import Clm, Nsp, Sop, Term
from bertc.ir.learning.optimizer import Adam
from bertc.ir.network.attention import RelativeAttention
from bertc.ir.vocabulary import Bytes
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.evaluation.manner import Manner
from bertc.run.train.loop import train


@pytest.fixture(scope="module")
def read(tiny, tmp_path_factory, corpus_file, cache):
    """Train a small run with a memory, and evaluate it in some manner."""
    whole = Share(corpus=Files(path=str(corpus_file), sentences="whole"))
    resolved = tiny(
        objective=(Term(objective=Clm()),), attention=RelativeAttention(), memory=24,
        vocab=Bytes(), data=(whole,), steps=30, eval_every=30, optimizer=Adam(lr=3e-3),
        holdout=0.1, batch=4, eval_examples=1000,
    )  # fmt: skip
    run = tmp_path_factory.mktemp("read") / "run"
    first = train(resolved, run, cache=cache, quiet=True)

    def evaluate(**manner):
        return evaluate_run(run, Manner(**manner), cache=cache, quiet=True)

    evaluate.first = first
    return evaluate


def test_manners(read):
    report, without = read(), read(seq=50, memory=0)
    assert report.evaluation.losses == read.first.evaluation.losses
    assert f"perplexity {math.exp(report.evaluation.loss):,.2f}" in report.summary()
    assert report.notes == ("read as a stream in rows of 24 tokens, with a memory of 24 tokens",)
    # Everything remembered: the length of pieces makes no difference.
    one, other = (read(seq=seq, memory=1000).evaluation for seq in (16, 50))
    assert one.loss == pytest.approx(other.loss, abs=1e-5)
    assert read(seq=8, memory=40, same_length=True, clamp=20).evaluation.loss > 0
    assert without.evaluation.loss != report.evaluation.loss
    assert "rows of 50 tokens, without memory" in without.summary()
    with pytest.raises(UsageError, match="needs a memory"):
        read(same_length=True, memory=0)


def test_a_window_slides_over_the_text(read):
    found = read(sliding=20, examples=50).evaluation
    assert found.examples == 50
    assert found.unigram_losses == {"clm": found.unigram_loss}
    assert 2 < found.unigram_loss < 6
    # One row, read token by token with all there is remembered, sees no less and scores alike.
    assert found.loss == pytest.approx(read(seq=20, memory=1000).evaluation.loss, abs=0.4)
    with pytest.raises(UsageError, match="no token has"):
        read(sliding=100_000)
    # Windows of a stride predict the same tokens, the last of each from as many before it.
    strided = read(sliding=24, stride=5, examples=46)
    assert strided.evaluation.examples == strided.reading.tokens == 46
    assert strided.evaluation.unigram_loss == read(sliding=24, examples=46).evaluation.unigram_loss
    assert "from the 20 to 24 tokens" in strided.summary()
    with pytest.raises(UsageError, match="windows at least as long") as refused:
        read(sliding=4, stride=5)
    assert "--sliding 10 --stride 5" in refused.value.help


def test_other_text_is_read_whole(read, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("Der Hahn kräht früh.\n\nEin Hund schläft — lange.")
    found = read(data=str(other))
    text = other.read_text()
    # Each byte but the first is a token, and there is a separator at the end.
    assert found.reading.tokens == len(text.encode())
    assert found.evaluation.characters == len(text) - 1
    bits = found.evaluation.loss / math.log(2)
    assert found.reading.bits_per_token == bits
    assert found.reading.bits_per_character == bits * len(text.encode()) / (len(text) - 1)
    assert "bits a character" in found.summary()
    written = f"files('{other}', sentences=whole)"
    assert read(data=written).evaluation.losses == found.evaluation.losses
    with pytest.raises(UsageError, match="knows no language sw"):
        read(data=f"files('{other}', language='sw')")
    with pytest.raises(UsageError, match="has no head for mlm"):
        read(objective="mlm")


@pytest.mark.parametrize("learned", ["sop", "nsp"])
def test_a_run_answers_the_question_that_it_did_not_learn(tiny, tmp_path, learned, cache):
    terms = {"nsp": Term(objective=Nsp()), "sop": Term(objective=Sop())}
    run = tmp_path / "run"
    trained = train(tiny(objective=(terms[learned],), steps=2), run, cache=cache, quiet=True)
    other = {"nsp": "sop", "sop": "nsp"}[learned]

    def ask(objective):
        return evaluate_run(run, Manner(objective=objective), cache=cache, quiet=True).evaluation

    assert ask(learned).losses == trained.evaluation.losses
    assert [*ask(other).losses] == [other]
    with pytest.raises(UsageError, match="makes pairs in 2 ways"):
        ask("nsp+sop")
    with pytest.raises(UsageError, match="has no head for sbo") as refused:
        ask("sbo")
    assert f'init="{run}" objective=sbo' in refused.value.help
