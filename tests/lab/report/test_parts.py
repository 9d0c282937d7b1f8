"""Parts of pages without a browser: escaping, pictures, parts that cannot be made."""

import math
from dataclasses import asdict

import pytest

from bertc.api import estimate, points
from bertc.base.diagnostics import DataError, Table, html_text
from bertc.lab.report.cost import ELSEWHERE, estimated_cost
from bertc.lab.report.curves import RunCurves, curves_section, panels
from bertc.lab.report.markup import Html, element, in_picture, joined
from bertc.lab.report.page import document, section
from bertc.lab.report.pictures import Picture
from bertc.lab.results.curves import Curves, MetricsPoint
from bertc.lab.results.groups import Summary
from bertc.lab.results.intervals import interval
from bertc.run.records.folder import RunFolder
from bertc.run.records.metrics import Usage, append_line


def test_text_is_text_wherever_it_is_put():
    hostile = "</script><b a='\">\u202e\x1b[31m"
    shown = str(element("a", hostile, title=hostile))
    assert shown.count("<") == 2
    assert "\\u202e" in shown
    assert not {"\u202e", "\x1b"} & {*shown}
    assert joined([Html("<i>"), "<i>"]) == "<i>&lt;i&gt;"
    assert "\\u202e\\x1b" in shown, "as in a terminal and in a notebook"
    assert html_text(hostile) in Table(("", ""), [(hostile, "")]).html()
    assert html_text(hostile) in shown
    assert html_text("a\n\tb") == "a\n\tb"
    assert in_picture("<b>&\n") == "&lt;b&gt;&amp; "


def test_a_part_that_cannot_be_made_says_why_and_the_others_are_there():
    pytest.importorskip("plotly")

    def damaged() -> list[str]:
        raise DataError("metrics.jsonl:3 is <damaged>", help="restore a copy")

    page = document("a", "b", [section("One", damaged), section("Two", lambda: ["fine"])])
    assert "metrics.jsonl:3 is &lt;damaged&gt;" in page
    assert "restore a copy" in page
    assert "fine" in page
    assert "http" not in page.replace("http-equiv", "")


def test_figures_stand_in_the_picture_of_their_kind():
    names = [
        "train/loss", "eval/loss", "train/loss/mlm", "train/loss/nsp", "eval/loss/mlm",
        "eval/loss/nsp", "train/lr", "train/grad_norm", "eval/accuracy/mlm", "eval/unigram_loss",
        "eval/sst2/dev/accuracy", "eval/de/mlm", "train/tokens_per_second",
    ]  # fmt: skip
    found = {panel.title: panel.names for panel in panels(names)}
    assert found["Loss"] == ("train/loss", "eval/loss", "eval/unigram_loss")
    assert found["Scores of sst2"] == ("eval/sst2/dev/accuracy",)
    assert found["Loss by language"] == ("eval/de/mlm",)
    assert {name for group in found.values() for name in group} == {*names}


def test_masked_positions_stand_in_pictures_in_place_of_all_predicted_ones():
    names = [
        "train/loss", "eval/loss", "eval/loss_masked", "train/loss/mlm", "eval/loss/mlm",
        "eval/loss/mlm_masked", "eval/loss/mlm_visible", "eval/accuracy/mlm",
        "eval/accuracy/mlm_masked", "eval/unigram_loss", "eval/unigram_loss/mlm",
        "eval/unigram_loss/mlm_masked", "eval/de/mlm", "eval/de/mlm_masked",
    ]  # fmt: skip
    found = {panel.title: panel.names for panel in panels(names)}
    assert found == {
        "Loss of each objective": (
            "train/loss/mlm", "eval/loss/mlm_masked", "eval/unigram_loss/mlm_masked",
        ),
        "Loss, all predicted positions": ("train/loss", "eval/loss", "eval/unigram_loss"),
        "Accuracy": ("eval/accuracy/mlm_masked",),
        "Loss by language": ("eval/de/mlm_masked",),
    }  # fmt: skip


def test_lines_of_what_a_run_took_are_read_but_for_a_half_one(tmp_path):
    path = tmp_path / "spent.jsonl"
    for memory in (5, 3):
        append_line(path, asdict(Usage("main", 2, 2, memory, {"steps": 0.5})))
    older = b'{"stage": "main", "step": 4, "parts": {"head": 0.1}, "profiled_seconds": 0.3}\n'
    path.write_bytes(path.read_bytes() + older + b'{"half')
    append_line(path, asdict(Usage("next", 5, 1, 4, {"batches": 1.0})))
    *main, later = RunFolder(tmp_path).read_spent()
    assert [line.memory_bytes for line in main] == [5, 3, 0]
    assert sum(line.seconds.get("steps", 0.0) for line in main) == 1.0
    assert later == Usage("next", 5, 1, 4, {"batches": 1.0})
    path.write_text("{}\n")
    with pytest.raises(DataError, match="spent.jsonl:1 is damaged"):
        RunFolder(tmp_path).read_spent()


def test_intervals_are_students():
    assert interval(Summary(0.5, 0.1, 0.6, 3)) == pytest.approx(4.30 * 0.1 / math.sqrt(3))
    assert interval(Summary(0.5, 0.0, 0.5, 1)) == 0.0


def test_curves_of_a_group_are_one_trace_with_gaps_and_not_too_many_points():
    points_of_run = tuple(
        MetricsPoint("eval", "main", step, 64 * step, 3.6 * step, {"eval/loss": 1.0}, 1e9 * step)
        for step in range(1, 3001)
    )
    runs = [RunCurves(f"run {n}", f"group {n % 2}", Curves(points_of_run)) for n in range(3)]
    legend, picture, note = curves_section(runs)
    assert "group 1" in str(legend)
    assert isinstance(picture, Picture)
    first, second = picture.traces
    assert len(first["x"]) == 2 * (1500 + 2), (
        "two runs, the last point of each, and a gap after each"
    )
    assert first["x"][1499:1502] == [2999, 3000, None]
    assert first["text"][-2] == "run 2"
    assert second["text"][0] == "run 1"
    (axes, _) = picture.layout["updatemenus"]
    assert [button["label"] for button in axes["buttons"]] == ["steps", "tokens", "hours", "FLOPs"]
    assert axes["buttons"][2]["args"][0]["x"][0][0] == pytest.approx(0.001)
    assert "A colour is a group" in str(note)


def test_the_cost_of_a_run_without_a_lock_is_that_of_the_estimate(tmp_path):
    (resolved,) = points("layers=1 hidden=32 heads=2 seq=64 vocab=100")
    folder = RunFolder(tmp_path)
    folder.start(resolved, "")
    assert estimated_cost(folder) == estimate(resolved, ELSEWHERE)
