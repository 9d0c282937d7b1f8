"""``bertc watch``: a run that is followed, and its picture."""

import io
import json

import pytest
from rich.console import Console

from bertc.lab.watch.terminal import show_once, watch
from bertc.lab.watch.view import look, sparkline


def line(step, kind="train", **more):
    loss = 5.0 - step / 10
    return {"kind": kind, "step": step, "stage": "main", "tokens": step * 64,
            "seconds": step / 2, "loss": loss, "losses": {"mlm": loss}, **more}  # fmt: skip


@pytest.fixture
def run(tiny, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "resolved.json").write_text(tiny().model_dump_json())
    return folder


def append(run, *lines):
    with open(run / "metrics.jsonl", "a") as file:
        file.writelines(json.dumps(each) + "\n" for each in lines)


def test_a_run_is_read_as_it_is_now_to_its_last_whole_line(run):
    assert look(run).points == []
    append(run, line(2), line(4))
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"kind": "train", "st')
    assert [point.step for point in look(run).points] == [2, 4]
    # It goes on from step 2, and is beyond step 4 by the time of the next look.
    (run / "metrics.jsonl").write_text("")
    append(run, line(2), line(3), line(4), line(6))
    assert [point.step for point in look(run).points] == [2, 3, 4, 6]


def test_the_view_has_rate_time_left_and_the_last_evaluation(run):
    append(run, line(2, lr=1e-3), line(4, lr=5e-4), line(4, "eval", accuracy={"\x1b[2Jmlm": 0.5}))
    view = look(run)
    # Half a second a step, eight of which are left.
    assert view.seconds_left == pytest.approx(4.0)
    assert "step 4 of 12" in view.line()
    assert "rate 0.0005, tokens/s 128" in view.line()
    assert "evaluation at step 4: loss 4.6" in view.evaluation_line()
    assert "\x1b" not in view.evaluation_line()


def test_a_picture_fits_its_width_and_lines_go_where_there_is_no_terminal(run):
    append(run, line(2, lr=1e-3), line(4, lr=5e-4), line(4, "eval"), line(6, lr=1e-4))
    for width in (40, 120):
        shown = io.StringIO()
        show_once(run, Console(file=shown, force_terminal=True, width=width, color_system=None))
        lines = shown.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        assert any("learning rate" in each for each in lines)
        assert "█▄▁" in shown.getvalue()
    shown = io.StringIO()
    watch(run, Console(file=shown, width=80))  # no process trains it: it has ended
    first, second = shown.getvalue().splitlines()
    assert first.startswith(f"{run}: stopped, step 6 of 12")
    assert second.startswith("evaluation at step 4")


def test_a_line_of_blocks_is_from_the_lowest_to_the_highest_value():
    assert sparkline([0.0, 1.0, 2.0, 3.0], 4) == "▁▃▆█"
    assert sparkline([1.0, 0.0, 1.0], 2) == "▁█"
    assert sparkline([2.0, 2.0], 10) == "▁▁"
