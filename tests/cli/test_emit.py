"""What ``build`` shows is what estimate and train use."""

import re
from pathlib import Path

import pytest

from bertc import lang
from bertc.api import points, resolve
from bertc.cli.emit import emit
from bertc.ir.learning.objective import Mlm
from tests.hub.programs import bert_folder
from tests.kinds import OBJECTIVES
from tests.shipped import PROGRAMS

TOY = "layers=2 hidden=32 heads=2 vocab=500 seq=32 batch=4"


def test_defaults_are_shown() -> None:
    text = emit(f"{TOY} optimizer=adamw", (), "resolved")
    assert "betas=[0.9, 0.999]" in text
    for name in Mlm.model_fields.keys() - {"kind"}:
        assert f"{name}=" in text


def test_the_network_of_init_is_shown(tmp_path: Path) -> None:
    bert_folder(tmp_path, "abcdefghijk", hidden=384, layers=6)
    text = emit(f'init="{tmp_path}" vocab=16 steps=10', (), "resolved")
    assert re.search("layers = 6 +# derived: that of init", text)
    assert re.search("hidden = 384 +# derived: that of init", text)


def test_a_task_is_shown_with_its_labels_and_as_written_with_the_places(tmp_path: Path) -> None:
    (tmp_path / "examples.csv").write_text("text,label\n" + "a good one,yes\na bad one,no\n" * 20)
    task = f'{TOY} epochs=3 objective=classify("{tmp_path}/examples.csv")'
    text = emit(task, (), "resolved")
    assert "examples=40" in text
    assert 'labels=["no", "yes"]' in text
    assert re.search("steps = 30 +# derived", text)
    text = emit(task, ["seq=16"], "program")
    assert "layers = 2  # written: <spec>:1:1" in text
    assert "seq = 16  # set: --set #1:1:1" in text
    assert "hidden_dropout" not in text
    (program,) = lang.load(task)  # of Python too
    assert resolve(program) == resolve(task)


@pytest.mark.parametrize(
    "spec", [*PROGRAMS, *(f"{TOY} {objective}" for objective in OBJECTIVES.values())]
)
def test_what_is_shown_reads_back_as_the_same_run(spec: str) -> None:
    (first, *others) = PROGRAMS.get(spec) or points(spec)
    if not others:
        (again,) = points(emit(spec, (), "resolved"))
        assert again.fingerprint() == first.fingerprint()
