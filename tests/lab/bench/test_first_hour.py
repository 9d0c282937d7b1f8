"""``python -m tests.bench.gpu``: its parts run through at toy size, and keep what they find.

``speed`` loads transformers and is run by hand (docs/measured.md).
"""

from functools import partial

import pytest
import torch

from tests.bench.gpu import agreement, memory, truth
from tests.bench.gpu.setting import Results, Setting, read, table, untrue

HERE = Setting(torch.device("cpu"), tiny=True)
PARTS = {"truth": truth, "agreement": agreement, "memory": memory}
pytestmark = pytest.mark.filterwarnings("ignore")  # The compiler's and the profiler's own.


@pytest.mark.parametrize("part", PARTS)
def test_a_part_runs_through(part, tmp_path, monkeypatch):
    # By hand it is Inductor, whose kernels tests/run/test_compiled.py holds.
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
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
