"""What ``build --emit`` shows is what estimate and train use, files that decide it included."""

import re
from pathlib import Path

import pytest

from bertc.api import points, resolve
from bertc.base.resources import shipped_specs
from bertc.cli.emit import emit
from bertc.ir.learning.objective import Mlm
from tests.hub.programs import bert_folder
from tests.kinds import OBJECTIVES

TOY = "layers=2 hidden=32 heads=2 vocab=500 seq=32 batch=4"


@pytest.fixture
def examples(tmp_path: Path) -> str:
    file = tmp_path / "examples.csv"
    file.write_text("text,label\n" + "a good one,yes\na bad one,no\n" * 20)
    return str(file)


def test_the_network_of_init_is_shown(tmp_path: Path) -> None:
    bert_folder(tmp_path, "abcdefghijk", hidden=384, layers=6)
    text = emit(f'init="{tmp_path}" vocab=16 steps=10', (), "resolved")
    assert re.search("layers = 6 +# derived: that of init", text)
    assert re.search("hidden = 384 +# derived: that of init", text)


def test_a_task_s_labels_and_examples_are_shown(examples: str) -> None:
    text = emit(f'{TOY} epochs=3 objective=classify("{examples}")', (), "resolved")
    assert "examples=40" in text
    assert 'labels=["no", "yes"]' in text
    assert re.search("steps = 30 +# derived", text)


def test_arguments_are_shown_with_their_defaults() -> None:
    text = emit(f"{TOY} optimizer=adamw", (), "resolved")
    assert "betas=[0.9, 0.999]" in text
    for name in Mlm.model_fields.keys() - {"kind"}:
        assert f"{name}=" in text


def test_a_program_is_shown_as_written_with_the_places(examples: str) -> None:
    text = emit(f'{TOY} objective=classify("{examples}")', ["seq=16"], "program")
    assert "layers = 2  # written: <spec>:1:1" in text
    assert "seq = 16  # set: --set #1:1:1" in text
    assert "hidden_dropout" not in text


def test_a_program_of_python_is_looked_up_too(examples: str) -> None:
    from bertc import lang

    spec = f'{TOY} epochs=3 objective=classify("{examples}")'
    (program,) = lang.load(spec)
    assert resolve(program) == resolve(spec)


def assert_same_again(spec: str) -> None:
    (first, *others) = points(spec)
    if not others:
        (again,) = points(emit(spec, (), "resolved"))
        assert again.fingerprint() == first.fingerprint(), spec


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_what_is_shown_reads_back_as_the_same_run(objective: str) -> None:
    assert_same_again(f"{TOY} {objective}")


def test_shipped_specs_read_back_as_the_same_run() -> None:
    for name in sorted(shipped_specs()):
        assert_same_again(name)
