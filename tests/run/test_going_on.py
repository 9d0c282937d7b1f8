"""A run that goes on from a checkpoint of another, weights and moments: a decay of its own."""

import pytest

from bertc.base.diagnostics import DataError, MissingInputError, StoppedError
from bertc.check.facts.networks import begun_from, taken
from bertc.ir.changing.growth import FromRun
from bertc.ir.learning.optimizer import ConstantRate, Muon, StableAdam, WarmupStableDecay
from bertc.ir.program.written import Given, Origin
from bertc.ir.vocabulary import WordPiece
from tests.run.conftest import stop_after

DECAY = WarmupStableDecay(decay=4, end=0.1)


def decaying(tiny, run, **settings):
    """Four steps of decay from step 8 of a run, as ``api`` resolves them: facts are looked up."""
    init = FromRun(path=str(run), step=8, moments="carry")
    init = taken(Given(init, Origin("written")), {}, {})[0].value
    optimizer = StableAdam(lr=1e-3, warmup=0, schedule=WarmupStableDecay(decay=1.0, end=0.1))
    return tiny(steps=4, optimizer=optimizer, init=init, **settings)


def test_a_decay_from_a_stable_run_is_that_of_the_run_itself(
    tiny, go, tmp_path, final_tensors, monkeypatch
):
    """To the bit, with dropout: a decay begun at a kept checkpoint, and resumed within."""
    own = {"save_every": 4, "eval_every": 100, "keep": "all"}
    stable = StableAdam(lr=1e-3, warmup=2, schedule=ConstantRate())
    whole = StableAdam(lr=1e-3, warmup=2, schedule=DECAY)
    go(tiny(steps=12, optimizer=whole, **own), "whole")
    go(tiny(steps=10, optimizer=stable, **own), "stable")
    steps = sorted(path.name for path in (tmp_path / "stable" / "checkpoints").iterdir())
    assert steps == ["step-00000004", "step-00000008", "step-00000010"]
    decay = decaying(tiny, tmp_path / "stable", **own)
    assert (decay.run.init.updates, decay.run.init.rows) == (8, 64)
    with pytest.raises(StoppedError):
        stop_after(monkeypatch, 2, lambda: go(decay, "decay"))
    go(decay, "decay", resume=True)
    one, other = final_tensors(tmp_path / "whole"), final_tensors(tmp_path / "decay")
    assert [name for name in one if not one[name].equal(other[name])] == []


def test_a_rule_that_keeps_other_moments_does_not_go_on_with_these(tiny, go, tmp_path):
    go(tiny(steps=2), "run")
    init = FromRun(path=str(tmp_path / "run"), step=2, moments="carry")
    with pytest.raises(DataError, match="was trained by adamw, which keeps two moments") as refused:
        go(tiny(steps=2, init=init, optimizer=Muon(lr=1e-3)), "again")
    assert refused.value.help == "moments=reset, or optimizer=adamw"
    init = init.model_copy(update={"moments": "reset"})
    go(tiny(steps=2, init=init, optimizer=Muon(lr=1e-3)), "again")


def test_weights_alone_of_a_step_begin_with_a_new_optimiser(tiny, go, tmp_path):
    go(tiny(steps=4, save_every=2, keep="all"), "run")
    go(tiny(steps=2, init=FromRun(path=str(tmp_path / "run"), step=2)), "again")
    with pytest.raises(MissingInputError, match="no checkpoint of step 3") as missing:
        go(tiny(steps=2, init=FromRun(path=str(tmp_path / "run"), step=3)), "never")
    assert missing.value.help == "name one of steps 2, 4"
    begun_from(tiny(steps=2, init=FromRun(path=str(tmp_path / "run"), step=2)))
    with pytest.raises(DataError, match="do not fit") as refused:
        begun_from(tiny(vocab=WordPiece(size=130), init=FromRun(path=str(tmp_path / "run"))))
    assert refused.value.help.startswith("leave vocab out, init has its own")
    with pytest.raises(MissingInputError, match="no checkpoint of step 3"):  # by check too
        begun_from(tiny(steps=2, init=FromRun(path=str(tmp_path / "run"), step=3)))
