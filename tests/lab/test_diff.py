"""``bertc estimate --diff``: what differs, the share of each setting, and the exit code."""

import json
from pathlib import Path

import pytest

from bertc.api import points, resolve
from bertc.lab.results.diff import cost_of, diff
from bertc.run.records.folder import RunFolder
from bertc.run.records.metrics import append_line

ONE = "layers=4 hidden=64 vocab=1k seq=64 steps=100 objective=mlm"
OTHER = "layers=4 hidden=64 vocab=1k seq=64 steps=100 objective=rtd*50+mlm generator=0.5 E=32"


def run_of(folder: Path, spec: str, overrides: tuple[str, ...] = ()) -> Path:
    """A run folder in which nothing was trained yet."""
    lines = "".join(f"\n# --set {each}\n" for each in overrides)
    folder.mkdir()
    RunFolder(folder).start(points(spec, overrides)[0], spec + lines)
    return folder


@pytest.mark.parametrize(("first", "second", "together"), [
    (ONE, OTHER, {"generator", "objective"}),  # a generator needs rtd
    ("bert-base", "albert-base", {"share"}),
    ("bert-base", "bert-large", {"hidden"}),
    ("bert-mini", "quickstart", {"vocab"}),
    ("roberta-base", "modernbert", {"activation"}),
])  # fmt: skip
def test_shares_sum_to_the_difference_and_settings_in_need_share_one(first, second, together):
    found = diff(first, second)
    costs = [cost_of(resolve(spec), "h200") for spec in (first, second)]
    assert [*found.costs] == costs
    shares = [line.share for line in found.lines if line.share]
    assert [*map(sum, zip(*shares, strict=True))] == pytest.approx(
        [b - a for a, b in zip(*costs, strict=True)]
    )
    assert together in [{*line.values} for line in found.lines]
    ahead = found.lines[0]
    alone = cost_of(resolve(first, [f"{n}={v}" for n, (_, v) in ahead.values.items()]), "h200")
    assert ahead.share == pytest.approx([b - a for a, b in zip(costs[0], alone, strict=True)])


def test_equal_specs_have_no_note_on_shares():
    table = diff(ONE, ONE).as_table()
    assert "no setting differs" in table
    assert "share" not in table
    assert "Memory and time" in table


def test_losses_of_two_runs_are_compared_at_equal_time_and_flops(tmp_path):
    runs = [run_of(tmp_path / name, f"{ONE} {name}") for name in ("embedding=32", "share=all")]
    for run, pace in zip(runs, (1.0, 0.5), strict=True):
        for step in (50, 100):
            write(run, step=step, seconds=pace * step, loss=5 - step / 50)
    timed, equal_flops = diff(*map(str, runs)).reached
    assert (timed.most, timed.losses) == (50, (4, 3))
    assert equal_flops.losses[0] == 3 < equal_flops.losses[1] < 3.1, "its steps take more"
    assert "after 50.0 s: 4.000 and 3.000 (-1.000)" in diff(*map(str, runs)).as_table()
    other = run_of(tmp_path / "other", ONE.replace("mlm", "mlm(50%)"))
    assert diff(str(runs[0]), str(other)).reached == ()


def write(run: Path, step: int, seconds: float, loss: float) -> None:
    """Write a line of an evaluation as a run does."""
    line = {"kind": "eval", "step": step, "stage": "main", "tokens": step, "seconds": seconds}
    line |= {"loss": loss, "loss_masked": loss, "losses": {"mlm": loss, "mlm_masked": loss}}
    append_line(RunFolder(run).metrics, line)


IN_STAGES = 'stage "a" {{ steps=10 }} stage "b" {{ steps=20 {} }}'


@pytest.mark.parametrize(("one", "other", "costs"), [
    (ONE, f"{ONE}+sop", {"objective": True, "pooler": False, "format": False}),
    (
        IN_STAGES.format(""),
        IN_STAGES.format("seq=32"),
        {"b.seq": True},
    ),  # no option sets it: the rest
    (
        f"optimizer=adamw(lr=1e-4) layers=2 {IN_STAGES.format('seq=32')}",
        f"optimizer=adamw(lr=2e-4) layers=2 {IN_STAGES.format('seq=32')}",
        {"optimizer": True},
    ),
])  # fmt: skip
def test_what_follows_from_others_has_no_share(one, other, costs):
    lines = {name: line for line in diff(one, other).lines for name in line.values}
    assert {name: line.share is not None for name, line in lines.items()} == costs


def test_runs_are_compared_when_the_files_that_they_read_are_gone(tmp_path):
    said = tmp_path / "said.tsv"
    said.write_text("text\tlabel\na hen\then\na duck\tduck\n")
    tuned = f"hidden=64 layers=2 vocab=1k seq=64 epochs=1 task=classify('{said}')"
    runs = [run_of(tmp_path / name, f"{tuned} {name}") for name in ("batch=1", "batch=2")]
    found = diff(*map(str, runs))
    said.unlink()
    gone = diff(*map(str, runs))
    assert gone.costs == found.costs
    assert [*gone.lines[0].values][:1] == ["batch"]


def test_a_run_is_compared_as_it_was_begun(tmp_path):
    run = run_of(tmp_path / "run", ONE, ("layers=2",))
    assert diff(str(run), ONE.replace("layers=4", "layers=2")).lines == ()
    found = diff(str(run), ONE.replace("layers=4", "layers=2").replace("64", "96", 1))
    assert {*found.lines[0].values} == {"hidden"}
    assert found.costs[1] == cost_of(resolve(ONE, ["layers=2", "hidden=96"]), "h200")


@pytest.mark.parametrize(("other", "code"), [(ONE, 0), (OTHER, 1)])
def test_the_command_ends_with_1_where_they_differ(other, code, call):
    ended, out, _ = call("estimate", "--diff", ONE, other)
    assert (ended, "no setting differs" in out) == (code, not code)
    ended, out, _ = call("estimate", "--diff", ONE, other, "--json")
    printed = json.loads(out)
    assert (ended, len(printed["programs"])) == (code, 2)
    assert bool(printed["settings"]) == bool(code)
