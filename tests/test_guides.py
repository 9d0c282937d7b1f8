"""The tutorial and the how-to pages: commands exist, specs are sound, links lead somewhere."""

import json
import re
import runpy
import shlex
import sys
import textwrap
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import typer.main
from safetensors.torch import load_file

import bertc
from bertc import lab_api, lang
from bertc.base.diagnostics import Diagnostics
from bertc.check import passes
from bertc.cli import starting
from bertc.cli.app import app
from tests.hub.programs import bert_folder
from tests.net.programs import FARM, copied

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.md"
MODERN = ROOT / "docs" / "how-to" / "modern.md"
GUIDES = [TUTORIAL, *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TAKES_SPECS = {"check", "estimate", "build", "show-batch", "train", "bench", "sweep"}
TAKES_RANGES = {"check", "sweep"}
SMALLER = "layers=1 hidden=16 heads=2 vocab=wordpiece(300) seq=16 batch=4 steps=3 holdout=0.3"


Run = Callable[..., str]


@pytest.fixture
def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: Callable[..., int],
) -> Run:
    """A call that runs a command in an empty folder, has it succeed, and returns what it says.

    No pictures of finished runs are drawn, which tests/run/test_training.py looks at.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BERTC_CACHE", str(tmp_path / "cache"))

    def succeed(*arguments: str) -> str:
        code = command(*arguments)
        said = capsys.readouterr()
        assert not code, (arguments, said.err)
        return said.out + said.err

    return succeed


def commands(page: Path) -> list[list[str]]:
    """Arguments of every bertc command on a line of a shell block."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    words = (line.partition(" > ")[0] for line in lines if line.startswith("bertc "))
    return [shlex.split(line, comments=True)[1:] for line in words]


def blocks(page: Path, language: str) -> list[str]:
    """Blocks of a language, without their indentation."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(rf"^ *```{language}\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


def tutorial_spec() -> str:
    (spec,) = blocks(TUTORIAL, "bertc")
    return spec


def files_of(page: Path) -> dict[str, str]:
    """Specs that the commands of a page read: its own, or the tutorial's as mine.bertc."""
    own = blocks(page, "bertc") if page == MODERN else [tutorial_spec()]
    return dict(zip(("mine.bertc", "decay.bertc"), own, strict=False))


COMMANDS = [(page, command) for page in GUIDES for command in commands(page)]


@pytest.mark.parametrize(("page", "arguments"), COMMANDS)
def test_commands_are_understood(page, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file, text in files_of(page).items():
        (tmp_path / file).write_text(text)
    name, *rest = arguments
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    given = command.make_context(name, rest).params
    if name not in TAKES_SPECS or given.get("resume") or given.get("latency"):
        return
    specs = given.get("specs") or given.get("networks") or [given["spec"]]
    for spec in specs:
        found = Diagnostics()
        sets, searched = tuple(given.get("set") or ()), name in TAKES_RANGES
        assert list(lang.load(spec, sets, found, searched=searched))
        assert found.found == [], page


def test_every_page_is_in_the_menu_of_the_site():
    groups = runpy.run_path(str(ROOT / "docs" / "site.py"))["GROUPS"]
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} | {"contributing", "changelog"}
    named = [name for names in groups.values() if isinstance(names, tuple) for name in names]
    assert sorted(named) == sorted(pages)


def test_the_page_of_commands_is_what_the_command_line_says():
    made = "\n".join(runpy.run_path(str(ROOT / "docs" / "commands.py"))["lines"]()) + "\n"
    assert made == (ROOT / "docs" / "commands.md").read_text(), "run python docs/commands.py"


