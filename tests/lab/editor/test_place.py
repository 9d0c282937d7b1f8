"""What may be written at a place of a half-typed spec, and what a word there means."""

import pytest

from bertc.base.diagnostics import codes
from bertc.lab.editor.hover import page_at
from bertc.lab.editor.place import place_at
from bertc.lab.editor.suggestions import suggestions
from bertc.lang.files import shipped_place


def offered(text: str) -> list[str]:
    """What is inserted of that which goes on from the end of a text; a bar is the cursor."""
    before, _, after = text.partition("|")
    place = place_at(before + after, len(before))
    found = suggestions(place)
    typed = place.text[place.start : place.cursor]
    return [suggestion.insert for suggestion in found if suggestion.text.startswith(typed)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("lay", ["layers = ", "layout = "]),
        ("lay|ers = 3", ["layers", "layout"]),
        ("layers=12 hid", ["hidden = "]),
        ("share = ", ["none", "all", "attention", "ffn", "groups(", "map("]),
        ("pack=t", ["true"]),
        ("objective = mlm(unit=", ["token", "word", "ngram", "span"]),
        ("objective = mlm(15%, un", ["unit="]),
        ("objective = span(", ["p=", "max="]),
        ("objective = mlm + so", ["sop"]),
        ("objective=5*k", ["kd(logits)"]),
        ("objective=mlm + kd(hidden, la", ["layers="]),
        ("optimizer=adamw(1e-3, schedule=w", ["wsd"]),
        ("heads={4, 8} att", ["attention = "]),
        ("objective = mlm(p=15%\nhid", ["hidden = "]),
        ("extends albert-ba", ["albert-base-paper", "albert-base"]),
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
def test_what_is_offered(text, first):
    assert offered(text)[: max(1, len(first))] == first


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
        ('sta|ge "a" { steps=1 }', "a part of the training"),
        ("hidden = 64|", ""),
        ("none|sense = 3", ""),
        ("layers = |", ""),
        ("# hid|den", ""),
    ],
)
def test_what_is_told(text, told):
    before, _, after = text.partition("|")
    page = page_at(place_at(before + after, len(before)))
    assert told in page if told else page == ""


def test_no_beginning_of_a_spec_raises():
    """However far it is typed, and whatever stands behind."""
    texts = [shipped_place("prune-heads").read().partition("\n\n")[2]]
    texts += [page.bad for code, page in codes().items() if code < "E1"]
    for text in texts:
        for end in range(0, len(text), 4):
            for whole in (text[:end], text):
                place = place_at(whole, end)
                suggestions(place)
                page_at(place)
