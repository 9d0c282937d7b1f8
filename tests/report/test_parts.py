"""Parts of pages without a browser: thinning, escaping, parts that cannot be made."""

import math
from pathlib import Path

import pytest

from bertc.api import points
from bertc.diagnostics import DataError, Table, html_text
from bertc.estimate import estimate
from bertc.external import row_lengths
from bertc.report.axes import time_unit
from bertc.report.cost import ELSEWHERE, told_cost
from bertc.report.curves import RunCurves, curves_section, panels
from bertc.report.grid import is_grid
from bertc.report.markup import Html, element, in_picture, joined, table_of
from bertc.report.names import with_short_settings
from bertc.report.page import Picture, document, section
from bertc.report.plotly_js import labels_axis, plotly_js
from bertc.report.spec import spec_section
from bertc.report.thinning import rounded, smoothed, thinned
from bertc.runs.curves import Curves, MetricsPoint
from bertc.runs.folder import RunFolder
from bertc.runs.groups import Group, Summary
from bertc.runs.intervals import interval
from bertc.runs.spent import Usage, append, by_stage, read


def test_thinning_keeps_ends_peaks_and_order() -> None:
    x = [*range(10_000)]
    y = [math.sin(each / 500) for each in x]
    y[6789] = 40.0
    kept = thinned(x, y, 200).tolist()
    assert len(kept) == 200
    assert (kept[0], kept[-1]) == (0, 9999)
    assert kept == sorted({*kept})
    assert 6789 in kept
    assert thinned(x[:50], y[:50], 200).tolist() == x[:50]


def test_a_smoothed_constant_is_the_constant_and_noise_is_less() -> None:
    assert smoothed([3.0] * 500) == pytest.approx([3.0] * 500)
    noise = [(-1.0) ** each for each in range(500)]
    assert max(map(abs, smoothed(noise)[100:])) < 0.2
    assert rounded([1.23456789, 3.0, 4e20]) == [1.23457, 3, 4e20]


def test_text_is_text_wherever_it_is_put() -> None:
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
    assert "<b" not in table_of((hostile,), [(hostile, [hostile])])
    assert in_picture("<b>&\n") == "&lt;b&gt;&amp; "


