"""``bertc estimate --diff``: what differs, what each setting costs alone, and the exit code."""

import json
from pathlib import Path

import pytest

from bertc import cli
from bertc.api import points, resolve
from bertc.cost import estimate
from bertc.ir.program.resolved import Resolved
from bertc.lab.results.diff import REFUSED, diff
from bertc.run.records.folder import RunFolder

ONE = "layers=4 hidden=64 vocab=1k seq=64 steps=100 objective=mlm"
OTHER = "layers=4 hidden=64 vocab=1k seq=64 steps=100 objective=rtd*50+mlm generator=0.5 E=32"


def figures(resolved: Resolved) -> tuple[int, float, int, int, float]:
    told = estimate(resolved)
    return (
        told.parameters.total,
        told.flops.forward_per_example / resolved.stages[0].seq,
        told.flops.train_total,
        told.memory.peak_bytes,
        told.time.seconds_per_step,
    )


def run_of(folder: Path, spec: str, overrides: tuple[str, ...] = ()) -> Path:
    """A run folder in which nothing was trained yet."""
    lines = "".join(f"\n# --set {each}\n" for each in overrides)
    folder.mkdir()
    RunFolder(folder).start(points(spec, overrides)[0], spec + lines)
    return folder


def test_costs_are_the_estimates_and_each_settings_those_of_it_alone() -> None:
    found = diff(ONE, OTHER)
    for cost, spec in zip(found.costs, (ONE, OTHER), strict=True):
        assert (*vars(cost).values(),)[:5] == figures(resolve(spec))
    lines = {line.name: line for line in found.lines}
    assert {*lines} >= {"embedding", "objective", "generator"}
    width = lines["embedding"].alone
    assert width is not None
    assert (*vars(width).values(),)[:5] == figures(resolve(ONE, ["embedding=32"]))
    assert lines["generator"].alone is None, "it needs rtd"
    assert f"{REFUSED} " in found.as_table()


def test_equal_specs_have_no_notes_on_single_settings() -> None:
    assert "no setting differs" in (table := diff(ONE, ONE).as_table())
    assert "alone" not in table
    assert "Memory and time" in table


def test_a_lone_setting_is_the_whole_difference() -> None:
    table = diff(ONE, f"{ONE} embedding=32").as_table().split("\n\n")[0].splitlines()
    assert len(table) == 4
    assert table[-1].endswith(" 32")


def test_what_follows_from_another_setting_is_told_without_a_cost() -> None:
    lines = {line.name: line for line in diff(ONE, ONE + "+sop").lines}
    assert lines["pooler"].follows
    assert lines["pooler"].alone is None
    assert lines["objective"].alone is not None


def test_settings_of_single_stages() -> None:
    one, other = (
        'stage "a" { steps=10 } stage "b" { steps=20 ' + own + "}" for own in ("", "seq=32")
    )
    (line,) = diff(one, other).lines
    assert line.name == "b.seq"
    assert line.alone is None, "no option sets it"


def test_runs_are_compared_when_the_files_that_they_read_are_gone(tmp_path: Path) -> None:
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


def test_the_same_change_in_several_stages_is_one() -> None:
    one, other = (
        f'lr={lr} layers=2 stage "a" {{ steps=10 }} stage "b" {{ steps=20 seq=32 }}'.replace(
            f"lr={lr}", f"optimizer=adamw(lr={lr})"
        )
        for lr in ("1e-4", "2e-4")
    )
    (line,) = diff(one, other).lines
    assert line.name == "optimizer"
    assert line.alone is not None


def test_a_run_is_compared_as_it_was_begun(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", ONE, ("layers=2",))
    assert diff(str(run), ONE.replace("layers=4", "layers=2")).lines == ()
    (line,) = diff(str(run), ONE.replace("layers=4", "layers=2").replace("64", "96", 1)).lines[:1]
    assert line.name == "hidden"
    assert line.alone is not None
    assert line.alone.parameters == figures(resolve(ONE, ["layers=2", "hidden=96"]))[0]


@pytest.mark.parametrize(("other", "code"), [(ONE, 0), (OTHER, 1)])
def test_the_command_ends_with_1_where_they_differ(
    other: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for options in ([], ["--json"]):
        monkeypatch.setattr("sys.argv", ["bertc", "estimate", "--diff", ONE, other, *options])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert (end.value.code or 0) == code
        said = capsys.readouterr().out
        if options:
            told = json.loads(said)
            assert len(told["programs"]) == 2
            assert bool(told["settings"]) == bool(code)
        else:
            assert ("no setting differs" in said) == (not code)
