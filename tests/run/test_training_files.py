"""Programs as files of PyTorch that train: their losses are those of ``bertc train``."""

import json
import re

import pytest

from bertc.api import resolve
from bertc.base.diagnostics import UsageError
from bertc.ir.program.model import model_weights
from bertc.run.train.loop import train
from bertc.use.source.checking import run_source
from bertc.use.source.step import loop
from bertc.use.source.step.files import write_training

TINY = (
    "layers=1 hidden=16 heads=2 seq=24 batch=4 steps=5 vocab=wordpiece(120) precision=fp32 "
    "dropout=0 holdout=0.2 eval_examples=4 log_every=1 microbatch=4"
)
PROGRAMS = (
    "objective=mlm(unit=word)+0.5*sop share=all E=8 optimizer=lamb(lr=1e-2, warmup=2)",
    "objective=50*rtd+mlm(replace=100/0/0, distinct=false) generator=0.5 "
    "optimizer=adamw(lr=1e-2, bias_correction=false, schedule=cosine)",
    "objective=clm norm=pre optimizer=stable-adamw(lr=1e-2, schedule=wsd(40%))",
    "objective=span+sbo pack=true format=single-segment optimizer=adam(lr=1e-2)",
)


@pytest.mark.parametrize("settings", PROGRAMS)
def test_a_file_trains_with_the_losses_of_a_run(
    settings, corpus_file, tmp_path, cache, capsys, monkeypatch
):
    monkeypatch.setattr(loop, "TOKENS_AT_ONCE", 48)
    resolved = resolve(f'{TINY} {settings} data=files("{corpus_file}", sentences=lines)')
    lines, steps = write_training(resolved, "", tmp_path / "train.py", cache)
    source = (tmp_path / "train.py").read_text()
    assert (lines, steps) == (len(source.splitlines()), 5)
    assert len(source[source.index("# Stage main") :].splitlines()) <= 250
    assert max(map(len, source.splitlines())) <= 100
    train(resolved, tmp_path / "run", cache=cache, quiet=True)
    capsys.readouterr()
    trained = run_source(source)["train"](tmp_path / "train.rows.safetensors")
    assert {*trained.state_dict()} == {weight.name for weight in model_weights(resolved)}
    printed = re.findall(r"^\d+ loss (\S+)", capsys.readouterr().out, re.MULTILINE)
    metrics = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    expected = [line["loss"] for line in metrics if "grad_norm" in line]
    assert list(map(float, printed)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ("objective=plm", "an order of predictions (plm)"),
        ("optimizer=muon", "the optimiser muon, or rates by layer"),
        ("average=ema(2)", "an average of weights"),
        ("objective=5*kd(logits)+mlm teacher=spec('bert-tiny')", "a teacher"),
    ],
)
def test_a_training_that_a_file_cannot_hold_is_refused(settings, what, tmp_path):
    with pytest.raises(UsageError, match=re.escape(f"a file cannot hold {what}")):
        write_training(resolve(f"layers=1 hidden=64 {settings}"), "", tmp_path / "train.py")
