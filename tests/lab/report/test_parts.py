"""Pages and their parts: escaping, pictures, and all of it drawn in a browser without errors."""

import itertools
import json
import math
import re
from dataclasses import asdict
from typing import Any

import pytest
from scipy import stats

from bertc import estimate, lab_api, train
from bertc.base.diagnostics import DataError, Table
from bertc.base.diagnostics.render import html_text
from bertc.cost.planning.plan import Plan
from bertc.lab.report.cost import ELSEWHERE, estimated_cost
from bertc.lab.report.curves import RunCurves, curves_section, panels
from bertc.lab.report.markup import Html, element, in_picture, joined
from bertc.lab.report.page import document, section
from bertc.lab.report.report import report_page
from bertc.lab.results.curves import Curves, MetricsPoint
from bertc.lab.results.groups import Summary, interval
from bertc.run.records.folder import RunFolder
from bertc.run.records.lock import Lock
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

    def damaged():
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
    pytest.raises(DataError, RunFolder(tmp_path).read_spent).match("spent.jsonl:1 is damaged")


def test_intervals_are_students():
    for runs in (2, 3, 15, 16, 40):
        half = stats.t.ppf(0.975, runs - 1) * 0.1 / math.sqrt(runs)
        assert interval(Summary(0.5, 0.1, 0.6, runs)) == pytest.approx(half, rel=5e-4)
    assert interval(Summary(0.5, 0.0, 0.5, 1)) == 0.0


def test_curves_of_a_group_are_one_trace_with_gaps_and_not_too_many_points():
    points_of_run = tuple(
        MetricsPoint("eval", "main", step, 64 * step, 3.6 * step, {"eval/loss": 1.0}, 1e9 * step)
        for step in range(1, 3001)
    )
    runs = [RunCurves(f"run {n}", f"group {n % 2}", Curves(points_of_run)) for n in range(3)]
    legend, picture, note = curves_section(runs)
    assert "group 1" in str(legend)
    first, second = picture.traces
    # Of two runs, with the last point of each and a gap after each.
    assert len(first["x"]) == 2 * (1500 + 2)
    assert first["x"][1499:1502] == [2999, 3000, None]
    assert first["text"][-2] == "run 2"
    assert second["text"][0] == "run 1"
    (axes, _) = picture.layout["updatemenus"]
    assert [button["label"] for button in axes["buttons"]] == ["steps", "tokens", "hours", "FLOPs"]
    assert axes["buttons"][2]["args"][0]["x"][0][0] == pytest.approx(0.001)
    assert "A colour is a group" in str(note)


def test_the_cost_of_a_run_without_a_lock_is_that_of_the_estimate(tmp_path):
    (resolved,) = lab_api.points("layers=1 hidden=32 heads=2 seq=64 vocab=100")
    folder = RunFolder(tmp_path)
    folder.start(resolved, "")
    assert estimated_cost(folder) == estimate(resolved, ELSEWHERE)


HOSTILE = "<img src=x onerror=alert(1)> \u202e\"'&amp;"
MOST_SHOWN = "<img src=x onerror=alert(1)> \\u202e\"'&amp;"
SPEC = "extends bert-tiny layers=1 hidden=32 heads=2 vocab=100 data=files('none.txt') seq=16 "
SPEC += "log_every=1 eval_every=2 objective=mlm "
TRAINED = "layers=2 hidden=32 heads=2 ffn=64 seq=24 batch=4 steps=2 vocab=wordpiece(80) device=cpu "
TRAINED += "data=files('{}', sentences=lines) holdout=30% eval_examples=4 log_every=1 compile=off"
STAGES = "stage 'a <b>' { steps=6 seq=8 } stage 'z' { steps=6 }"


