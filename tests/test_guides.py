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
from bertc.lab.forecast import forecasting, ladder, sealed
from tests.hub.programs import bert_folder
from tests.net.programs import FARM, copied

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.md"
MODERN = ROOT / "docs" / "how-to" / "modern.md"
SEQUENCES = ROOT / "docs" / "how-to" / "sequences.md"
BUDGET = ROOT / "docs" / "how-to" / "budget.md"
GUIDES = [TUTORIAL, *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
TAKES_SPECS = {"check", "estimate", "build", "show-batch", "train", "bench", "sweep"}
TAKES_RANGES = {"check", "sweep"}
SMALLER = [
    "layers=1", "hidden=16", "heads=2", "vocab=wordpiece(300)", "seq=16", "batch=4", "steps=3",
    "holdout=0.3",
]  # fmt: skip
FARMS = "".join(f"the henhouse and the duckpond of farm {n}.\n\n" for n in range(60))
ITEMS = "".join(f"item-{n}\n" for n in range(9))
Run = Callable[..., str]


def sets(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any]) -> Run:
    """A call that runs a command in an empty folder, has it succeed, and returns what it says.

    No pictures of finished runs are drawn, which tests/run/test_training.py looks at.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BERTC_CACHE", str(tmp_path / "cache"))

    def succeed(*arguments: str) -> str:
        code, out, err = call(*arguments)
        assert not code, (arguments, err)
        return out + err

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


def files_of(page: Path) -> dict[str, str]:
    """Specs that the commands of a page read: its own, or the tutorial's as mine.bertc."""
    own = blocks(page if page in (MODERN, BUDGET, SEQUENCES) else TUTORIAL, "bertc")
    if page == SEQUENCES:
        (Path.cwd() / "items.txt").write_text(ITEMS)
        return dict(zip(("protein.bertc", "sessions.bertc"), own, strict=True))
    if page == BUDGET:
        return dict.fromkeys(("german.bertc", "chosen.bertc"), own[0])
    return dict(zip(("mine.bertc", "decay.bertc"), own, strict=False))


def lay_out(files: dict[str, str]) -> None:
    """Write files by their paths from here."""
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


@pytest.mark.parametrize(
    ("page", "arguments"), [(page, command) for page in GUIDES for command in commands(page)]
)
def test_commands_are_understood(page, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lay_out(files_of(page))
    name, *rest = arguments
    given = COMMANDS[name].make_context(name, rest).params
    of_a_run = str(given.get("out")).endswith(".c")
    others = any(given.get(option) for option in ("resume", "latency", "calibrate"))
    if name not in TAKES_SPECS or others or of_a_run:
        return
    specs = given.get("specs") or given.get("networks") or [given["spec"]]
    for spec in specs:
        found = Diagnostics()
        overrides, searched = tuple(given.get("set") or ()), name in TAKES_RANGES
        assert list(lang.load(spec, overrides, found, searched=searched))
        assert found.found == [], page


def test_every_page_is_in_the_menu_of_the_site():
    groups = runpy.run_path(str(ROOT / "docs" / "site.py"))["GROUPS"]
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} | {"contributing", "changelog"}
    named = [name for names in groups.values() if isinstance(names, tuple) for name in names]
    assert sorted(named) == sorted(pages)


@pytest.mark.parametrize("name", ["commands", "python"])
def test_the_pages_of_commands_and_of_public_names_are_what_the_code_says(name):
    made = "\n".join(runpy.run_path(str(ROOT / "docs" / f"{name}.py"))["lines"]()).rstrip() + "\n"
    assert made == (ROOT / "docs" / f"{name}.md").read_text(), f"run python docs/{name}.py"


@pytest.mark.usefixtures("run")
def test_every_public_name_is_shown_and_has_an_example_that_runs(tmp_path):
    page = runpy.run_path(str(ROOT / "docs" / "python.py"))
    shown = " ".join([*page["GROUPS"].values(), *page["TYPES"].values()]).split()
    assert sorted(shown) == sorted([*bertc.__all__, *lab_api.__all__])
    examples = (ROOT / "tests" / "api_examples.py").read_text()
    named = {*re.findall(r"\b(?:bertc|lab_api)\.(\w+)", examples)}
    assert {*" ".join(page["GROUPS"].values()).split()} <= named
    (tmp_path / "text.txt").write_text((FARM / "farm.txt").read_text())
    runpy.run_path(str(ROOT / "tests" / "api_examples.py"))


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


