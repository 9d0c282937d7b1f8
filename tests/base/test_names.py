"""Names that no file system takes, wherever a spec or a command may name a file."""

import os

import pytest

import bertc
from bertc import api
from bertc.base.diagnostics import BertcError, DataError, SpecError
from bertc.base.storage.paths import check_path
from bertc.hub.task_config import tasks_beside
from bertc.ir.learning.custom_task import Classify
from bertc.tasks.examples.task_sets import MANY_LABELS, MAX_LABELS, found_labels
from bertc.tasks.layouts.example import TextExample

LONG = "x" * 300


@pytest.mark.parametrize("name", ["~nouser-of-bertc/x", LONG, "loop", f"loop/{LONG}", "a\ud800"])
@pytest.mark.parametrize("spec", [
    "data=files('{}')", "data=pairs(en='{}', fr='{}')", "init='{}'", "vocab='{}/vocab.txt'",
    "task=squad('{}')", "task=glue(mrpc, '{}')", "task=classify('{}.tsv')", "task=race('{}')",
    "extends './{}.bertc'",
])  # fmt: skip
def test_every_name_gets_an_answer(tmp_path, monkeypatch, spec, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    caught = pytest.raises(BertcError, api.check, spec.replace("{}", name))
    assert "Errno" not in str(caught.value)


def test_every_error_that_users_meet_is_caught_as_one():
    errors = {name for name in bertc.__all__ if name.endswith("Error")}
    assert all(issubclass(getattr(bertc, name), BertcError) for name in errors)


def test_a_spec_that_is_a_link_to_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop.bertc").symlink_to("loop.bertc")
    pytest.raises(SpecError, api.check, "extends 'loop.bertc'").match("E305")
    os.symlink("/dev/zero", tmp_path / "config.json")
    pytest.raises(BertcError, api.check, "init='.' steps=2").match("it is no plain file")


def test_a_head_has_a_shape_and_no_more_choices_and_labels_than_are_told_apart():
    choices = ", ".join(f"c{n}" for n in range(65))
    pytest.raises(SpecError, api.check, f"task=choose('t.tsv', 't.tsv', choices=[{choices}])")
    rows = [TextExample(str(n), ("a",), f"name {n}") for n in range(MAX_LABELS + 1)]
    for some in (2 * rows, rows[:MANY_LABELS]):  # too many, and ids of rows
        with pytest.raises(DataError, match=f"{len({*some}):,} labels"):
            found_labels(Classify(train="train.tsv"), some)
    assert len(found_labels(Classify(train="train.tsv"), 2 * rows[:MANY_LABELS])) == MANY_LABELS
    assert tasks_beside({"heads.a.weight": ()}) == ()


def test_a_missing_path_is_reported_with_a_name_like_it_or_what_is_there(tmp_path, monkeypatch):
    (tmp_path / "glue" / "SST-2").mkdir(parents=True)
    (tmp_path / "glue" / "MRPC").mkdir()
    (tmp_path / "glue" / ".hidden").touch()
    (tmp_path / "glue" / "SST-2" / "train.tsv").touch()
    (tmp_path / "bertc").mkdir()
    monkeypatch.chdir(tmp_path)
    near = ("glue/SST", "glu/SST-2", "glue/SST2/x/y")
    none = ("elsewhere/x", "glue/MRPC/x", "a\0b", "\ud800/x", "/zzqqxx/x", "~nobody/x")
    helps = dict.fromkeys(near, "did you mean glue/SST-2?") | {
        "glue/SST2/train.tsv": "did you mean glue/SST-2/train.tsv?",
        f"{tmp_path}/glue/QQP": f"check the path: {tmp_path}/glue has MRPC, SST-2",
        "nosuch.bertc": "did you mean bertc?",
        **dict.fromkeys(none, "check the path"),
    }
    assert {name: check_path(name) for name in helps} == helps
    assert check_path("nosuch.bertc", ".bertc") == "check the path", "a folder is no spec"
