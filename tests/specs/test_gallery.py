"""The shipped specs as a list, and one with every setting and its source."""

import json

import pytest

from bertc.base.resources import shipped_specs
from bertc.check.showing import show
from bertc.lab.starting.gallery import Shipped, gallery_json, gallery_table, paper_of, sentence_of


@pytest.mark.parametrize("name", shipped_specs())
def test_every_shipped_spec_says_what_it_is_and_whose(name):
    text = shipped_specs()[name].read_text(encoding="utf-8")
    assert len(sentence_of(text)) > 3
    assert not set("#()") & set(sentence_of(text))
    assert paper_of(text), "the first comment of it, or of what it extends, names a paper"


def test_a_paper_is_that_of_the_base_where_none_is_named():
    assert paper_of("# Mine, of 2024.\nextends ettin-17m-8k\n") == "Weller et al. 2025"
    assert paper_of("# Mine (Chen and Lee 2031; code).\nextends bert-base\n") == "Chen and Lee 2031"
    assert paper_of("layers = 2\n") == ""


def test_the_table_and_json_say_the_same():
    grid = Shipped("a-grid", "What it is", "Who 2020", (9_800_000, 109_700_000))
    assert gallery_table([grid]) == "a-grid  9.8M to 109.7M  Who 2020  What it is"
    (read,) = json.loads(gallery_json([grid]))["specs"]
    assert read["parameters"] == [9_800_000, 109_700_000]


def test_arguments_that_nobody_wrote_are_shown_with_their_values():
    text = str(show("bert-base"))
    assert "dropout = dropout(hidden=0.1, attention=0.1, ffn=0, last=0)" in text
    optimizer = text[text.index("optimizer = adamw(") :].partition(")\n")[0]
    assert "lr=0.0001" in optimizer
    assert "betas=[0.9, 0.999]" in optimizer
    assert "clip=1" in optimizer
    assert max(map(len, text.split("\n"))) <= 100


def test_every_setting_says_where_it_comes_from(tmp_path):
    base = tmp_path / "base.bertc"
    base.write_text("# Above\n# it.\nlayers = 3\nhidden = 128  # because \x1b[31m\n")
    mine = tmp_path / "mine.bertc"
    mine.write_text('extends "base.bertc"\nseq = 64  # short texts\nstage "a" { steps = 5 }\n')
    text = str(show(str(mine), ["batch=8"]))
    said = {" ".join(line.split()) for line in text.split("\n")}
    assert {
        "layers = 3 # base.bertc: Above it.",
        "hidden = 128 # base.bertc: because \\x1b[31m",
        "seq = 64 # here: short texts",
        "heads = 2 # derived: hidden / 64",
        "steps = 5 # here",
    } <= said
    assert any(line.endswith("# default: BERT config") for line in said)
    assert "batch = 8" + " " * 37 + "# --set\n" in text
