"""Commands as a user calls them: what they print where, and the exit code they end with."""

import contextlib
import errno
import io
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bertc import resolve
from bertc.base import diagnostics
from bertc.base.diagnostics import Diagnostic, SpecError, StoppedError
from bertc.base.failures import exit_code
from bertc.base.storage.paths import shipped_specs
from bertc.cli import options
from bertc.cli.app import app as commands
from bertc.cli.options import HELP_GROUPS
from tests.hub.programs import bert_folder

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that commands run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


ENDS = {
    0: ("check bert-base", "check layers=2 layers=4", "estimate bert-tiny", "explain E201",
        "build bert-tiny --emit weights", "--help", "-h", "fit -h", "-V"),
    1: ("check hiden=3", "check bert-base layers=none"),
    2: ("estimate bert-tiny --device abacus", "explain E999", "build bert-tiny --emit nothing",
        "train 'E={64, 128}' --nproc 2", "nosuch", "", "estimate bert-tiny --diff",
        "estimate bert-tiny bert-mini --diff --where", "bench bert-tiny --predict",
        "bench bert-tiny --latency --rounds 3", "runs nowhere --plot x.png"),
    65: ("estimate layers=0",),
    66: ("estimate bert-bsae", "estimate nowhere/spec.bertc", "eval nowhere", "runs nowhere",
         "fill nowhere 'a [MASK]'", "export nowhere --to elsewhere", "runs nowhere --results",
         "import nowhere --out elsewhere"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("line", "code"), [(line, code) for code, lines in ENDS.items() for line in lines]
)
def test_exit_codes(call: Call, line: str, code: int) -> None:
    ended, out, err = call(*shlex.split(line))
    assert ended == code
    assert "Traceback" not in out + err
    # Findings of check and results go to stdout; what went wrong goes to stderr alone.
    assert (out if code in (0, 1) else err).strip()
    assert code in (0, 1, 2) or not out


def test_help_has_every_command_once_in_its_group_with_a_sentence() -> None:
    shown = CliRunner().invoke(commands, ["--help"], terminal_width=80).output
    names = [name for group in HELP_GROUPS.values() for name in group]
    assert sorted(names) == sorted(typer.main.get_command(commands).commands)  # type: ignore[attr-defined]
    assert len(names) == len({*names}) <= 29
    assert all(f"\n{group}:\n" in shown for group in HELP_GROUPS)
    sentences = re.findall(r"^  ([a-z-]+)  +(\S.*(?:\n {4,}\S.*)*)", shown, re.MULTILINE)
    described = {name: text for name, text in sentences if not name.startswith("--")}
    assert [*described] == names
    assert all(text.endswith(".") and "..." not in text for text in described.values())


CODES = {
    "Usage": 2, "Data": 65, "MissingInput": 66, "CannotWrite": 74, "Stopped": 75,
    "ResumeRefused": 76, "Unsafe": 77, "Machine": 78,
}  # fmt: skip


@pytest.mark.parametrize(("error", "code"), [
    *((getattr(diagnostics, f"{name}Error")("x"), code) for name, code in CODES.items()),
    (SpecError((Diagnostic("E101", "x"),)), 65),
    (OSError(28, "No space left on device"), 74),
    (OSError(errno.ENAMETOOLONG, "File name too long", "xxx"), 66),
    (OSError(errno.EMFILE, "Too many open files"), 78),
    (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), 78),
    (MemoryError(), 78),
    (KeyboardInterrupt(), 130),
])  # fmt: skip
def test_every_failure_has_its_code(error, code, capsys):
    assert exit_code(error, color=False) == code
    assert getattr(error, "exit_code", code) == code  # as a script that catches it reads it
    stopped = isinstance(error, StoppedError)
    assert capsys.readouterr().err.startswith("x" if stopped else "error")


def test_a_reader_that_leaves_is_no_error(monkeypatch, command):
    read, write = os.pipe()
    os.close(read)
    with monkeypatch.context() as closed, os.fdopen(write, "w") as left:
        closed.setattr("sys.stdout", left)
        assert command("specs") == 0