def test_a_task_costs_on_the_page_what_the_estimate_says(tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hens", "ducks"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    (tmp_path / "a.tsv").write_text("text\tlabel\n" + "hens\tx\nducks\ty\n" * 4)
    (resolved,) = points(
        f"layers=1 hidden=32 heads=2 seq=64 vocab=tokenizer('{tmp_path}') device=cpu "
        f"task=classify('{tmp_path}/a.tsv', '{tmp_path}/a.tsv')"
    )
    assert row_lengths([resolved]) == [(3,)]
    told = told_cost(resolved, None, row_lengths)
    assert told == estimate(resolved, ELSEWHERE, lengths=(3,))
    assert told.flops.train_total < estimate(resolved, ELSEWHERE).flops.train_total / 5


def test_a_part_that_cannot_be_made_says_why_and_the_others_are_there() -> None:
    pytest.importorskip("plotly")

    def damaged() -> list[str]:
        raise DataError("metrics.jsonl:3 is <damaged>", help="restore a copy")

    page = document("a", "b", [section("One", damaged), section("Two", lambda: ["fine"])])
    assert "metrics.jsonl:3 is &lt;damaged&gt;" in page
    assert "restore a copy" in page
    assert "fine" in page
    assert "http" not in page.replace("http-equiv", "")


def test_figures_stand_in_the_picture_of_their_kind() -> None:
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


def test_masked_positions_stand_in_pictures_in_place_of_all_predicted_ones() -> None:
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


def test_axes_have_units_that_fit_and_show_what_is_constant() -> None:
    assert time_unit(7 * 3600) == ("hours", 3600)
    assert time_unit(119) == ("seconds", 1)
    assert time_unit(0.2) == ("milliseconds", 1e-3)
    points = tuple(
        MetricsPoint("eval", "main", step, 0, 1e5 * step, {"eval/accuracy/mlm": 0.25}, 1e9)
        for step in (1, 2)
    )
    *_, controls, picture, _ = curves_section([RunCurves("", 0, Curves(points, ()))])
    assert isinstance(picture, Picture)
    assert "tokens" not in str(controls)
    assert picture.along == {"steps": [[1, 2]], "hours": [[27.7778, 55.5556]], "FLOPs": [[1e9] * 2]}
    low, high = picture.figure["layout"]["yaxis"]["range"]
    assert 0.2 < low < 0.25 < high < 0.3
    many = [RunCurves(f"run {n}", n, Curves(points, ())) for n in range(30)]
    picture = curves_section(many)[-2]
    assert isinstance(picture, Picture)
    assert len(picture.figure["data"]) == 10, "a trace a colour"
    assert picture.names is not None
    assert picture.names[3] == [("run 3", 3), ("run 13", 3), ("run 23", 3)]


def test_the_script_is_compiled_early_and_long_labels_have_room() -> None:
    pytest.importorskip("plotly")
    script = plotly_js()
    assert ": this, (() => {" in script[:1000], "plotly's script begins in another way now"
    assert script.rstrip().endswith("})));")
    assert not labels_axis(["8", "16"])["automargin"]
    assert labels_axis(["8", "adamw(0.1)"])["automargin"]
    assert labels_axis(["100"] * 20)["automargin"]


def test_a_grid_has_more_points_than_settings() -> None:
    def groups(*settings: dict[str, str]) -> list[Group]:
        return [Group(each, ()) for each in settings]

    assert is_grid(groups({"lr": "1"}, {"lr": "2"}))
    assert not is_grid(groups({"lr": "1", "seq": "8"}, {"lr": "2", "seq": "16"}))
    assert not is_grid(groups({"lr": "1"}))


def test_a_spec_is_shown_with_what_was_set_in_its_place(tmp_path: Path) -> None:
    spec = "layers=1 hidden=32 heads=2 vocab=100 data=files('x') steps=9 objective=mlm"
    (resolved,) = points(spec, ["steps=5"])
    folder = RunFolder(tmp_path)
    folder.start(resolved, f"{spec}  # mine\n\n# --set steps=5\n")
    shown = str(joined(spec_section(folder, None)))
    assert "# mine</code>" in shown
    assert "In place of what is written there: <code>steps=5</code>" in shown
    assert "<td>steps</td><td>5</td>" in shown


def test_lines_of_what_a_run_took_add_up(tmp_path: Path) -> None:
    path = tmp_path / "spent.jsonl"
    for memory in (5, 3):
        append(path, Usage("main", 2, 2, memory, {"steps": 0.5}))
    older = b'{"stage": "main", "step": 4, "parts": {"head": 0.1}, "profiled_seconds": 0.3}\n'
    path.write_bytes(path.read_bytes() + older + b'{"half')
    append(path, Usage("next", 5, 1, 4, {"batches": 1.0}))
    found = by_stage(read(path))
    assert found["main"] == Usage("main", 4, 4, 5, {"steps": 1.0})
    assert found["next"].memory_bytes == 4
    path.write_text("{}\n")
    with pytest.raises(DataError, match="spent.jsonl:1 is damaged"):
        read(path)


def test_intervals_are_students() -> None:
    assert interval(Summary(0.5, 0.1, 0.6, 3)) == pytest.approx(4.30 * 0.1 / math.sqrt(3))
    assert interval(Summary(0.5, 0.0, 0.5, 1)) == 0.0


def test_values_of_settings_are_told_by_what_differs() -> None:
    def names(*texts: str) -> list[str]:
        groups = [Group({"optimizer": text}, ()) for text in texts]
        return [group.settings["optimizer"] for group in with_short_settings(groups)]

    assert names("adamw(lr=0.1, s=f(a, b))", "adamw(s=f(a, b))") == ["adamw(lr=0.1)", "adamw"]
    assert names("16", "8") == ["16", "8"]
    assert names("x" * 50 + "1", "x" * 50 + "2") == ["x" * 50 + "1", "x" * 50 + "2"]
    assert names("x" * 50, "y")[0].endswith("…")