def trained(folder, spec, loss=5.0):
    """A run folder with metrics of all its steps, in which nothing was trained."""
    (resolved,) = lab_api.points(spec)
    folder.mkdir(parents=True)
    run = RunFolder(folder)
    run.start(resolved, spec)
    stages = len(resolved.stages)
    plan = Plan("cpu", "fp32", (1,) * stages, (False,) * stages, False, ())
    content = {
        "schema": 1, "resolved": "", "data": "", "init": "", "threads": 1,
        "plan": json.loads(json.dumps(vars(plan))), "machine": {"name": "x"}, "versions": {},
    }  # fmt: skip
    Lock.model_validate_json(json.dumps(content)).write(run.lock)
    lines = []
    for stage in resolved.stages:
        for step in range(stage.first_step + 1, stage.first_step + stage.steps + 1):
            line: dict[str, Any] = {
                "kind": "train", "step": step, "stage": stage.name, "loss": loss / step,
                "losses": {"mlm": loss / step}, "tokens": 64 * step, "seconds": 0.5 * step,
            }  # fmt: skip
            lines.append({**line, "lr": 1e-4, "grad_norm": 1.0})
            if step % 2 == 0:
                lines.append({**line, "kind": "eval", "accuracy": {"mlm": 0.1}})
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    attempt = {"time": 1e9, "host": HOSTILE, "device": "cpu", "processes": 1}
    for step in (0, 7):
        append_line(run.attempts, {"step": step, **attempt})
    return folder


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    pytest.importorskip("plotly", reason="plotly is not installed")
    folder = tmp_path_factory.mktemp("pages")
    trained(folder / HOSTILE, f"{SPEC} batch=4 {STAGES}")
    for lr, batch, seed in itertools.product(("1e-3", "3e-3"), (4, 8), (1, 2)):
        spec = f"{SPEC} steps=6 optimizer=adamw({lr}) batch={batch} seed={seed}"
        trained(folder / "grid" / f"{lr}-{batch}-{seed}", spec, 5 + seed + batch)
    text = folder / "<i>.txt"
    words = ("barn", "owl", "<b>", "hay", "mouse", "night", "straw", "field", "moon")
    lines = [" ".join(words[(n * k + n) % 9] for k in range(12)) for n in range(60)]
    text.write_text("\n".join(lines) + "\n")
    rows = folder / "rows.tsv"
    rows.write_text("text\tlabel\n" + "".join(f"{line}\t<{len(line) % 2}>\n" for line in lines))
    found = {name: folder / name for name in (HOSTILE, "grid", "trained", "judged")}
    found["one"] = found.pop(HOSTILE)
    written = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTC_CACHE", str(folder / "cache"))
        train(TRAINED.format(text), folder / "trained")
        train(f"{TRAINED.format(text)} task=classify('{rows}', '{rows}')", folder / "judged")
        for name, run in found.items():
            written[name] = folder / f"{name}.html"
            written[name].write_text(report_page([run]))
            assert written[name].read_text() == report_page([run]), "the same of the same runs"
    return written


def test_a_run_opens_with_what_one_wants_to_know_and_its_cost_with_its_time(pages):
    found = pages["trained"].read_text()
    for what in ("training steps", "waiting for batches", "evaluations", "saving"):
        assert re.search(rf">{what}</td><td[^>]*></td><td[^>]*>[\d.]+ \w+, \d+%</td>", found), what
    assert [lab_api.units.count_text(n) for n in (462.7, 999.6, 1500)] == ["463", "1.00k", "1.50k"]
    found = re.findall("<h2>(.*?)</h2>", pages["trained"].read_text())
    assert found == ["Result", "Curves", "Cost", "Spec"]


INSIDE = """[...document.querySelectorAll('.plotly-graph-div')].filter(plot =>
    plot.querySelector('.main-svg').getBoundingClientRect().width
    > plot.closest('figure').clientWidth + 1).map(plot => plot.id)"""
"""The pictures that are wider than their column."""


@pytest.mark.parametrize("name", ["one", "grid", "trained"])
def test_a_page_is_drawn_without_errors_and_does_not_scroll_sideways(name, pages, browser):
    page, errors = browser.new_page(), []
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: errors.append(dialog.message))
    page.on("request", lambda sent: errors.append(sent.url) if "http" in sent.url else None)
    drawn = "document.querySelectorAll('.main-svg .plot, .main-svg .cartesianlayer').length"
    for width in (420, 700, 1300):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(pages[name].as_uri())  # pictures are drawn while the page is read
        plots = page.locator(".plotly-graph-div").count()
        assert plots >= 3
        page.wait_for_function(f"{drawn} >= {plots}")
        page.wait_for_function(f"document.querySelectorAll('.main-svg').length >= {plots}")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(INSIDE) == []
    text = page.locator("body").inner_text()
    if name == "trained":
        assert "<i>.txt" in text
        assert "training steps" in text
        assert re.search(r"memory at its peak\s+[\d.,]+ [KM]iB\s+[\d.,]+ [MG]iB", text)
    if name == "grid":
        assert "optimizer" in text
        assert page.locator("h3", has_text="batch").count() == 1
    if name == "one":
        assert page.locator("h1").inner_text() == MOST_SHOWN
        assert MOST_SHOWN in page.evaluate("document.body.textContent")
        assert "a <b>" in page.locator(".plotly-graph-div").first.inner_text()
        page.locator(".updatemenu-header").first.click()
        page.locator(".updatemenu-dropdown-button").nth(1).click()
        plot = "document.querySelector('.plotly-graph-div')"
        page.wait_for_function(f"{plot}.layout.xaxis.title.text === 'tokens'")
        assert page.evaluate(f"[...{plot}.data[0].x]")[1] == 128
    assert not errors
    page.close()