def test_the_page_of_public_names_is_what_python_says():
    page = runpy.run_path(str(ROOT / "docs" / "python.py"))
    made = "\n".join(page["lines"]()).rstrip() + "\n"
    assert made == (ROOT / "docs" / "python.md").read_text(), "run python docs/python.py"
    shown = [
        name
        for group in (page["GROUPS"], page["TYPES"])
        for name in " ".join(group.values()).split()
    ]
    assert sorted(shown) == sorted([*bertc.__all__, *lab_api.__all__])
    examples = (ROOT / "tests" / "api_examples.py").read_text()
    named = {*re.findall(r"\b(?:bertc|lab_api)\.(\w+)", examples)}
    assert {*" ".join(page["GROUPS"].values()).split()} <= named


@pytest.mark.usefixtures("run")
def test_examples_of_public_names_run(tmp_path):
    (tmp_path / "text.txt").write_text((FARM / "farm.txt").read_text())
    runpy.run_path(str(ROOT / "tests" / "api_examples.py"))


def test_lines_of_the_readme_are_short():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert [line for line in lines if len(line) > 110] == []


def test_pages_of_tables_are_those_of_their_results():
    made = runpy.run_path(str(ROOT / "docs" / "tables.py"))
    folder = ROOT / "docs" / "tables"
    pages = dict(made["pages"]())
    assert {*folder.glob("*.md")} == {*pages}
    assert [path.name for path, text in pages.items() if path.read_text() != text] == []
    kept = sorted((folder / "results").glob("*.json"))
    assert [path.stem for path in sorted(folder.glob("*.svg"))] == [path.stem for path in kept]
    for path in kept:
        assert made["digest"](path) in (folder / f"{path.stem}.svg").read_text()


def test_the_spec_of_the_tutorial_is_sound():
    found = Diagnostics()
    for program in lang.load(tutorial_spec(), (), found):
        passes.complete(program, found)
    assert found.found == []


def test_the_commands_of_the_tutorial_run(run, tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "farm.txt").write_text("a hen and a duck.\n\na pond.\n\na bird.\n" * 8)
    (tmp_path / "mine.bertc").write_text(tutorial_spec())
    smaller = [word for setting in SMALLER.split() for word in ("--set", setting)]
    for arguments in commands(TUTORIAL):
        more = smaller if arguments[0] in TAKES_SPECS and "--resume" not in arguments else []
        run(*arguments, *more)
    assert (tmp_path / "mine-hf" / "config.json").is_file()


TOY = (
    "layers=2 hidden=16 heads=2 vocab=wordpiece(60) data=files('train.tsv') seq=32 batch=4 steps=2 "
    "holdout=0.3"
)
FEWER = ["--set", "steps=12", "--set", "batch=16", "--set", "seq=32"]
QUICK = ["--runtime", "torch", "--precision", "fp32", "--seconds", "0.1"]


@pytest.mark.usefixtures("forked")
def test_the_commands_of_the_page_on_small_networks_run(run, tmp_path):
    rows = "text\tlabel\n" + "a hen and a duck\tfarm\na pond and a reed\tlake\n" * 12
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text(rows)
    page = commands(ROOT / "docs" / "how-to" / "small.md")
    assert [name for name, *_ in page] == ["train", "bench", "train", "train", "export", "bench"]
    for arguments in [["train", TOY, "--out", "minilm"], *page]:
        more = {"train": FEWER, "bench": QUICK}.get(arguments[0], [])
        more = [] if arguments[1] == TOY else more
        # Every layer of what is pruned is a second of writing the graph.
        more = [*more, "--set", "layers=1"] if "init=layers(teacher" in arguments[1] else more
        run(*arguments, *more)
    assert (tmp_path / "small" / "model.int8.onnx").is_file()
    assert (tmp_path / "runs" / "pruned" / "pruned.json").is_file()


