"""Parts of pages without a browser: thinning, escaping, parts that cannot be made."""

import math

import pytest

from bertc.diagnostics import DataError, html_table, html_text
from bertc.report.curves import panels
from bertc.report.markup import Html, element, in_picture, joined, table_of
from bertc.report.names import with_short_settings
from bertc.report.page import document, section
from bertc.report.scores import interval
from bertc.report.thinning import rounded, smoothed, thinned
from bertc.runs.groups import Group, Summary


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
    assert html_text(hostile) in html_table("", ("", ""), [(hostile, "")])
    assert html_text(hostile) in shown
    assert html_text("a\n\tb") == "a\n\tb"
    assert "<b" not in table_of((hostile,), [(hostile, [hostile])])
    assert in_picture("<b>&\n") == "&lt;b&gt;&amp; "


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