def test_the_commands_of_the_tutorial_run_and_its_spec_is_sound(run):
    (spec,) = files_of(TUTORIAL).values()
    found = Diagnostics()
    for program in lang.load(spec, (), found):
        passes.complete(program, found)
    assert found.found == []
    text = "a hen and a duck.\n\na pond.\n\na bird.\n" * 8
    lay_out({"text/farm.txt": text, "mine.bertc": spec})
    for arguments in commands(TUTORIAL):
        takes = arguments[0] in TAKES_SPECS and "--resume" not in arguments
        run(*arguments, *(sets(*SMALLER) if takes else []))
    assert Path("mine-hf/config.json").is_file()


TOY = "layers=2 hidden=16 heads=2 vocab=wordpiece(60) data=files('train.tsv') seq=32 batch=4 "
TOY += "steps=2 holdout=0.3"
FEWER = sets("steps=6", "batch=16", "seq=32")
QUICK = ["--runtime", "torch", "--precision", "fp32", "--seconds", "0.1"]


@pytest.mark.usefixtures("forked")
def test_the_commands_of_the_page_on_small_networks_run(run):
    rows = "text\tlabel\n" + "a hen and a duck\tfarm\na pond and a reed\tlake\n" * 12
    lay_out({"train.tsv": rows, "dev.tsv": rows})
    page = commands(ROOT / "docs" / "how-to" / "small.md")
    assert [name for name, *_ in page] == ["train", "bench", "train", "train", "export", "bench"]
    for arguments in [["train", TOY, "--out", "minilm"], *page]:
        more = {"train": FEWER, "bench": QUICK}.get(arguments[0], [])
        more = [] if arguments[1] == TOY else more
        # Every layer of what is pruned is a second of writing the graph.
        more = [*more, *sets("layers=1")] if "init=layers(teacher" in arguments[1] else more
        run(*arguments, *more)
    assert Path("small/model.int8.onnx").is_file()
    assert Path("runs/pruned/pruned.json").is_file()


def test_the_commands_of_the_page_on_vectors_run(run):
    rows = ["a hen\ta duck\ta pond\t4", "a reed\ta pond\ta hen\t3", "a duck\ta reed\ta hen\t1"]
    rows = "\n".join(["a\tb\tc\ts", *rows * 3]) + "\n"
    written = {"a": "a hen", "b": "a duck", "c": list("abcd"), "s": [3, 1, 0, 0, 2]}
    lists = "\n".join([json.dumps(written | {"q": "a reed", "p": "a pond"})] * 4)
    lay_out({
        **dict.fromkeys(("pairs.tsv", "triplets.tsv", "scored.tsv"), rows),
        **dict.fromkeys(("faq.jsonl", "lists.jsonl"), lists), **SEARCH,
        "dev.csv": "sentence1,sentence2,score\na hen,a duck,4\na reed,a hen,1\n",
        "texts.txt": "a hen\n\na pond\na reed by a pond\na duck\n",
        "pairs.jsonl": '{"q": "a hen", "p": "a duck"}\n' * 4,
    })  # fmt: skip
    page = commands(ROOT / "docs" / "how-to" / "embed.md")
    said = run("train", TOY.replace("train.tsv", "texts.txt"), "--out", "minilm")
    Path("qwen3").symlink_to("minilm")  # any network goes on so
    for arguments in page:
        said += run(*arguments, *(FEWER if arguments[0] == "train" else []))
    assert "1 text without a word" in said
    assert "dev-sts" in said
    assert Path("my-model/1_Pooling/config.json").is_file()