def test_the_commands_of_the_page_on_vectors_run(run, tmp_path):
    rows = ["a hen\ta duck\ta pond\t4", "a reed\ta pond\ta hen\t3", "a duck\ta reed\ta hen\t1"]
    for name in ("pairs.tsv", "triplets.tsv", "scored.tsv"):
        (tmp_path / name).write_text("\n".join(["a\tb\tc\ts", *rows * 3]) + "\n")
    (tmp_path / "dev.csv").write_text("sentence1,sentence2,score\na hen,a duck,4\na reed,a hen,1\n")
    (tmp_path / "texts.txt").write_text("a hen\n\na pond\na reed by a pond\na duck\n")
    written = {"a": "a hen", "b": "a duck", "c": list("abcd"), "s": [3, 1, 0, 0, 2]}
    written |= {"q": "a reed", "p": "a pond"}
    for name in ("faq.jsonl", "lists.jsonl"):
        (tmp_path / name).write_text("\n".join([json.dumps(written)] * 4))
    searched(tmp_path)
    page = commands(ROOT / "docs" / "how-to" / "embed.md")
    toy = TOY.replace("train.tsv", "texts.txt")
    said = run("train", toy, "--out", "minilm")
    for arguments in page:
        said += run(*arguments, *(FEWER if arguments[0] == "train" else []))
    assert "1 text without a word" in said
    assert "dev-sts" in said
    assert (tmp_path / "my-model" / "1_Pooling" / "config.json").is_file()


def test_the_commands_of_the_page_on_words_run(run, tmp_path):
    (tmp_path / "mine").mkdir()
    text = [
        f"a henhouse by the duckpond and {n}\n\na duck of {n} in the henhouse" for n in range(30)
    ]
    (tmp_path / "mine" / "farm.txt").write_text("\n\n".join(text))
    (tmp_path / "general.txt").write_text("\n\n".join(text[::-1]).replace("duck", "bird"))
    (tmp_path / "words.txt").write_text("duckhouse\nreedpond\n")
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text("text\tlabel\n" + "a hen\tfarm\na reed\tlake\n" * 6)
    said = run("train", TOY.replace("train.tsv", "general.txt"), "--out", "minilm")
    for arguments in commands(ROOT / "docs" / "how-to" / "words.md"):
        smaller = [w.replace("2k)", "2)").replace("8k", "60") for w in arguments]
        said += run(
            *smaller, *(["--set", "steps=1", *FEWER[2:]] if arguments[0] == "train" else [])
        )
    assert "2 are means" in said
    assert "loss by language" in said
    assert (tmp_path / "my-model" / "tokenizer.json").is_file()


def searched(folder: Path) -> None:
    """A search of one query in three documents."""
    texts = ("a hen", "a pond", "a reed")
    documents = [json.dumps({"_id": f"d{n}", "text": text}) for n, text in enumerate(texts)]
    (folder / "docs.jsonl").write_text("\n".join(documents))
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "a duck"}')
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\td0\t1\n")


def test_the_commands_of_the_page_on_documents_run(run, tmp_path):
    searched(tmp_path)
    words = ("hen", "duck", "pond", "reed", "bird", "farm", "gate")
    rows = [f"a {word}\tthe {word} by a {other}" for word, other in pairwise(words)]
    (tmp_path / "pairs.tsv").write_text("\n".join(["query\tanswer", *rows]))
    judged = ["query\tpassage\tlabel", "a hen\tthe hen\t1", "a hen\tthe pond\t0"]
    (tmp_path / "judged.tsv").write_text("\n".join(judged))
    (tmp_path / "texts.txt").write_text("a hen\n\na duck by a pond\n\n" * 9)
    run("train", TOY.replace("train.tsv", "texts.txt"), "--out", "minilm")
    page = commands(ROOT / "docs" / "how-to" / "documents.md")
    said = "".join(run(*a, *(FEWER if a[0] == "train" else [])) for a in page)
    assert "recall@100" in said
    assert "are no negatives" in said
    assert (tmp_path / "my-encoder" / "1_Pooling" / "config.json").is_file()
    config = json.loads((tmp_path / "my-reranker" / "config.json").read_text())
    assert config["num_labels"] == 1


