"""The tutorial and the how-to pages: commands exist, specs are sound, links lead somewhere."""

import json
import re
import shlex
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
import typer.main

from bertc import cli, passes, syntax
from bertc.bench import latency
from bertc.commands import app
from bertc.diagnostics import Diagnostics
from tests.campaigns import answers

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.md"
GUIDES = [TUTORIAL, *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TAKES_SPECS = {"check", "estimate", "build", "show-batch", "train", "bench", "slurm"}
SMALLER = "layers=1 hidden=16 heads=2 vocab=wordpiece(300) seq=16 batch=4 steps=3 holdout=0.3"


def commands(page: Path) -> list[list[str]]:
    """Arguments of every bertc command that stands on a line of a shell block."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    words = (line.partition(" > ")[0] for line in lines if line.startswith("bertc "))
    return [shlex.split(line)[1:] for line in words]


def tutorial_spec() -> str:
    (spec,) = re.findall(r"```bertc\n(.*?)```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL)
    return str(spec)


COMMANDS = [(page.stem, command) for page in GUIDES for command in commands(page)]


@pytest.mark.parametrize(("page", "arguments"), COMMANDS)
def test_commands_are_understood(page: str, arguments: list[str]) -> None:
    name, *rest = arguments
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    given = command.make_context(name, rest).params
    if name not in TAKES_SPECS or given.get("resume"):
        return
    specs = given.get("specs") or [given["spec"]]
    for spec in specs:
        found = Diagnostics()
        text = tutorial_spec() if spec == "mine.bertc" else spec
        assert list(syntax.load(text, tuple(given.get("set") or ()), found))
        assert found.found == [], page


def test_the_spec_of_the_tutorial_is_sound() -> None:
    found = Diagnostics()
    for program in syntax.load(tutorial_spec(), (), found):
        passes.complete(program, found)
    assert found.found == []


def test_the_commands_of_the_tutorial_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BERTC_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "farm.txt").write_text("a hen and a duck.\n\na pond.\n\na bird.\n" * 8)
    (tmp_path / "mine.bertc").write_text(tutorial_spec())
    smaller = [word for setting in SMALLER.split() for word in ("--set", setting)]
    for arguments in commands(TUTORIAL):
        more = smaller if arguments[0] in TAKES_SPECS and "--resume" not in arguments else []
        monkeypatch.setattr("sys.argv", ["bertc", *arguments, *more])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code, (arguments, capsys.readouterr().err)
    assert (tmp_path / "mine-hf" / "config.json").is_file()


TOY = (
    "layers=4 hidden=16 heads=2 vocab=wordpiece(60) data=files('train.tsv') seq=32 batch=4 steps=2 "
    "holdout=0.3"
)
FEWER = ["--set", "steps=12", "--set", "batch=4", "--set", "seq=32"]
QUICK = ["--runtime", "torch", "--precision", "fp32", "--seconds", "0.1"]


def test_the_commands_of_the_page_on_small_networks_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    processes: ForkServerContext,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BERTC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(latency.multiprocessing, "get_context", lambda method: processes)
    rows = "text\tlabel\n" + "a hen and a duck\tfarm\na pond and a reed\tlake\n" * 12
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text(rows)
    page = commands(ROOT / "docs" / "how-to" / "small.md")
    assert [name for name, *_ in page] == [
        "train",
        "latency",
        "train",
        "train",
        "export",
        "latency",
    ]
    for arguments in [["train", TOY, "--out", "minilm"], *page]:
        more = {"train": FEWER, "latency": QUICK}.get(arguments[0], [])
        more = [] if arguments[1] == TOY else more
        monkeypatch.setattr("sys.argv", ["bertc", *arguments, *more])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code, (arguments, capsys.readouterr().err)
    assert (tmp_path / "small" / "model.int8.onnx").is_file()
    assert (tmp_path / "runs" / "pruned" / "pruned.json").is_file()


def test_tables_of_what_small_models_learn_are_of_the_kept_answers() -> None:
    page = answers.PAGE.read_text(encoding="utf-8")
    assert answers.with_tables(page, json.loads(answers.KEPT.read_text(encoding="utf-8"))) == page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert link.startswith("https://") or (page.parent / link).exists(), link
