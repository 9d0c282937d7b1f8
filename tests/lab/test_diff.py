"""``bertc estimate --diff``: what differs, what each setting costs alone, and the exit code."""

import json
from pathlib import Path

import pytest

from bertc.api import points, resolve
from bertc.cost import estimate
from bertc.ir.program.resolved import Resolved
from bertc.lab.results.diff import REFUSED, diff
from bertc.run.records.folder import RunFolder

ONE = "layers=4 hidden=64 vocab=1k seq=64 steps=100 objective=mlm"
OTHER = "layers=4 hidden=64 vocab=1k seq=64 steps=100 objective=rtd*50+mlm generator=0.5 E=32"


def figures(resolved: Resolved) -> tuple[int, float, int, int, float]:
    printed = estimate(resolved)
    return (
        printed.parameters.total, printed.flops.forward_per_example / resolved.stages[0].seq,
        printed.flops.train_total, printed.memory.peak_bytes, printed.time.seconds_per_step,
    )  # fmt: skip


def run_of(folder: Path, spec: str, overrides: tuple[str, ...] = ()) -> Path:
    """A run folder in which nothing was trained yet."""
    lines = "".join(f"\n# --set {each}\n" for each in overrides)
    folder.mkdir()
    RunFolder(folder).start(points(spec, overrides)[0], spec + lines)
    return folder


def test_costs_are_the_estimates_and_each_settings_those_of_it_alone():
    found = diff(ONE, OTHER)
    for cost, spec in zip(found.costs, (ONE, OTHER), strict=True):
        assert (*vars(cost).values(),)[:5] == figures(resolve(spec))
    lines = {line.name: line for line in found.lines}
    assert {*lines} >= {"embedding", "objective", "generator"}
    width = lines["embedding"].alone
    assert (*vars(width).values(),)[:5] == figures(resolve(ONE, ["embedding=32"]))
    assert lines["generator"].alone is None, "it needs rtd"
    assert f"{REFUSED} " in found.as_table()


def test_equal_specs_have_no_notes_on_single_settings_and_a_lone_one_is_the_whole_difference():
    assert "no setting differs" in (table := diff(ONE, ONE).as_table())
    assert "alone" not in table
    assert "Memory and time" in table
    table = diff(ONE, f"{ONE} embedding=32").as_table().split("\n\n")[0].splitlines()
    assert len(table) == 4
    assert table[-1].endswith(" 32")


IN_STAGES = 'stage "a" {{ steps=10 }} stage "b" {{ steps=20 {} }}'


@pytest.mark.parametrize(
    ("one", "other", "costs"),
    [
        (ONE, f"{ONE}+sop", {"objective": True, "pooler": False, "format": False}),
        (IN_STAGES.format(""), IN_STAGES.format("seq=32"), {"b.seq": False}),  # no option sets it
        (
            f"optimizer=adamw(lr=1e-4) layers=2 {IN_STAGES.format('seq=32')}",
            f"optimizer=adamw(lr=2e-4) layers=2 {IN_STAGES.format('seq=32')}",
            {"optimizer": True},
        ),
    ],
)
def test_what_an_option_sets_has_a_cost_alone(one, other, costs):
    lines = {line.name: line for line in diff(one, other).lines}
    assert {name: line.alone is not None for name, line in lines.items()} == costs
    assert "pooler" not in lines or lines["pooler"].follows


def test_runs_are_compared_when_the_files_that_they_read_are_gone(tmp_path):
    said = tmp_path / "said.tsv"
    said.write_text("text\tlabel\na hen\then\na duck\tduck\n")
    tuned = f"hidden=64 layers=2 vocab=1k seq=64 epochs=1 task=classify('{said}')"
    runs = [run_of(tmp_path / name, f"{tuned} {name}") for name in ("batch=1", "batch=2")]
    found = diff(*map(str, runs))
    said.unlink()
    gone = diff(*map(str, runs))
    assert gone.costs == found.costs
    names = [line.name for line in found.lines]
    assert [line.name for line in gone.lines] == names
    assert "batch" in names


def test_a_run_is_compared_as_it_was_begun(tmp_path):
    run = run_of(tmp_path / "run", ONE, ("layers=2",))
    assert diff(str(run), ONE.replace("layers=4", "layers=2")).lines == ()
    (line,) = diff(str(run), ONE.replace("layers=4", "layers=2").replace("64", "96", 1)).lines[:1]
    assert line.name == "hidden"
    assert line.alone.parameters == figures(resolve(ONE, ["layers=2", "hidden=96"]))[0]


@pytest.mark.parametrize(("other", "code"), [(ONE, 0), (OTHER, 1)])
def test_the_command_ends_with_1_where_they_differ(other, code, call):
    ended, out, _ = call("estimate", "--diff", ONE, other)
    assert (ended, "no setting differs" in out) == (code, not code)
    ended, out, _ = call("estimate", "--diff", ONE, other, "--json")
    printed = json.loads(out)
    assert (ended, len(printed["programs"])) == (code, 2)
    assert bool(printed["settings"]) == bool(code)