def test_the_commands_of_the_page_on_labels_run(run, tmp_path):
    long = "a hen by the pond and a ship at sea in the old barn " * 4
    rows = [f'"{long}{n}","{", ".join(("farm", "sea")[: n % 3])}"\n' for n in range(12)]
    for name in ("train.csv", "dev.csv", "test.csv"):
        (tmp_path / name).write_text("text,topics\n" + "".join(rows))
    nested = [json.dumps({"doc": {"body": long}, "key": n}) + "\n" for n in range(3)]
    (tmp_path / "new.jsonl").write_text("".join(nested))
    words = long.split()
    tagged = json.dumps({"words": words, "tags": ["XY"[n % 2] for n in range(len(words))]})
    (tmp_path / "tags.jsonl").write_text(f"{tagged}\n" * 4)
    said = run("train", TOY.replace("train.tsv", "train.csv"), "--out", "minilm")
    for arguments in commands(ROOT / "docs" / "how-to" / "labels.md"):
        smaller = [w.replace("stride=64", "stride=8").replace("seq=128", "") for w in arguments]
        said += run(*smaller, *(FEWER if arguments[0] == "train" else []))
    assert "12 of 12 training examples are read in windows" in said
    assert "the thresholds farm" in said
    assert (
        (tmp_path / "answers.csv")
        .read_text()
        .startswith("doc.body,key,id,labels,probabilities.farm")
    )


def test_the_commands_of_the_page_on_beginning_run(run, tmp_path, monkeypatch):
    rows = "".join(f"a hen by the pond {n},{n % 2}\n" for n in range(20))
    (tmp_path / "train.csv").write_text(f"text,label\n{rows}")
    (tmp_path / "pairs.tsv").write_text("a\tb\n" + "a hen\ta duck of a pond\n" * 9)
    (tmp_path / "texts.txt").write_text("the hen and a duck\nthe pond of a reed\n" * 30)
    bert_folder(tmp_path / "minilm", map(chr, range(97, 156)))
    page = commands(ROOT / "docs" / "how-to" / "begin.md")
    answers_given = iter(["texts.txt", "en", "14M", "pretrain", "cpu"])
    monkeypatch.setattr(starting, "is_terminal", lambda: "mine.bertc" in sys.argv)
    monkeypatch.setattr("typer.prompt", lambda *_, **__: next(answers_given))
    for arguments in page:
        if arguments[0] != "train":
            run(*arguments)
    for name in ("words", "stars", "stars-from", "pairs", "alone"):
        run("check", f"{name}.bertc")
    assert 'positive="' in (tmp_path / "pairs.bertc").read_text()


def test_the_commands_of_the_page_on_little_text_run(run, tmp_path, call):
    lines = "".join(f"the henhouse and the duckpond of farm {n}.\n\n" for n in range(60))
    (tmp_path / "mine.txt").write_text(lines)
    for folder in ("train_10M", "blimp", "ewok", "glue_filtered"):
        (tmp_path / folder).mkdir()
    (tmp_path / "train_10M" / "farm.train").write_text(lines)
    pair = {"sentence_good": "the duckpond", "sentence_bad": "duckpond the", "UID": "order"}
    (tmp_path / "blimp" / "order.jsonl").write_text(json.dumps(pair))
    known = {"Context1": "A hen.", "Context2": "A duck.", "Target1": "hen", "Target2": "duck"}
    (tmp_path / "ewok" / "farm.jsonl").write_text(json.dumps(known))
    rows = [json.dumps({"sentence1": "a hen", "sentence2": "a duck", "label": n}) for n in (0, 1)]
    for part in ("train", "valid"):
        (tmp_path / "glue_filtered" / f"rte.{part}.jsonl").write_text("\n".join(rows * 4))
    toy = [word for s in SMALLER.split() for word in ("--set", s)]
    small = [w.replace("steps=3", "batch_warmup=none").replace("batch=4", "batch=16") for w in toy]
    small += ["--set", "ffn=24", "--set", "optimizer=adamw"]
    task = ["--set", "steps=2", "--set", "batch=4", "--set", "seq=16"]
    said = ""
    for arguments in commands(ROOT / "docs" / "how-to" / "babylm.md"):
        words = [word.replace("M words", "00 words") for word in arguments]
        more = small if "gpt-bert-small" in words else toy if words[0] == "train" else []
        said += run(*words, *(task if words[0] == "glue" else more))
    assert "scored by mntp" in said
    assert "babylm of runs/baby" in said
    (page,) = blocks(ROOT / "docs" / "how-to" / "babylm.md", "python")
    made: dict[str, Any] = {}
    exec(page.replace("chck_1M", "chck_0.0001M"), made)
    for folder, model in (("baby", made["last"]), ("baby/chck_0.0001M", made["early"])):
        card = (tmp_path / folder / "README.md").read_text().partition("## Use\n\n")[2]
        lines = [line.strip() for line in card.splitlines() if line.startswith("    ")]
        exec("\n".join(lines).replace("FOLDER", folder), made)
        ids = made["tokenizer"]("the hen", return_tensors="pt")["input_ids"]
        assert made["model"](ids).logits.isfinite().all()
        assert torch.equal(made["model"].model(ids)[0], model(ids)[0])
    assert not torch.equal(made["last"](ids)[0], made["early"](ids)[0])
    code, _, error = call("eval", "baby", "--pairs", "blimp/")
    assert (code, "take the run that it was exported from" in error) == (65, True)


