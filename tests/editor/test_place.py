"""What may be written at a place of a half-typed spec, and what a word there means."""

from pathlib import Path

import pytest

from bertc.diagnostics import codes
from bertc.editor.hover import page_at
from bertc.editor.place import place_at
from bertc.editor.reading import as_written
from bertc.editor.suggestions import suggestions
from bertc.resources import folder
from bertc.syntax.files import shipped_place

HERE = Path("mine.bertc")


def offered(text: str) -> list[str]:
    """What is inserted of that which goes on from the end of a text; a bar is the cursor."""
    before, _, after = text.partition("|")
    place = place_at(before + after, len(before))
    found = suggestions(place, folder("specs"))
    return [suggestion.insert for suggestion in found if suggestion.text.startswith(place.typed)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("lay", ["layers = ", "layout = "]),
        ("lay|ers = 3", ["layers", "layout"]),
        ("L", ["L = "]),
        ("layers=12 hid", ["hidden = "]),
        ("layers = ", ["12"]),
        ("share = ", ["none", "all", "attention", "ffn", "groups(", "map("]),
        ("pack=t", ["true"]),
        ("objective = mlm(unit=", ["token", "word", "ngram", "span"]),
        ("objective = mlm(15%, un", ["unit="]),
        ("objective = span(", ["p=", "max="]),
        ("objective = mlm + so", ["sop"]),
        ("objective=5*kd(lo", ["logits"]),
        ("objective=mlm + kd(hidden, la", ["layers=", "last"]),
        ("optimizer=adamw(1e-3, schedule=w", ["wsd"]),
        ("heads={4, 8} att", ["attention = "]),
        ("objective = mlm(p=15%\nhid", ["hidden = "]),
        ("extends albert-ba", ["albert-base-paper", "albert-base"]),
        ('extends "bilstm', ["bilstm-soft.bertc"]),
        ('stage "long" { ste', ["steps = "]),
        ('stage "long" { hid', []),
        ("generator { hid", ["hidden = "]),
        ('stage "one" { steps=3 }\nlay', ["layers = ", "layout = "]),
        ("# lay", []),
        ('stage "lay', []),
        ("layers = 3 lay", ["layout = "]),
        ("nonsense = ", []),
        ("layers = 12,", []),
    ],
)
def test_what_is_offered(text: str, first: list[str]) -> None:
    assert offered(text)[: max(1, len(first))] == first


def test_files_are_offered_as_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "<script>\u202e.txt"
    (tmp_path / "corpus" / "deep").mkdir(parents=True)
    (tmp_path / "corpus" / name).touch()
    assert offered('data = files("cor') == ["corpus/"]
    assert offered('data = files("corpus/') == [f"corpus/{name}", "corpus/deep/"]
    assert offered('data = "corpus/nowhere/') == []
    assert offered('init="\0') == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hid|den = 64", "width of the residual stream"),
        ("H| = 64", "Default: `768`, of BERT-base"),
        ("heads| = 2", "Default: hidden / 64"),
        ("objective = m|lm + sop", "Predict masked tokens"),
        ("objective = mlm(p|=20%)", "**`p`** of `mlm`: number > 0, ≤ 1"),
        ("objective = mlm + k|d(logits, T=2)", "kd(logits, "),
        ("generator { hid|den = 64 }", "**`hidden`** of `network`"),
        ("extends albert-b|ase", "ALBERT-base, version 2, as released"),
        ("exte|nds albert-base", "begin with all settings"),
        ("extends bert-base layer|s = 3", "In `shipped bert-base`"),
        ('sta|ge "a" { steps=1 }', "a part of the training"),
        ("hidden = 64|", ""),
        ("none|sense = 3", ""),
        ("layers = |", ""),
        ("# hid|den", ""),
    ],
)
def test_what_is_told(text: str, told: str) -> None:
    before, _, after = text.partition("|")
    page = page_at(place_at(before + after, len(before)), as_written(HERE, before + after))
    assert told in page if told else page == ""


def test_no_beginning_of_a_spec_raises() -> None:
    """However far it is typed, and whatever stands behind."""
    texts = [shipped_place("prune-heads").read().partition("\n\n")[2]]
    texts += [page.bad for code, page in codes().items() if code < "E1"]
    for text in texts:
        written = as_written(HERE, text)
        for end in range(0, len(text), 4):
            for whole in (text[:end], text):
                place = place_at(whole, end)
                suggestions(place, folder("specs"))
                page_at(place, written)
