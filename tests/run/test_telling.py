"""What a run says before its first step, and what to try where it cannot make one."""

from bertc.cost import estimate
from bertc.learn.step.non_finite import what_to_try
from bertc.run.train import opening
from bertc.run.train.loop import train


def test_a_run_that_takes_long_says_so(tiny, tmp_path, monkeypatch, capsys):
    resolved, cache = tiny(steps=2), tmp_path / "cache"
    train(resolved, tmp_path / "short", cache=cache)
    assert "estimated to take" not in capsys.readouterr().err
    monkeypatch.setattr(opening, "SHORTEST_FORECAST_SECONDS", 0)
    train(resolved, tmp_path / "long", cache=cache)
    expected = estimate(resolved, "cpu").time.total_text
    told = f"2 steps are estimated to take {expected} on cpu"
    assert told in capsys.readouterr().err


def test_advice_fits_the_moment():
    """At first there is no checkpoint, and no rate that was too high."""
    assert "checkpoints" in what_to_try(5)
    assert "learning rate" in what_to_try(5)
    first = what_to_try(0)
    assert "checkpoint" not in first
    assert "precision=fp32" in first
    assert "compile=off" in first