def test_a_mistake_of_ours_leaves_a_report_and_no_traceback(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert exit_code(ZeroDivisionError("inside"), color=False) == 70
    (report,) = tmp_path.iterdir()
    err = capsys.readouterr().err
    assert str(report) in err
    assert "Traceback" not in err
    assert "ZeroDivisionError: inside" in report.read_text()


SMALL = b"layers=2 hidden=64 heads=2 # small\n"


@pytest.mark.parametrize(("arguments", "text", "code", "said"), [
    (["check", "-"], SMALL, 0, "-: fine"),
    (["check", "-", "-"], SMALL, 0, "-: fine\n-: fine"),
    (["check", "-"], b"heads=7", 1, "<stdin>:1:1"),
    (["check", "-"], b"seed=1 # \xff", 1, "not UTF-8 text"),
    (["estimate", "-"], SMALL, 0, "parameters"),
    (["build", "-", "--emit", "tree"], SMALL, 0, "hidden"),
])  # fmt: skip
def test_a_spec_from_standard_input(monkeypatch, call, arguments, text, code, said):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    ended, out, err = call(*arguments)
    assert ended == code
    assert said in out + err


def test_check_looks_for_the_files_that_data_names(call: Call, here: Path) -> None:
    (here / "a.en").write_text("One.\n")
    (here / "text").mkdir()
    spec = 'data=files("a.en") + files("text") + pairs(en="a.en", fr="a.fr") steps=10'
    code, out, _ = call("check", spec)
    assert code == 1
    assert out.count("error[E307]") == 2
    assert "text is a folder" in out
    assert "no file matches a.fr" in out
    (here / "a.fr").write_text("Un.\n")
    assert call("check", spec.replace('files("text") + ', ""))[0] == 0
    assert call("estimate", spec)[0] == 0  # what a run costs needs no text
    assert "error[E265]" in call("check", 'init="runs/gone" vocab=1k')[1]
    focused = 'init=run("runs/gone", embeddings=focus("v.txt")) vocab=wordpiece(1k)'
    assert "there is no file v.txt" in call("check", focused)[1]
    (here / "runs" / "gone-on").mkdir(parents=True)
    code, out, _ = call("check", 'init="runs/gone" vocab=1k')
    assert (code, "help: did you mean runs/gone-on?" in out) == (1, True)


def test_check_goes_on_after_a_spec_whose_files_are_wrong(call: Call, here: Path) -> None:
    (here / "empty.tsv").touch()
    (here / "a.tsv").write_text("text\tlabel\ngood\tyes\nbad\tno\n")
    gone, empty = "task=classify('gone.tsv')", "task=classify('empty.tsv')"
    untested = "task=classify('a.tsv', test='bad/nope.tsv')"
    code, out, err = call("check", gone, empty, untested, "nosuch-spec", "hiden=3")
    assert code == 1
    assert out.count("error[E309]") == 3
    assert "no test file bad/nope.tsv" in out
    assert "error[E101]" in out
    assert not err
    search = "embed('w.tsv', corpus='x.jsonl', queries='y.jsonl', relevant='z.tsv')"
    _, out, _ = call("check", f"task={search}")
    assert {"w", "x", "y", "z"} <= {*re.findall(r"(\w)\.", out.split("-->", 1)[1])}


def test_check_finds_columns_and_remarks_what_another_encoding_left(call: Call, here: Path) -> None:
    (here / "a.tsv").write_text("words\tlabel\ngood\tyes\nL\x92art\tno\n", encoding="utf-8")
    (here / "b.tsv").write_text("english\tfrench\nOne.\tUn.\n")
    for data, column in (("files('a.tsv')", "text"), ("pairs('b.tsv', en='english', fr='x')", "x")):
        code, out, _ = call("check", f"data={data} objective=mlm")
        assert (code, f"tsv:1: no column '{column}'; there are " in out) == (1, True)
        assert 'if line 1 names none, they are called "0", "1" and so on' in out
        assert "column=" in out or column == "x"
    for spec in ("data=files('a.tsv', column=words)", "task=classify('a.tsv', text=words)"):
        code, out, _ = call("check", spec)
        assert (code, "remark[R129]: a.tsv: 1 control character of U+0080" in out) == (0, True)
    for name in "cd":  # the second ends within a character
        (here / f"{name}.txt").write_bytes(b"\xe9" if name == "d" else b"\xe9\xff\n")
    out = call("check", "data=files('c.txt')+files('d.txt') objective=mlm")[1]
    assert all(f"{name}.txt:1: byte 0xe9 is not UTF-8" in out for name in "cd")


def test_an_estimate_names_the_device_assumed_and_json_is_all_that_stdout_gets(call: Call) -> None:
    line = "An H200 is assumed: name another device with --device cpu, a100, ...\n"
    for named, assumed in (((), True), (("--device", "h200"), False)):
        code, out, _ = call("estimate", "bert-tiny", *named)
        assert (code, line in out) == (0, assumed)
    line = "layers=12 share=attention E=128 objective=sop+span"
    code, out, _ = call("estimate", line, "--json")
    found = json.loads(out)
    assert (code, found["schema"]) == (0, 1)
    assert found["parameters"]["encoder"] == 63_714_048
    assert len(json.loads(call("estimate", "albert-sharing-grid", "--json")[1])["points"]) == 16


@pytest.mark.usefixtures("here")
def test_remarks_are_printed_with_what_is_fine_one_for_several_stages(call: Call) -> None:
    spec = "hidden=100 layers=1 optimizer=adamw(lr=10%)"
    code, out, _ = call("check", spec)
    assert code == 0
    assert out.startswith(f"{spec}: fine\nremark[R101]: ")
    assert "\nremark[R102]: " in out
    # Before the hours are spent too: on stderr, whatever comes of the run.
    code, _, err = call("train", f"{spec} data=files('gone.txt')")
    assert (code, "remark[R101]: " in err) == (66, True)
    stage = 'stage "{}" {{ steps=5 optimizer=adamw(lr=10%) }} '
    code, out, _ = call("check", "layers=1 " + "".join(map(stage.format, "abc")))
    assert code == 0
    assert out.count("remark[R102]") == 1
    assert out.count("note: here too") == 2


@pytest.mark.parametrize(("arguments", "said"), [
    (["check", "layers=2", "hidden=64"], 'quotes around one spec? "layers=2 hidden=64"'),
    (["check", "layers", "=", "2"], 'quotes around one spec? "layers = 2"'),
    (["train", "layers=2", "hidden=64"], "a spec of several settings stands in quotes"),
    (["train", "layers=2", "--set", "seed", "=", "3"], 'as does --set "name = value"'),
    (["train", "a.bertc", "--resume", "b"], "by its folder alone: bertc train --resume b"),
    (["explain", "E201", "c"], "help: leave c out"),
    (["check", "--set", "seed", "=", "3"], 'a setting is one word: --set "NAME=3"'),
    (["check", "data=files('s3://bucket/*.txt')"], "help: pip install s3fs"),
    (["check", "empty.bertc"], "the spec empty.bertc is empty"),
    (["check", "comments.bertc"], "the spec comments.bertc is empty"),
    (["check", "mine.bretc"], "did you mean mine.bertc?"),
    (["check", "sub/yuors.bertc"], "did you mean sub/yours.bertc?"),
    (["check", "albert-xxlarg.bertc"], "help: did you mean albert-xxlarge?"),
    (["check", "q" * 9 + ".bertc"], "help: check the path; or a name of `bertc specs`"),
    (["check", "task=classify('min.bertc')"], "help: did you mean mine.bertc?"),
    (["train", "--resume", "a-run"], "help: did you mean runs/a-run?"),
    (["train", "--resume", "nope"], "help: bertc runs FOLDER lists the runs in a folder"),
    (["check", "--set", "vocab=minilm", "layers=2"], "help: vocab = ./minilm"),
    (["check", "vocab=minilm"], 'help: vocab = "minilm"'),
    (["check", "data=files('text/*')"], "error[E308]"),
    (["check", "data=files('text')"], 'help: files("text/**/*.txt")'),
    (["check", "layers=2", "\udcff"], "is not UTF-8"),
    (["estimate", "layers=2", "--world", "0"], "0 is too small; 1 is the least"),
    (["show-batch", "layers=2", "--examples", "70"], "70 is too large; 64 is the most"),
    (["estimate", "layers=2", "--world", "x"], "x is no whole number"),
])  # fmt: skip
def test_what_a_shell_or_a_slip_makes_of_a_spec(call, here, arguments, said, monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    for folder in ("minilm", "text", "sub", "runs/a-run"):
        (here / folder).mkdir(parents=True)
    for name in ("mine.bertc", "sub/yours.bertc", "text/a.json.gz"):
        (here / name).write_text("layers=2")
    (here / "empty.bertc").touch()
    (here / "comments.bertc").write_text("# layers=2\n\n  # hidden=64\n")
    code, out, err = call(*arguments)
    assert code in (1, 2, 66)
    assert said in " ".join((out + err).replace("│", "").split())


def test_specs_lists_what_is_shipped_and_python_names_place_and_way_out(call: Call) -> None:
    code, out, _ = call("specs")
    lines = out.splitlines()
    assert (code, len(lines)) == (0, len(shipped_specs()))
    (line,) = (line for line in lines if line.startswith("bert-base "))
    assert re.search("110.1M  Devlin et al. 2019 +BERT-base, uncased, as released", line)
    error = pytest.raises(SpecError, resolve, "layer=2")
    assert str(error.value) == "<spec>:1:1: E101: unknown setting `layer` (help: layers=2)"


@pytest.mark.parametrize(("settings", "said"), [
    ("", ""),
    ("layers=4", ""),
    ("layers=2", "it has 3 layers, but this network 2\nhelp: layers=3, as it has"),
    ("hidden=128 heads=2", "is 64 x 64 there and 128 x 128 here"),
    ("vocab=words(50)", "is 100 x 64 there and 50 x 64 here"),
    ("share=all", "its encoder.attention.1.key.bias has no place here"),
])  # fmt: skip
def test_check_holds_a_network_against_that_of_init(call, tmp_path, settings, said):
    bert_folder(tmp_path, (f"w{n}" for n in range(95)), hidden=64, layers=3)
    code, out, _ = call("check", f"init='{tmp_path}' seq=32 steps=10 {settings}")
    assert code == (1 if said else 0)
    assert all(line in out for line in said.split("\n"))


def test_more_processes_than_cores_are_remarked(monkeypatch, call):
    monkeypatch.setattr("bertc.base.cores.available_cores", lambda: 2)
    monkeypatch.setattr("bertc.run.launch.launch", lambda *_: 0)
    code, _, err = call("train", "layers=1 batch=8 device=cpu", "--nproc", "8")
    assert (code, "8 processes share 2 cores" in err) == (0, True)


ENDING = (KeyboardInterrupt, SystemExit)


@pytest.mark.parametrize(
    ("swallowed", "instead"),
    [((), None), (ENDING, None), (ENDING, ImportError("numpy was interrupted"))],
)
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_a_command(monkeypatch, call, number, code, swallowed, instead):
    """Callbacks from C cannot pass an error on, and libraries make it one of their own."""
    before = signal.getsignal(number)

    def app(standalone_mode: bool) -> None:
        with contextlib.suppress(*swallowed):
            signal.raise_signal(number)
        if instead:
            raise instead

    monkeypatch.setattr(options, "app_for", lambda words: app)
    assert call("check", "layers=2")[0] == code
    assert signal.getsignal(number) is before