def test_the_commands_of_the_page_on_a_day_run(run, tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "farm.txt").write_text(
        "".join(f"the henhouse and the duckpond of farm {n}.\n\n" for n in range(60))
    )
    copied(FARM / "RTE", tmp_path / "glue" / "RTE")
    smaller = [word for setting in SMALLER.split() for word in ("--set", setting)]
    task = ["--seeds", "1", "--set", "steps=2", "--set", "batch=4", "--set", "seq=16"]
    said = ""
    for arguments in commands(ROOT / "docs" / "how-to" / "a-day.md"):
        sets = smaller if "train" in arguments and "--resume" not in arguments else []
        said += run(*arguments, *(task if arguments[0] == "glue" else sets))
    assert "QNLI is not there" in said
    assert "glue of runs/idea" in said
    assert (tmp_path / "day-hf" / "config.json").is_file()


SMALL_NUMBERS = {
    "50368": "300", "batch = 1152": "batch = 16", "batch = 144": "batch = 8", "1024": "32",
    "8192": "64", "384, 1G": "8, 512", "1G": "512", "40G": "2048", "8G": "1024", "4G": "1024",
    "save_every = 1000": "save_every = 4 eval_every = 9 log_every = 9",
}  # fmt: skip
SHALLOW = [w for s in ("layers=4", "hidden=16", "heads=2", "ffn=24") for w in ("--set", s)]


def test_the_commands_of_the_page_on_an_encoder_like_modernbert_run(run, tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "farm.txt").write_text("a hen and a duck.\n\na pond by a reed.\n\n" * 60)
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text("text\tlabel\n" + "a hen\tfarm\na reed\tlake\n" * 8)
    for name, text in files_of(MODERN).items():
        for number, small in SMALL_NUMBERS.items():
            text = text.replace(number, small)
        (tmp_path / name).write_text(text)
    said = ""
    for arguments in commands(MODERN):
        words = shlex.split(shlex.join(arguments).replace("--nproc 8", ""))
        more = SHALLOW if arguments[0] in TAKES_SPECS else []
        more = ["--set", "seq=64", "--set", "epochs=1"] if "task=" in arguments[1] else more
        said += run(*words, *more)
    assert "the pooler starts as its masked-LM head" in said
    learned = load_file(tmp_path / "runs" / "decayed" / "model" / "model.safetensors")
    names: dict[str, Any] = {}
    exec("\n".join(blocks(MODERN, "python")), names)
    assert names["scores"].shape == (1, 2)
    for name, weight in names["encoder"].state_dict().items():
        assert name == "decoder.weight" or torch.equal(weight, learned[name])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert link.startswith("https://") or (page.parent / link).exists(), link