def test_the_commands_of_the_page_on_words_run(run):
    text = [f"a henhouse by the duckpond and {n}\n\na duck of {n} in the house" for n in range(30)]
    rows = "text\tlabel\n" + "a hen\tfarm\na reed\tlake\n" * 6
    lay_out({
        "mine/farm.txt": "\n\n".join(text), "words.txt": "duckhouse\nreedpond\n",
        "general.txt": "\n\n".join(text[::-1]).replace("duck", "bird"),
        "train.tsv": rows, "dev.tsv": rows,
    })  # fmt: skip
    said = run("train", TOY.replace("train.tsv", "general.txt"), "--out", "minilm")
    for arguments in commands(ROOT / "docs" / "how-to" / "words.md"):
        smaller = [w.replace("2k)", "2)").replace("8k", "60") for w in arguments]
        fewer = [*sets("steps=1"), *FEWER[2:]] if arguments[0] == "train" else []
        said += run(*smaller, *fewer)
    assert "2 are means" in said
    assert "loss by language" in said
    assert Path("my-model/tokenizer.json").is_file()


DOCUMENTS = enumerate(("a hen", "a pond", "a reed"))
SEARCH = {
    "docs.jsonl": "\n".join(json.dumps({"_id": f"d{n}", "text": text}) for n, text in DOCUMENTS),
    "queries.jsonl": '{"_id": "q", "text": "a duck"}',
    "qrels.tsv": "query-id\tcorpus-id\tscore\nq\td0\t1\n",
}
"""A search of one query in three documents."""


def test_the_commands_of_the_page_on_documents_run(run):
    words = ("hen", "duck", "pond", "reed", "bird", "farm", "gate")
    rows = [f"a {word}\tthe {word} by a {other}" for word, other in pairwise(words)]
    lay_out({
        **SEARCH, "pairs.tsv": "\n".join(["query\tanswer", *rows]),
        "judged.tsv": "query\tpassage\tlabel\na hen\tthe hen\t1\na hen\tthe pond\t0",
        "texts.txt": "a hen\n\na duck by a pond\n\n" * 9,
    })  # fmt: skip
    run("train", TOY.replace("train.tsv", "texts.txt"), "--out", "minilm")
    page = commands(ROOT / "docs" / "how-to" / "documents.md")
    said = "".join(run(*a, *(FEWER if a[0] == "train" else [])) for a in page)
    assert "recall@100" in said
    assert "are no negatives" in said
    assert Path("my-encoder/1_Pooling/config.json").is_file()
    assert json.loads(Path("my-reranker/config.json").read_text())["num_labels"] == 1


