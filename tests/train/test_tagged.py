"""Masking the spans of a tagger that bertc trained, with other tokens than its own."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bertc.api import check, points
from bertc.data import Silent, prepare
from bertc.data.examples.word_spans import split_text
from bertc.diagnostics import BertcError, DataError, SpecError
from bertc.evaluation.word_networks import TrainedNetworks
from bertc.inference.preview import preview
from bertc.train.loop import train
from tests.net.programs import PROGRAMS, TOY
from tests.train.conftest import text as farm_text

pytestmark = pytest.mark.usefixtures("in_the_farm")


def text(objective: str, **changed: str) -> str:
    settings = {**TOY, "objective": objective, "steps": "2", **changed}
    return " ".join(f"{key}={value}" for key, value in settings.items())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, farm_run: Callable[[str], Path]) -> Path:
    """A tagger of birds and places, another, and a run that learned no tags."""
    folder = tmp_path_factory.mktemp("runs")
    tags = {**TOY, **PROGRAMS["tagging"], "steps": "12", "eval_every": "12"}
    for name, settings in (("tagger", tags), ("other", {**tags, "seed": "1"}), ("mlm", TOY)):
        shutil.copytree(farm_run(farm_text(settings)), folder / name)
    return folder


def test_spans_of_words_are_joined(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marked by B- and I-, and else runs of one tag."""
    networks, folder = TrainedNetworks("cpu"), str(runs / "tagger")
    assert networks.labels(folder) == ("BIRD", "PLACE")
    tags = ("B-BIRD", "I-BIRD", "B-BIRD", "O", "I-PLACE", "O")
    monkeypatch.setattr(networks, "tags", lambda *_: iter([tags]))
    split = [split_text("old hens, ducks by ponds")]
    assert [*networks.spans(folder, split)] == [[(0, 8, "BIRD"), (8, 9, "BIRD"), (16, 18, "PLACE")]]
    monkeypatch.setattr("bertc.evaluation.word_networks.names_spans", lambda _: False)
    tags = ("ADJ", "NOUN", "NOUN", "O", "ADP", "NOUN")
    shown = [(0, 3, "ADJ"), (4, 9, "NOUN"), (16, 18, "ADP"), (19, 24, "NOUN")]
    assert [*networks.spans(folder, split)] == [shown]


def test_a_run_masks_what_its_tagger_found(runs: Path, tmp_path: Path) -> None:
    tagger = shutil.copytree(runs / "tagger", tmp_path / "tagger")
    objective = f'mlm(unit=tagged("{tagger}", share=1))'
    (resolved,) = points(text(objective, vocab="bpe(300)"))
    data = prepare(resolved, tmp_path, Silent(), TrainedNetworks("cpu")).stage(0)
    assert data.labels.names == ("BIRD", "PLACE")
    assert data.train(0).spans.any()
    shown = preview(resolved, 4, color=False, cache=tmp_path)
    assert "spans: " in shown
    assert " whole" in shown
    train(resolved, tmp_path / "run", cache=tmp_path, quiet=True)
    shutil.rmtree(tagger)
    shutil.copytree(runs / "other", tagger)
    with pytest.raises(BertcError, match="the text: fingerprint"):
        train(resolved, tmp_path / "run", cache=tmp_path, quiet=True, resume=True)


def test_a_run_without_tags_is_refused(runs: Path, tmp_path: Path) -> None:
    networks = TrainedNetworks("cpu")
    for folder, message in (("mlm", "is no tagger"), ("nowhere", "nowhere")):
        (resolved,) = points(text("rtd", generator=f'same-tag("{runs / folder}")'))
        with pytest.raises((DataError, BertcError), match=message):
            prepare(resolved, tmp_path, Silent(), networks)


def test_check_looks_at_taggers(runs: Path, tmp_path: Path) -> None:
    for folder in (runs / "mlm", runs / "mlm" / "model", runs):
        with pytest.raises(DataError, match="is no tagger"):
            check(text(f'mlm(unit=tagged("{folder}"))'))
    check(text(f'mlm(unit=tagged("{runs / "tagger" / "model"}"))'))
    written = 'mlm(unit=tagged("{}", labels=[PLACE, BIRDS]))'.format(runs / "tagger")
    with pytest.raises(SpecError) as refused:
        check(text(written))
    (found,) = refused.value.diagnostics
    assert found.message.endswith("no label BIRDS: it has BIRD, PLACE")
    assert (found.span.text, found.label, found.fix.replacement) == (
        "BIRDS", "did you mean `BIRD`?", '"BIRD"'
    )  # fmt: skip
    assert check(text(written.replace("BIRDS", found.fix.replacement))) == 1
    (tmp_path / "text.txt").touch()
    for name, what in (("text.txt", "is a file"), ("spans.jsonl", "is not there")):
        with pytest.raises(SpecError, match=f"{name} {what}: a tagger is the folder of a run that"):
            check(text(f'mlm(unit=tagged("{tmp_path / name}"))'))
