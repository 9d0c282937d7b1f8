"""Examples as a person reads them: every objective, row format and shipped spec."""

import pytest

from bertc.api import points, resolve
from bertc.use.preview import preview
from tests.kinds import OBJECTIVES
from tests.net.programs import FARM, copied
from tests.shipped import PRETRAINING

TOY = ("layers=1 hidden=16 heads=2 seq=32 batch=4 steps=2 vocab=wordpiece(500) holdout=0.2 "
       "device=cpu")  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the small specs name."""
    folder = tmp_path_factory.mktemp("texts")
    copied(FARM, folder)
    (folder / "farm.txt").rename(folder / "a.txt")
    return folder


def shown(objective, folder, monkeypatch):
    monkeypatch.chdir(folder)
    data = "" if "data=" in objective else "data=files('a.txt', sentences=lines)"
    resolved = resolve(f"{TOY} {objective} {data}")
    text = preview(resolved, 4, color=False, cache=folder / "cache")
    return resolved.stages[0], text


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_a_preview_tells_what_every_term_asks(objective, folder, monkeypatch):
    stage, text = shown(objective, folder, monkeypatch)
    assert text.count("row ") >= 2
    for term in stage.objective:
        assert f"  {term.objective.kind}: " in text
    pairs = [line for line in text.splitlines() if line.startswith(("  A ", "  B "))]
    assert bool(pairs) == ("pair" in stage.format.kind or stage.translates)


READ = {
    "pretraining": "objective=mlm(p=15%)",
    "a task": "task=classify('t.tsv', labels=[\"b\u001b[31mad\\u{202e}\", good])",
}


@pytest.mark.parametrize("spec", READ.values(), ids=READ)
def test_pieces_of_bytes_are_read_as_text_and_labels_act_on_no_terminal(
    spec, folder, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    line = "настройки zufügen größer, настройка \u202e\x9b"
    (tmp_path / "t.txt").write_text(f"{line}\n\n" * 40)
    label = "b\x1b[31mad\u202e"
    (tmp_path / "t.tsv").write_text("text\tlabel\n" + f"{line}\t{label}\n{line}\tgood\n" * 20)
    toy = TOY.replace("wordpiece(500)", "bpe(500)")
    resolved = resolve(f"{toy} data=files('t.txt', sentences=lines) {spec}")
    text = preview(resolved, 2, color=True, cache=tmp_path / "cache")
    assert "▁zufügen" in text
    assert "настро" in text
    assert not {"Ð", "Ã", "Ġ", "\u202e", "\x9b"} & {*text}
    assert "\x1b" not in text.replace("\x1b[1m", "").replace("\x1b[0m", "")


def test_a_stream_pair_ends_with_a_segment_of_its_own(folder, monkeypatch):
    _, text = shown(OBJECTIVES["xlnet"], folder, monkeypatch)
    assert [line for line in text.splitlines() if line == "  C [CLS]"]
    assert "row 1, 32 tokens, read from its end to its beginning" in text


def test_the_small_specs_stand_for_every_shipped_one():
    small = [resolve(f"{TOY} {each}").stages[0] for each in OBJECTIVES.values()]
    formats, sums = {each.format.kind for each in small}, {kinds(each) for each in small}
    for name in PRETRAINING:
        stages = [stage for point in points(name) for stage in point.stages]
        assert {stage.format.kind for stage in stages} <= formats, name
        assert {kinds(stage) for stage in stages} <= sums, name


def kinds(stage):
    """The terms of an objective, in whatever order."""
    return frozenset(term.objective.kind for term in stage.objective)