def test_the_commands_of_the_page_on_sequences_run(run):
    letters = "LAGVSERTIDPKQNFYMHWC"
    texts = [(letters * 8)[n : n + 40 + n] for n in range(20)]
    rows = [
        json.dumps({"sequence": text, "states": "HC" * (len(text) // 2)}) for text in texts[::2]
    ]
    sessions = [json.dumps({"items": [f"item-{(n + k) % 9}" for k in range(5)]}) for n in range(30)]
    records = (f">{n} of a farm\n{text}\n" for n, text in enumerate(texts))
    lay_out({
        **files_of(SEQUENCES), "proteins.fasta": "".join(records),
        **dict.fromkeys(("residues.jsonl", "dev.jsonl"), "\n".join(rows)),
        "sessions.jsonl": "\n".join(sessions),
    })  # fmt: skip
    said = ""
    for arguments in commands(SEQUENCES):
        tiny = sets("layers=1", "hidden=16", "heads=2", "seq=64", "holdout=0.3", *FEWER[1::2])
        named = any(name.endswith(".bertc") for name in arguments)
        more = tiny if named and arguments[0] == "train" else FEWER * (arguments[0] == "train")
        said += run(*arguments, *more)
    assert re.search(r'"description": "", "sequence"|"states": "HCHC', said)
    assert re.search(r"hit@10 +ndcg@10 +mrr", said)
    assert json.loads(Path("my-esm/config.json").read_text())["model_type"] == "esm"


def test_the_commands_of_the_page_on_labels_run(run):
    long = "a hen by the pond and a ship at sea in the old barn " * 4
    rows = [f'"{long}{n}","{", ".join(("farm", "sea")[: n % 3])}"\n' for n in range(12)]
    nested = [json.dumps({"doc": {"body": long}, "key": n}) + "\n" for n in range(3)]
    words = long.split()
    tagged = json.dumps({"words": words, "tags": ["XY"[n % 2] for n in range(len(words))]})
    lay_out({f"{part}.csv": "text,topics\n" + "".join(rows) for part in ("train", "dev", "test")})
    named = json.dumps(
        {"words": ["ann", "sat", "by", "the", "Po"], "tags": ["B-man", "O", "O", "O", "B-river"]}
    )
    lay_out({"new.jsonl": "".join(nested), "tags.jsonl": f"{tagged}\n" * 4})
    lay_out({"spans.jsonl": f"{named}\n" * 4})
    said = run("train", TOY.replace("train.tsv", "train.csv"), "--out", "minilm")
    for arguments in commands(ROOT / "docs" / "how-to" / "labels.md"):
        smaller = [w.replace("stride=64", "stride=8").replace("seq=128", "") for w in arguments]
        said += run(*smaller, *(FEWER if arguments[0] == "train" else []))
    assert "12 of 12 training examples are read in windows" in said
    assert "the thresholds farm" in said
    assert "with the threshold" in said
    assert json.loads(Path("gliner/gliner_config.json").read_text())["labels"] == ["man", "river"]
    assert re.search(r"import GLiNER[^$]* threshold=0\.", Path("gliner/README.md").read_text())
    columns = Path("answers.csv").read_text().split("\n")[0]
    assert columns.startswith("doc.body,key,id,labels,probabilities.farm")


def test_the_commands_of_the_page_on_beginning_run(run, monkeypatch):
    rows = "".join(f"a hen by the pond {n},{n % 2}\n" for n in range(20))
    lay_out({
        "train.csv": f"text,label\n{rows}", "pairs.tsv": "a\tb\n" + "a hen\ta duck of a pond\n" * 9,
        "texts.txt": "the hen and a duck\nthe pond of a reed\n" * 30,
    })  # fmt: skip
    bert_folder(Path("minilm"), map(chr, range(97, 156)))
    page = commands(ROOT / "docs" / "how-to" / "begin.md")
    answers_given = iter(["texts.txt", "en", "14M", "pretrain", "cpu"])
    monkeypatch.setattr(starting, "is_terminal", lambda: "mine.bertc" in sys.argv)
    monkeypatch.setattr("typer.prompt", lambda *_, **__: next(answers_given))
    for arguments in page:
        if arguments[0] != "train":
            run(*arguments)
    for name in ("words", "stars", "stars-from", "pairs", "alone"):
        run("check", f"{name}.bertc")
    assert 'positive="' in Path("pairs.bertc").read_text()


def test_the_commands_of_the_page_on_little_text_run(run, call):
    pair = {"sentence_good": "the duckpond", "sentence_bad": "duckpond the", "UID": "order"}
    known = {"Context1": "A hen.", "Context2": "A duck.", "Target1": "hen", "Target2": "duck"}
    rows = [json.dumps({"sentence1": "a hen", "sentence2": "a duck", "label": n}) for n in (0, 1)]
    lay_out({
        "mine.txt": FARMS, "train_10M/farm.train": FARMS,
        "blimp/order.jsonl": json.dumps(pair), "ewok/farm.jsonl": json.dumps(known),
        "glue_filtered/rte.train.jsonl": "\n".join(rows * 4),
        "glue_filtered/rte.valid.jsonl": "\n".join(rows * 4),
    })  # fmt: skip
    toy = sets(*SMALLER)
    small = [w.replace("steps=3", "batch_warmup=none").replace("batch=4", "batch=16") for w in toy]
    small += sets("ffn=24", "optimizer=adamw")
    task = sets("steps=2", "batch=4", "seq=16")
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
        card = Path(folder, "README.md").read_text().partition("## Use\n\n")[2]
        lines = [line.strip() for line in card.splitlines() if line.startswith("    ")]
        exec("\n".join(lines).replace("FOLDER", folder), made)
        ids = made["tokenizer"]("the hen", return_tensors="pt")["input_ids"]
        assert made["model"](ids).logits.isfinite().all()
        assert torch.equal(made["model"].model(ids)[0], model(ids)[0])
    assert not torch.equal(made["last"](ids)[0], made["early"](ids)[0])
    code, _, error = call("eval", "baby", "--pairs", "blimp/")
    assert (code, "take the run that it was exported from" in error) == (65, True)


def test_the_commands_of_the_page_on_a_day_run(run, tmp_path):
    lay_out({"text/farm.txt": FARMS})
    copied(FARM / "RTE", tmp_path / "glue" / "RTE")
    task = ["--seeds", "1", *sets("steps=2", "batch=4", "seq=16")]
    said = ""
    for arguments in commands(ROOT / "docs" / "how-to" / "a-day.md"):
        smaller = sets(*SMALLER) if "train" in arguments and "--resume" not in arguments else []
        said += run(*arguments, *(task if arguments[0] == "glue" else smaller))
    assert "QNLI is not there" in said
    assert "glue of runs/idea" in said
    assert Path("day-hf/config.json").is_file()


def test_the_commands_of_the_page_on_budgets_run(run, call, monkeypatch):
    monkeypatch.setattr(ladder, "FEWEST_STEPS", 4)
    monkeypatch.setattr(forecasting, "LEARNED", 9.0)
    monkeypatch.setattr(sealed, "DRAWS", 10)
    spec = "layers=1 hidden=64 heads=4 vocab=wordpiece(100) seq=16 batch=4 steps=60 holdout=0.3 "
    lay_out({"farm.txt": FARMS, "german.bertc": f"{spec} format=blocks data=files('farm.txt')"})
    smaller = {"h100": "cpu", "5h": "9s", "67h": "0.5s", "{256, 384, 512, 768}": "{16, 32, 64}"}
    for arguments in commands(BUDGET):
        for text, small in smaller.items():
            arguments = [word.replace(text, small) for word in arguments]
        code, out, error = call(*arguments)
        assert not code, error
        if arguments[0] == "fit":
            Path("chosen.bertc").write_text(out)
    assert json.loads(Path("runs/german/forecast.json").read_text())["expected"]["loss"] > 0


SMALL_NUMBERS = {
    "50368": "300", "batch = 1152": "batch = 16", "batch = 144": "batch = 8", "1024": "32",
    "8192": "64", "384, 1G": "8, 512", "1G": "512", "40G": "2048", "8G": "1024", "4G": "1024",
    "save_every = 1000": "save_every = 4 eval_every = 9 log_every = 9",
}  # fmt: skip
SHALLOW = sets("layers=4", "hidden=16", "heads=2", "ffn=24")


def test_the_commands_of_the_page_on_an_encoder_like_modernbert_run(run):
    rows = "text\tlabel\n" + "a hen\tfarm\na reed\tlake\n" * 8
    text = "a hen and a duck.\n\na pond by a reed.\n\n" * 60
    lay_out({"text/farm.txt": text, "train.tsv": rows, "dev.tsv": rows})
    for name, spec in files_of(MODERN).items():
        for number, small in SMALL_NUMBERS.items():
            spec = spec.replace(number, small)
        lay_out({name: spec})
    said = ""
    for arguments in commands(MODERN):
        words = shlex.split(shlex.join(arguments).replace("--nproc 8", ""))
        more = SHALLOW if arguments[0] in TAKES_SPECS else []
        more = sets("seq=64", "epochs=1") if "task=" in arguments[1] else more
        said += run(*words, *more)
    assert "the pooler starts as its masked-LM head" in said
    learned = load_file("runs/decayed/model/model.safetensors")
    names: dict[str, Any] = {}
    exec("\n".join(blocks(MODERN, "python")), names)
    assert names["scores"].shape == (1, 2)
    for name, weight in names["encoder"].state_dict().items():
        assert name == "decoder.weight" or torch.equal(weight, learned[name])


def test_the_specs_of_the_readme_are_sound(run):
    lay_out({"text/a.txt": FARMS})
    for words in commands(PAGES[0]):
        assert words[0] == "predict" or "minilm" in words[1] or run("check", words[1])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_lines_of_the_readme_are_short(page):
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert link.startswith("https://") or (page.parent / link).exists(), link
    long = [line for line in page.read_text().splitlines() if len(line) > 110]
    assert page.name != "README.md" or long == []
