"""Lengths of runs: by the clock, in passes over a text, in its words; checkpoints that stay.
By the clock a run has rates by the share of time used, and one stage; the clock costs a step next
to nothing.
"""

import itertools
import math
from collections import Counter
from types import SimpleNamespace

import pytest
from torch.autograd.profiler import profile

from bertc import cost, lab_api
from bertc.api import check, points, resolve, show
from bertc.base.diagnostics import ResumeRefusedError, SpecError
from bertc.check.facts import counts
from bertc.machine.display import Display
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.evaluation.manner import Manner
from bertc.run.records.changes import changed, settings_texts
from bertc.run.stepper import Stepper
from bertc.run.train import loop, phase
from bertc.tasks import corpus
from bertc.tasks.corpus import prepare
from bertc.text.cache.store import Silent
from bertc.use.card import export_with_card
from tests.kinds import PARTS_OF_A_STEP as PARTS
from tests.net.programs import FARM
from tests.run.conftest import lines, stop_after

SMALL = "layers=1 hidden=16 heads=2 batch=4 seq=16 vocab=wordpiece(200) holdout=0.2 "
SMALL += "eval_examples=4 log_every=1 data=files('farm.txt')"
pytestmark = pytest.mark.usefixtures("at_home", "in_the_farm")


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
    assert 0 <= sum(stage.steps * stage.batch for stage in rising.stages) - rows < 8
    assert sum(stage.steps for stage in rising.stages[:2]) == pytest.approx(rising.steps / 2, abs=1)
    base = f'{SMALL} stage "a" {{ steps=9 }} stage "b" {{ seq=32 steps=1 }}'
    (ten,) = points(base, ["steps=10 epochs"])
    rows = [read(ten).stages[index].examples for index in (0, 1)]
    shares = 10 * 9 * 16 / (9 * 16 + 32), 10 * 32 / (9 * 16 + 32)
    wanted = [math.ceil(share * count / 4) for share, count in zip(shares, rows, strict=True)]
    assert [stage.steps for stage in ten.stages] == wanted
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


@pytest.mark.parametrize(("settings", "message"), [
    ("steps=2 epochs data=files('nowhere/*.txt')", "counted in the text: no file matches"),
    ("steps=1M words data=files('nowhere/*.txt')", "counted in the text: no file matches"),
    ("steps=1M tokens batch=3 epochs", "is not counted in epochs"),
    ("optimizer=adamw(schedule=cosine(cooldown=1%))", "falls from the final rate, which is 0"),
    ("steps=1h optimizer=adamw(schedule=cosine(10%, cooldown=9))", "decay by the clock"),
    ("steps=1h optimizer=adamw(schedule=wsd(100))", "decay by the clock is a share"),
    ("steps=1h optimizer=adamw(schedule=polynomial(over=100))", "ends when its time does"),
])  # fmt: skip
def test_what_cannot_be_is_refused(settings, message):
    refused = pytest.raises(SpecError, points, SMALL, [settings])
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

    monkeypatch.setattr(counts, "_count", refuse)
    found = lab_api.findings("seed={1, 2, 3} steps={1 epochs, 2 epochs}")
    assert ({remark.code for remark in found.remarks} >= {"R127"}, len(tried)) == (True, 1)


@pytest.fixture
def ticking(monkeypatch):
    """A clock that each reading moves on by as much, so that a step takes the same every time."""
    ticks = itertools.count()
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: next(ticks) * 0.5))


@pytest.fixture
def timed(tiny):
    """A tiny program of 20 seconds, in a cosine after a warm-up of a fifth."""
    program = tiny(log_every=1, eval_every=5, save_every=3)
    stage = program.of_steps(10**9).stages[0]
    optimizer = stage.optimizer.model_copy(update={"warmup": 0.2})
    stage = stage.model_copy(update={"optimizer": optimizer, "warmup_steps": 2 * 10**8})
    run = program.run.model_copy(update={"clock": 20 / 3600})
    return program.model_copy(update={"stages": (stage,), "run": run})


@pytest.mark.usefixtures("ticking")
def test_the_rate_is_that_of_the_time_used(go, timed, tmp_path, monkeypatch):
    judged = list[object]()
    monkeypatch.setattr(loop, "plateau_lines", lambda *judging: judged.append(judging) or ())
    report = go(timed)
    assert len(judged) == 1
    trained = lines(tmp_path / "run", "train")
    assert trained[0]["clock"] == 0
    for line in trained:
        rising, falling = line["clock"] / 0.2, (1 - line["clock"]) / 0.8
        assert line["lr"] == pytest.approx(1e-3 * min(rising, falling))
    end, a_step = lines(tmp_path / "run", "eval")[-1]["seconds"], 2 * 0.5
    assert 20 <= end < 20 + a_step
    assert [line["seconds"] / 20 for line in trained[:-1]] == pytest.approx(
        [line["clock"] for line in trained[1:]], abs=0.05
    )
    end = lines(tmp_path / "run", "eval")[-1]["step"]
    assert report.steps == report.step == len(trained) == end


