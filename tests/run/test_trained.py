"""A run in Python: texts in, answers out, and README's section as it stands."""

import re
from pathlib import Path

import pytest
import torch

import bertc
from bertc.base.diagnostics import UsageError
from bertc.run.train.loop import train
from bertc.use.fill_mask import fill
from tests.predicted import predict

README = Path(__file__).parents[2] / "README.md"
SPEC = "layers=1 hidden=16 heads=2 vocab=wordpiece(99) seq=16 batch=4 steps=2 device=cpu "
PARTS = {
    "classify": ("text\tpair\tlabel", "a hen\ta bird\tyes\na pond\ta hen\tno", ", pair=pair"),
    "regress": ("text\tlabel", "a hen\t1\na pond\t2", ""),
    "choose": ("question\ta\tb\tlabel", "a hen\tpond\tbird\t1", ", choices=[a, b]"),
    "tag": ("words\ttags", "a hen\tO BIRD\na pond\tO O", ""),
    "read": ("context\tquestion\tanswer\tstart", "a hen\twho\then\t2", ""),
    "embed": ("text\tpair", "a hen\ta bird\na pond\ta hen", ", positive=pair"),
}
ROWS = {
    "classify": ("a hen", "a bird"), "regress": "a hen", "choose": ("a hen", ["pond", "bird"]),
    "tag": "a hen", "read": ("a hen", "who"), "embed": ("a hen", "a bird"),
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a run of text, and one of each task in files of one's own."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "farm.txt").write_text("a hen\n\na duck\n\na pond and a bird\n")

    def make(name, spec):
        resolved = bertc.resolve(f"{SPEC} data=files('{folder}/farm.txt') {spec}")
        train(resolved, folder / "runs" / name, cache=folder / "cache", quiet=True)

    make("quickstart", "holdout=0.3 eval_examples=2")
    for kind, (names, rows, more) in PARTS.items():
        (folder / f"{kind}.tsv").write_text(f"{names}\n{rows}\n")
        make(kind, f"task={kind}('{folder}/{kind}.tsv'{more})")
    (folder / "runs" / "regress").rename(folder / "runs" / "stars")
    return folder


@pytest.mark.parametrize("kind", PARTS)
def test_rows_are_answered_as_those_of_a_file(runs, kind):
    run = runs / "runs" / ("stars" if kind == "regress" else kind)
    found = predict(run, runs / f"{kind}.tsv", device="cpu", quiet=True)
    names, rows, _ = PARTS[kind]
    by_column = dict(zip(names.split("\t"), rows.split("\n")[0].split("\t"), strict=True))
    of_rows, same = bertc.load(run).predict([ROWS[kind], by_column])
    assert numbers(of_rows) == pytest.approx(numbers(same), abs=1e-5)
    of_file = {name: value for name, value in next(found.each()).items() if name in of_rows}
    assert numbers(of_rows) == pytest.approx(numbers(of_file), abs=0.02), "in fp32, not in bf16"


def numbers(value):
    """All of them, in their order."""
    if isinstance(value, dict | list | tuple):
        each = value.values() if isinstance(value, dict) else value
        return [number for one in each for number in numbers(one)]
    return [value] if isinstance(value, float) else []


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("classify", "a hen"), ("classify", ("a", "b", "c")), ("choose", ("a hen", "pond")),
        ("choose", ("a hen", ["pond"])), ("read", "a hen"), ("tag", 7), ("stars", ("a hen", None)),
        ("stars", {"text": None}), ("choose", {"question": "a hen", "a": "pond"}),
    ],
)  # fmt: skip
def test_a_row_of_another_shape_says_what_is_expected(runs, kind, row):
    named = type(row).__name__
    with pytest.raises(TypeError, match=rf"row 0: \w+ expects .*, not (?:{named} |[\w, ]+$)"):
        bertc.load(runs / "runs" / kind).predict([row])


@pytest.mark.parametrize("row", ["a hen", {"text": "a hen"}])
def test_one_row_is_not_taken_for_several(runs, row):
    model = bertc.load(runs / "runs" / "classify")
    for answer in (model.predict, model.embed):
        with pytest.raises(TypeError, match="a list expected"):
            answer(row)


def test_texts_become_what_encode_takes(runs):
    model = bertc.load(runs / "runs" / "quickstart")
    batch = model.tokenizer(["a hen", ("a duck", "a pond and a bird")])
    assert {name: (t.shape[0], t.dtype) for name, t in batch.items()} == {
        "token_ids": (2, torch.long), "segment_ids": (2, torch.long),
        "attention_mask": (2, torch.bool),
    }  # fmt: skip
    assert not batch["attention_mask"][0].all()
    assert batch["segment_ids"][1].max() == 1
    hidden = model.encode(**batch)
    alone = model.encode(**model.tokenizer("a hen"))
    torch.testing.assert_close(hidden[:1, : alone.shape[1]], alone)
    assert model.tokenizer(["a hen " * 99])["token_ids"].shape == (1, 16), "no more positions"
    assert model.tokenizer([])["token_ids"].shape == (0, 0)
    with pytest.raises(TypeError, match="neither a text nor"):
        model.tokenizer([["a", "b"]])
    assert model.fill("a [MASK]", top=2) == fill(runs / "runs" / "quickstart", "a [MASK]", top=2)


@pytest.mark.parametrize("given", [5, ["a [MASK]"], None])
def test_what_is_no_text_is_not_filled(runs, given):
    with pytest.raises(TypeError, match="text is a .*: a str expected"):
        bertc.load(runs / "runs" / "quickstart").fill(given)
    with pytest.raises(UsageError, match="top is 0"):
        bertc.load(runs / "runs" / "quickstart").fill("a [MASK]", top=0)


@pytest.mark.parametrize("given", ["hello", [[1, 2]], torch.ones(3).long(), torch.ones(1, 3)])
def test_what_is_no_tensor_of_tokens_is_refused(runs, given):
    with pytest.raises(TypeError, match=r"\(batch, seq\) expected; .*model.tokenizer"):
        bertc.load(runs / "runs" / "quickstart").encode(given)


def test_the_section_of_the_readme_runs(runs, monkeypatch, capsys):
    section = README.read_text().partition("## From Python")[2]
    (code,) = re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    monkeypatch.chdir(runs)
    monkeypatch.setenv("BERTC_CACHE", str(runs / "cache"))
    toy = f"{SPEC} data=files('{runs}/farm.txt') holdout=0.3 eval_examples=2"
    names = {}
    exec(code.replace("extends quickstart", toy).replace("steps=100, ", ""), names)
    assert names["report"].step == 2
    assert names["hidden"].shape[::2] == (2, 16)
    assert "parameters" in capsys.readouterr().out
