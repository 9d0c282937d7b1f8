"""``python -m tests.bench.gpu``: its parts run through at toy size, and keep what they find.

``speed`` loads transformers and is run by hand (docs/measured.md).
"""

import json
import sys
from dataclasses import replace
from functools import partial
from subprocess import CompletedProcess

import pytest
import torch

from bertc.api import resolve
from bertc.cost import Device, estimate
from bertc.run.train import finish
from tests.bench.gpu import __main__ as command
from tests.bench.gpu import agreement, memory, speed, truth
from tests.bench.gpu.results import Results, read, table, untrue
from tests.bench.gpu.setting import Setting

HERE = Setting(torch.device("cpu"), tiny=True)
PARTS = {"truth": truth, "agreement": agreement, "memory": memory}
pytestmark = pytest.mark.filterwarnings("ignore")  # The compiler's and the profiler's own.


@pytest.mark.parametrize("part", PARTS)
def test_a_part_runs_through(part, tmp_path, monkeypatch):
    # By hand it is Inductor, whose kernels tests/run/test_compiled.py holds.
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    monkeypatch.setattr(finish, "plot", lambda lines, path: path.touch())
    PARTS[part].run(HERE, Results(part, tmp_path))
    found = read(tmp_path, part)
    assert len(found) > 1
    assert untrue(found) == []
    assert part in table(tmp_path, (part,))


def test_what_was_measured_stays_where_a_part_breaks_off(tmp_path):
    results = Results("truth", tmp_path)
    results.check("one", True, share=0.1)
    results.check("two", False)
    results.measure("three", lambda: {}["no kernel"])
    results.cut(570)
    found = read(tmp_path, "truth")
    assert found["one"] == {"ok": True, "share": 0.1}
    assert untrue(found) == ["two", "three"]
    assert list(found) == ["one", "two", "three", "cut"]
    again = Results("truth", tmp_path)  # goes on
    again.measure("one", lambda: again.put("one", a=1))
    again.measure("four", lambda: again.put("four", a=1))
    assert list(read(tmp_path, "truth")) == ["one", "two", "three", "four"]
    assert "share" in read(tmp_path, "truth")["one"]
    assert "one" not in Results("truth", tmp_path).found  # begins anew


def run_command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["gpu", "--device", "cpu", "--tiny", *arguments])
    return command.main()


def test_what_is_wrong_ends_the_hour(monkeypatch, capsys, tmp_path):
    began: list[str] = []

    def part(line: list[str], check: bool) -> CompletedProcess[str]:
        began.append(line[line.index("--part") + 1])
        Results(began[-1], tmp_path).check("a fact", began[-1] != "agreement")
        return CompletedProcess(line, 0)

    monkeypatch.setattr(command.subprocess, "run", part)
    assert run_command(monkeypatch, "--out", str(tmp_path)) == command.UNTRUE
    assert began == ["truth", "agreement"]
    assert "wrong: a fact" in capsys.readouterr().out
    assert "| agreement | a fact | ok False |" in (tmp_path / "table.md").read_text()


def test_one_part_by_name(monkeypatch, tmp_path):
    monkeypatch.setitem(command.PARTS, "truth", lambda setting, results: results.put("one", a=1))
    assert run_command(monkeypatch, "--part", "truth", "--out", str(tmp_path / "new")) == 0
    assert json.loads((tmp_path / "new" / "truth.json").read_text()) == {"one": {"a": 1}}


def test_a_share_of_products_is_fitted_to_the_time_that_was_measured():
    device = Device(
        name="a card", kind="cuda", memory_bytes=2**34, bf16_flops=1e14, fp32_flops=1e13,
        bandwidth_bytes=1e12, product_share=0.5, source="",
    )  # fmt: skip
    resolved = resolve("extends bert-base microbatch=8")
    seconds = 1.3 * estimate(resolved, device).time.seconds_per_step
    share = speed.fitted_share(device, resolved, seconds)
    fitted = estimate(resolved, replace(device, product_share=share))
    assert fitted.time.seconds_per_step == pytest.approx(seconds, rel=0.01)
