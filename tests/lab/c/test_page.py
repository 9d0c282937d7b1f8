"""The page of the docs, which runs a program in C in a browser."""

import json
import re
import shutil
import subprocess
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from bertc import load
from tests.lab.onnx.conftest import NETWORK, TEXTS, run_of

DOCS = Path(__file__).parents[3] / "docs/how-to"


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that prints nothing."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_page_answers_as_bertc_does(tmp_path, monkeypatch, tasks, call, browser):
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    run = run_of(Path("runs/mine"), f"{NETWORK} task={tasks['classify']}")
    assert call("build", "runs/mine", "-o", "mine.c")[0] == 0
    page = (DOCS / "anywhere.md").read_text()
    (command,) = re.findall(r"^clang .*?(?=\n```)", page, re.DOTALL | re.MULTILINE)
    made = subprocess.run(command, shell=True, capture_output=True, text=True)
    if made.returncode and ("not found" in made.stderr or "No such file" in made.stderr):
        pytest.skip("there is no clang for WebAssembly on this machine")
    assert made.returncode == 0, made.stderr
    shutil.copy(DOCS / "anywhere.html", "index.html")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    Thread(target=server.serve_forever, daemon=True).start()
    opened, labels = browser.new_page(), load(run).predict(TEXTS)
    opened.goto(f"http://127.0.0.1:{server.server_port}/")
    opened.wait_for_selector("#text:not([disabled])")
    for text, wanted in zip(TEXTS, labels, strict=True):
        opened.fill("#text", text)
        said = json.loads(opened.inner_text("#answer"))
        assert said == pytest.approx([*wanted["probabilities"].values()], abs=2e-6)
    Path("mine.weights").write_bytes(b"bertc C")
    opened.reload()
    opened.wait_for_function("document.getElementById('answer').innerText != 'loading'")
    assert "damaged" in opened.inner_text("#answer")
    server.shutdown()
    server.server_close()
