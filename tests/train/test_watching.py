"""``bertc watch``: a run that is followed, its picture, and its page for this machine alone."""

import http.client
import io
import json
import threading
from http import HTTPStatus

import pytest
from rich.console import Console

from bertc.runs.following import Following
from bertc.watch.chart import DrawnCurve, chart
from bertc.watch.page import LivePage, PageServer
from bertc.watch.terminal import show_once, watch
from bertc.watch.view import WatchedRun


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


def test_a_run_is_read_on_and_read_again_where_it_was_cut_back(run):
    following = Following(run)
    assert not following.look()
    append(run, line(2), line(4))
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"kind": "train", "st')
    assert following.look()
    assert not following.look()
    assert [point.step for point in following.points] == [2, 4]
    # It goes on from step 2, and is beyond step 4 by the time of the next look.
    (run / "metrics.jsonl").write_text("")
    append(run, line(2), line(3), line(4), line(6))
    with open(run / "attempts.jsonl", "w") as file:
        file.write('{"step": 2, "time": 9.0, "host": "h", "device": "cpu", "processes": 1}\n')
    assert following.look()
    assert [point.step for point in following.points] == [2, 3, 4, 6]
    assert [attempt.step for attempt in following.attempts] == [2]


def test_the_view_has_rate_time_left_and_the_last_evaluation(run):
    append(run, line(2, lr=1e-3), line(4, lr=5e-4), line(4, "eval", accuracy={"\x1b[2Jmlm": 0.5}))
    view = WatchedRun(run).look()
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
        assert any("\u2801" <= c <= "\u28ff" for c in shown.getvalue())
    shown = io.StringIO()
    watch(run, Console(file=shown, width=80))  # no process trains it: it has ended
    first, second = shown.getvalue().splitlines()
    assert first.startswith(f"{run}: stopped, step 6 of 12")
    assert second.startswith("evaluation at step 4")


def test_curves_are_drawn_from_their_least_to_their_largest_value():
    (top, bottom) = chart(
        [DrawnCurve([0, 1, 2, 3], [0.0, 1.0, 2.0, 3.0], "red")], width=4, height=2
    )
    assert (top.plain, bottom.plain) == ("3  \u285c", "0 \u2878 ")
    assert chart([DrawnCurve([], [], "red")], 10, 3) == []
    flat = chart([DrawnCurve([1, 1], [2.0, 2.0], "red")], 20, 3)
    assert len(flat) == 3


@pytest.fixture
def server():
    """A page that says how often it was made, of a run that has one more figure each time."""
    made = []

    def make():
        made.append(1)
        return f"<html><body>{len(made)}</body></html>"

    server = PageServer(LivePage(make, lambda: f"v{len(made)}"))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def asked(server, path="/", host=None, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, headers={"Host": host or server.names[0]})
    response = connection.getresponse()
    content = response.read().decode()
    connection.close()
    return response, content


def test_the_page_is_served_to_this_machine_under_its_own_names_alone(server):
    assert server.server_address[0] == "127.0.0.1"
    for host in server.names:
        response, content = asked(server, host=host)
        assert response.status == HTTPStatus.OK
        assert content.startswith("<html><body>1<script>")
    for host in ("evil.example", f"evil.example:{server.server_port}", "127.0.0.1", "localhost"):
        response, content = asked(server, host=host)
        assert response.status == HTTPStatus.MISDIRECTED_REQUEST
        assert "<html" not in content
    for path in ("/spec.bertc", "/../spec.bertc", "//etc/passwd", "/?x", "http://evil.example/"):
        assert asked(server, path)[0].status == HTTPStatus.NOT_FOUND
    assert asked(server, method="POST")[0].status == HTTPStatus.NOT_IMPLEMENTED
    headers = asked(server)[0].headers
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"


def test_the_page_rests_after_it_was_made_and_its_errors_are_told(server):
    assert asked(server)[1] == asked(server)[1]
    assert asked(server, "/version")[1] == "v0"
    server.page._rest_until = 0.0
    assert asked(server, "/version")[1] == "v1"
    assert asked(server)[1].startswith("<html><body>2")
    server.page._rest_until = 0.0
    server.page._make = lambda: 1 / 0
    response, content = asked(server)
    assert response.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert "division by zero" in content
