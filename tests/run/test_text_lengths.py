"""Lengths in passes over a text and in its words; checkpoints that stay, and their export."""

import math
from collections import Counter

import pytest

from bertc import lab_api
from bertc.api import check, points, resolve
from bertc.base.diagnostics import SpecError
from bertc.check.facts import counts
from bertc.tasks import corpus
from bertc.tasks.corpus import prepare
from bertc.text.cache.store import Silent
from tests.net.programs import FARM
from tests.run.conftest import lines, stop_after

SMALL = (
    "layers=1 hidden=16 heads=2 batch=4 seq=16 vocab=wordpiece(200) holdout=0.2 eval_examples=4 "
    "log_every=1 data=files('farm.txt')"
)
pytestmark = pytest.mark.usefixtures("in_the_farm", "cached")


@pytest.fixture
def cached(monkeypatch, cache):
    monkeypatch.setenv("BERTC_CACHE", str(cache))


@pytest.fixture
def read(cache):
    """The text of a program as training reads it."""
    return lambda program: prepare(program, cache, Silent())


def test_what_prepares_text_does_not_count_it_first(monkeypatch, tmp_path):
    monkeypatch.setenv("BERTC_CACHE", str(tmp_path))
    monkeypatch.setattr(counts, "LITTLE_BYTES", 10)
    resolve(f"{SMALL} steps=3 epochs save_at=[20 words]", sparing=True)
    assert not [*tmp_path.glob("tokens/*")]
    resolve(f"{SMALL} steps=3 epochs")
    assert [*tmp_path.glob("tokens/*")]


def test_epochs_end_with_the_step_that_completes_them(read):
    (program,) = points(f"{SMALL} steps=3 epochs")
    data, steps = read(program).stages[0], program.steps
    assert steps == math.ceil(3 * data.examples / 4)
    times = Counter(data.train(0, steps=steps).example_ids.tolist())
    assert min(times.values()) == 3
    assert len(times) == data.examples
    times.subtract(data.train(steps - 1).example_ids.tolist())
    assert min(times.values()) == 2
    assert program.run.save_every == math.ceil(steps / 10)


def test_growing_batches_and_stages_read_their_epochs(read):
    (rising,) = points(f"{SMALL} steps=2 epochs batch_warmup=rising(2, 50%, by=3)", ["batch=8"])
    assert [stage.batch for stage in rising.stages] == [2, 5, 8]
    rows = 2 * read(rising).stages[0].examples
    done = sum(stage.steps * stage.batch for stage in rising.stages)
    assert 0 <= done - rows < 8
    half = sum(stage.steps for stage in rising.stages[:2])
    assert half == pytest.approx(rising.steps / 2, abs=1)
    base = f'{SMALL} stage "a" {{ steps=9 }} stage "b" {{ seq=32 steps=1 }}'
    (ten,) = points(base, ["steps=10 epochs"])
    rows = [read(ten).stages[index].examples for index in (0, 1)]
    shares = 10 * 9 * 16 / (9 * 16 + 32), 10 * 32 / (9 * 16 + 32)
    assert [stage.steps for stage in ten.stages] == [
        math.ceil(share * count / 4) for share, count in zip(shares, rows, strict=True)
    ]
    nine = f'{SMALL} stage "a" {{ steps=9 epochs }} stage "b" {{ steps=1 epochs }}'
    (few,) = points(nine, ["steps=20"])
    assert [stage.steps for stage in few.stages] == [18, 2]


def test_words_are_those_of_the_text(read):
    (program,) = points(f"{SMALL} steps=1k words")
    text, stage = read(program), program.stages[0]
    facts = text.texts[0].facts
    tokens = facts["train"]["tokens"] + facts["heldout"]["tokens"]
    words = len((FARM / "farm.txt").read_text().split()) / tokens
    of_rows = text.stages[0].tokens / text.stages[0].examples
    assert stage.row_words == pytest.approx(of_rows * words)
    assert program.words_by(program.steps - 1) < 1000 <= program.words_by(program.steps)
    (stream,) = points(f"{SMALL} objective=clm steps=1k words")
    assert stream.stages[0].row_words == pytest.approx(16 * words, rel=0.01)


def test_checkpoints_at_words_stay_and_are_exported(go, monkeypatch, tmp_path, command):
    ends = "save_at=[100 words, 250 words, 7, 600 words] keep=1 save_every=2"
    spec = f"{SMALL} steps=600 words {ends}"
    (program,) = points(spec)
    run, kept = tmp_path / "run", program.run.save_at
    assert [one.name for one in kept] == ["chck_0.0001M", "chck_0.00025M", "step-7", "chck_0.0006M"]
    stop_after(monkeypatch, kept[1].step + 1, lambda: go(program))
    assert check(spec) == 1
    go(program, resume=True)
    there = sorted(int(path.name[5:]) for path in (run / "checkpoints").glob("step-*"))
    assert there == sorted({one.step for one in kept})
    for line in lines(run):
        assert line["words"] == program.words_by(line["step"])
    for step, words in ((one.step, one.words) for one in kept if one.words):
        assert program.words_by(step - 1) < words <= program.words_by(step)
    assert command("export", str(run), "--to", str(tmp_path / "all"), "--revision", "all") == 0
    there = {path.name for path in (tmp_path / "all").iterdir() if path.is_dir()}
    assert there == {one.name for one in kept}
    newest = (tmp_path / "all" / kept[-1].name / "model.safetensors").read_bytes()
    assert (tmp_path / "all" / "model.safetensors").read_bytes() == newest
    assert command("export", str(run), "--to", str(tmp_path / "one"), "--revision", "chck_9M") == 66


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("steps=2 epochs data=files('nowhere/*.txt')", "counted in the text: no file matches"),
        ("steps=1M words data=files('nowhere/*.txt')", "counted in the text: no file matches"),
        ("steps=10 save_at=[1M words]", "by words or not, and the run ends before"),
        ("steps=1M tokens batch=3 epochs", "is not counted in epochs"),
        ("optimizer=adamw(schedule=cosine(cooldown=1%))", "falls from the final rate, which is 0"),
        ("steps=1h optimizer=adamw(schedule=cosine(10%, cooldown=9))", "decay by the clock"),
        ("steps=1h optimizer=adamw(schedule=wsd(100))", "decay by the clock is a share"),
        ("steps=1h optimizer=adamw(schedule=polynomial(over=100))", "ends when its time does"),
    ],
)
def test_what_cannot_be_is_refused(settings, message):
    with pytest.raises(SpecError) as refused:
        points(SMALL, [settings])
    assert message in str(refused.value)


def test_words_of_token_ids_are_not_known(monkeypatch):
    monkeypatch.setattr(corpus, "PER_TOKEN", "none")
    with pytest.raises(SpecError, match="whose words are not known"):
        points(f"{SMALL} save_at=[10 words]")
    assert points(f"{SMALL} steps=1 epochs")


def test_points_of_a_grid_share_the_answer_that_a_check_does_not_read_so_much(monkeypatch):
    tried = []

    def refuse(*_):
        tried.append(1)
        raise counts._TooMuchError("much")

    monkeypatch.setattr(counts, "_counted", refuse)
    found = lab_api.findings("seed={1, 2, 3} steps={1 epochs, 2 epochs}")
    assert ({remark.code for remark in found.remarks} >= {"R127"}, len(tried)) == (True, 1)