@pytest.mark.usefixtures("ticking")
def test_a_resumed_run_has_the_time_that_is_left(resumes, timed):
    resumes(timed, 4, 7)


def test_an_estimate_has_the_steps_there_is_time_for():
    (program,) = points(f"{SMALL} steps=2min")
    estimated = cost.estimate(program, "cpu")
    assert estimated.time.seconds_total == pytest.approx(120, rel=0.01)
    (again,) = points(f"{SMALL} steps={estimated.stages[0].steps}")
    assert cost.estimate(again, "cpu").flops.train_total == estimated.flops.train_total


@pytest.mark.usefixtures("ticking")
def test_nobody_is_shown_the_steps_that_stand_for_a_time(go, timed, tmp_path):
    report, run = go(timed), tmp_path / "run"
    (run / "spec.bertc").write_text("steps = 9\n" + "# a line\n" * 20 + "# --set steps=20s\n")
    (tmp_path / "pairs.jsonl").write_text('{"sentence_good": "a hen", "sentence_bad": "hen a"}\n')
    export_with_card(run, tmp_path / "to")
    card, steps = (tmp_path / "to" / "README.md").read_text(), report.steps
    assert f"{steps} of {steps} steps" in card
    assert "# --set steps=20s" in card
    assert settings_texts(timed)["steps"] == "20s"
    longer = timed.model_copy(update={"run": timed.run.model_copy(update={"clock": 24.0})})
    others = {"9": timed.of_steps(9), "10000000000": timed.of_steps(10**10), "24 h": longer}
    changes = {text: [*map(str, changed(timed, other))] for text, other in others.items()}
    assert changes == {text: [f"steps: 20s -> {text}"] for text in others}
    pairs = evaluate_run(run, Manner(pairs=str(tmp_path / "pairs.jsonl")), quiet=True)
    assert pairs.steps == evaluate_run(run, quiet=True).steps == steps
    for other in others.values():
        pytest.raises(ResumeRefusedError, go, other, resume=True).match("steps: 20s -> ")


@pytest.mark.parametrize("text", ["20s", "3min", "1.5 h", "7 h"])
def test_a_time_is_shown_as_it_is_read(text):
    assert f"\nsteps = {text} " in str(show(f"{SMALL} steps={text}"))


def test_stages_are_not_counted_by_the_clock():
    with pytest.raises(SpecError, match="a run of one stage"):
        points(f"{SMALL} steps=1h stage 'a' {{ seq=16 }} stage 'b' {{ seq=16 }}")


class Impatient(Display):
    """A display that asks after every step where the run stands, and takes its time over it."""

    def __init__(self, seconds):
        self.seconds, self.standings = seconds, []

    def step(self, standing):
        self.standings.append(standing())
        self.seconds[0] += 100


def test_the_display_s_time_is_counted_and_longer_steps_as_longer(tiny, tmp_path, monkeypatch):
    """By a clock that goes on by a second whenever it is read."""
    seconds = [0.0]

    def perf_counter():
        seconds[0] += 1
        return seconds[0]

    display = Impatient(seconds)
    monkeypatch.setattr(phase.time, "perf_counter", perf_counter)
    monkeypatch.setattr(loop, "choose", lambda quiet: display)
    asked, count = [], phase.executed_flops
    monkeypatch.setattr(
        phase, "executed_flops", lambda stage, n: asked.append(stage.name) or count(stage, n)
    )
    stages = {"first": {"steps": 4, "seq": 16}, "second": {"steps": 4, "layers": 4}}
    loop.train(tiny(stages=stages), tmp_path / "run", cache=tmp_path / "cache")
    assert asked == 2 * ["first", "second"]  # by the clock of either stage
    *_, last = lines(tmp_path / "run", "eval")
    assert last["seconds"] >= 8 * 100
    assert [found.step for found in display.standings] == [*range(1, 9)]
    first, last = display.standings[3], display.standings[-1]
    assert last.seconds_left == 1  # the evaluation at the end, as long as that before
    mean = 2 * 102 / 3  # of the steps after the first, the display of the last not yet among them
    assert first.seconds_left > 1.5 * 4 * mean


def test_a_profiler_sees_the_parts_of_a_step_by_name(tiny):
    stepper = Stepper(tiny())
    with stepper.open() as step, stepper.turn():
        step()
        with profile() as profiled:
            step()
    assert {*PARTS} - {"loader"} <= {event.key for event in profiled.key_averages()}
