"""Commands as a user calls them: what they print where, and the exit code they end with."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bertc import cli
from bertc.diagnostics import (
    CannotWriteError,
    DataError,
    MachineError,
    MissingInputError,
    ResumeRefusedError,
    StoppedError,
    UnsafeError,
    UsageError,
)
from bertc.failures import exit_code


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run a command in this process; its exit code."""
    monkeypatch.setattr("sys.argv", ["bertc", *arguments])
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["check", "bert-base"], 0),
        (["check", "hiden=3"], 1),
        (["check", "bert-base", "layers=none"], 1),
        (["estimate", "bert-tiny"], 0),
        (["estimate", "layers=0"], 65),
        (["estimate", "bert-tiny", "--device", "abacus"], 2),
        (["estimate", "bert-bsae"], 66),
        (["estimate", "nowhere/spec.bertc"], 66),
        (["explain", "E201"], 0),
        (["explain", "E999"], 2),
        (["build", "bert-tiny", "--emit", "weights"], 0),
        (["build", "bert-tiny", "--emit", "nothing"], 2),
        (["train", "E={64, 128}", "--nproc", "2"], 2),
        (["eval", "nowhere"], 66),
        (["fill", "nowhere", "a [MASK]"], 66),
        (["export", "nowhere", "--to", "elsewhere"], 66),
        (["results", "nowhere"], 66),
        (["import", "nowhere", "--out", "elsewhere"], 66),
        (["nosuch"], 2),
        ([], 2),
        (["--help"], 0),
        (["--version"], 0),
        (["slurm", "bert-tiny", "--time", "24h"], 2),
    ],
)
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
) -> None:
    assert call(monkeypatch, *arguments) == code
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    # Findings of check and results go to stdout; what went wrong goes to stderr alone.
    assert (out if code in (0, 1) else err).strip()
    assert code in (0, 1, 2) or not out


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (DataError("x"), 65),
        (MissingInputError("x"), 66),
        (CannotWriteError("x"), 74),
        (StoppedError("x"), 75),
        (ResumeRefusedError("x"), 76),
        (UnsafeError("x"), 77),
        (MachineError("x"), 78),
        (OSError(28, "No space left on device"), 74),
        (MemoryError(), 78),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_failure_has_its_code(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(error, color=False) == code
    stopped = isinstance(error, StoppedError)
    assert capsys.readouterr().err.startswith("x" if stopped else "error: ")


def test_a_mistake_of_ours_leaves_a_report_and_no_traceback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert exit_code(ZeroDivisionError("inside"), color=False) == 70
    (report,) = tmp_path.iterdir()
    err = capsys.readouterr().err
    assert str(report) in err
    assert "Traceback" not in err
    assert "ZeroDivisionError: inside" in report.read_text()


SMALL = b"layers=2 hidden=64 heads=2 # small\n"


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Put bytes where commands read their standard input."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))


@pytest.mark.parametrize(
    ("arguments", "text", "code", "said"),
    [
        (["check", "-"], SMALL, 0, "-: fine"),
        (["check", "-", "-"], SMALL, 0, "-: fine\n-: fine"),
        (["check", "-"], b"heads=7", 1, "<stdin>:1:1"),
        (["check", "-"], b"seed=1 # \xff", 66, "not UTF-8 text"),
        (["estimate", "-"], SMALL, 0, "parameters"),
        (["build", "-", "--emit", "tree"], SMALL, 0, "hidden"),
        # A batch script has no standard input of ours: it takes the text along.
        (["slurm", "-"], SMALL, 0, "train 'layers=2 hidden=64 heads=2 # small\n' --resume"),
    ],
)
def test_a_spec_from_standard_input(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    standard_input: Callable[[bytes], None],
    arguments: list[str],
    text: bytes,
    code: int,
    said: str,
) -> None:
    standard_input(text)
    assert call(monkeypatch, *arguments) == code
    out, err = capsys.readouterr()
    assert said in out + err


def test_check_looks_for_the_files_that_data_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.en").write_text("One.\n")
    (tmp_path / "text").mkdir()
    spec = 'data=files("a.en") + files("text") + pairs(en="a.en", fr="a.fr") steps=10'
    assert call(monkeypatch, "check", spec) == 1
    out = capsys.readouterr().out
    assert out.count("error[E307]") == 2
    assert "text is a folder" in out
    assert "no file matches a.fr" in out
    (tmp_path / "a.fr").write_text("Un.\n")
    assert call(monkeypatch, "check", spec.replace('files("text") + ', "")) == 0
    assert call(monkeypatch, "estimate", spec) == 0  # what a run costs needs no text
    capsys.readouterr()
    assert call(monkeypatch, "check", 'init="runs/gone" vocab=1k') == 1
    assert "error[E265]" in capsys.readouterr().out


def test_json_is_all_that_stdout_gets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "layers=12 share=attention E=128 objective=sop+span"
    assert call(monkeypatch, "estimate", line, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == 1
    assert found["parameters"]["encoder"] == 63_714_048
    assert call(monkeypatch, "estimate", "albert-sharing-grid", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["points"]) == 16


def test_remarks_are_no_mistakes_and_stand_beside_what_is_fine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    spec = "hidden=100 layers=1 optimizer=adamw(lr=10%)"
    assert call(monkeypatch, "check", spec) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{spec}: fine\nremark[R101]: ")
    assert "\nremark[R102]: " in out
    # Before the hours are spent too: on stderr, whatever comes of the run.
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "train", f"{spec} data=files('gone.txt')", "--dry-run") == 66
    assert "remark[R101]: " in capsys.readouterr().err
