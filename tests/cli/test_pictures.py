"""Pictures of networks: every part once, none over another, in both forms."""

import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bertc.api import points, resolve
from bertc.base.resources import shipped_specs
from bertc.cli.emit import emit
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved
from bertc.lab.drawing.pictures import dot, svg
from bertc.use.boxes import Box, Element, boxes
from bertc.use.picture import picture_of
from tests.kinds import NETWORKS, OBJECTIVES

TOY = "layers=2 hidden=32 heads=2 vocab=500 seq=32 batch=4"
UNIONS = ("attention", "positions", "share", "norm", "ffn", "table", "generator")
KINDS = [setting for union in UNIONS for setting in NETWORKS[union].values()]


def assert_drawn(program: Resolved) -> None:
    drawn = picture_of(program)
    learned = [one for one in drawn.networks.items if "frozen" not in one.title]
    weights = sum(box.numel for one in learned for box in boxes(one))
    assert weights == sum(weight.numel for weight in model_weights(program)), program.name
    image = ElementTree.fromstring(svg(drawn))
    wide, high = (float(image.attrib[name]) for name in ("width", "height"))
    places = []
    for one in image.iter("{http://www.w3.org/2000/svg}rect"):
        if one.attrib["class"] not in ("frame", "ground"):
            left, top, width, height = (float(one.attrib[n]) for n in ("x", "y", "width", "height"))
            places.append((left, top, left + width, top + height))
            assert 0 <= left < left + width <= wide
            assert 0 <= top < top + height <= high
    for a, b in combinations(places, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], program.name
    text = dot(drawn)
    nodes = re.findall(r"^(\w+) \[", text, re.MULTILINE)
    assert len({*nodes}) == len(nodes) == len(places)
    assert {end for way in re.findall(r"(\w+) -> (\w+)", text) for end in way} == {*nodes}
    assert text.count("{ label") + 1 == len(re.findall("^}$", text, re.MULTILINE))


def test_every_shipped_spec_is_drawn() -> None:
    for name in shipped_specs():
        for program in points(name):
            assert_drawn(program)


@pytest.mark.parametrize("setting", [*KINDS, *OBJECTIVES.values()])
def test_every_kind_is_drawn(setting: str) -> None:
    assert_drawn(resolve(f"{TOY} {setting}"))


def outline(item: Element) -> str:
    """Attention and feed-forward parts, = for those drawn before, in their repetitions."""
    if isinstance(item, Box):
        return {"attention": "a", "ffn": "f", "again": "="}.get(item.kind, "")
    inner = "".join(map(outline, item.items))
    return inner if item.times == 1 else f"{item.times}{'@' if item.loops else 'x'}({inner})"


@pytest.mark.parametrize(
    ("spec", "drawn"),
    [
        ("bert-base", "12x(af)"),
        ("albert-base", "12@(af)"),
        ("extends albert-base share=attention", "12@(af)"),
        ("layers=6 share=groups(2)", "3@(af)3@(af)"),
        ("layers=6 share=map([0, 1, 2, 0, 1, 2])", "2@(afafaf)"),
        ("layers=6 share=map([0, 1, 2, 2, 1, 0])", "afaf2@(af)=="),
        ("layers=5 share=map([0, 1, 2, 1, 4], ffn=[0, 1, 2, 3, 1])", "afafaf=fa="),
        ("modernbert-base", "af7x(2x(af)af)"),
        ("layers=3 heads=[2, 1, 4] head_dim=64 ffn=[9, 8, 7]", "3x(af)"),
        ("electra-small", "12x(af)12x(af)"),
    ],
)
def test_equal_layers_and_shared_weights_are_drawn_once(spec: str, drawn: str) -> None:
    assert outline(picture_of(resolve(spec)).networks) == drawn


def test_ways_between_networks_are_labelled_and_names_are_text(tmp_path: Path) -> None:
    for spec, labels in (
        ("electra-small", ["guesses", "tied"]),
        ("deberta-v3-base", ["added", "guesses"]),
        ("tinybert-6", ["", "", ""]),  # a teacher, and what is learned from it
    ):
        assert sorted(link.label for link in picture_of(resolve(spec)).links) == labels
    file = tmp_path / 'a<b&"\\c.bertc'
    file.write_text(TOY)
    texts = [one.text or "" for one in ElementTree.fromstring(emit(str(file), (), "svg"))]
    assert any(text.startswith('a<b&"\\c, ') for text in texts)
    assert r'label="a<b&\"\\c, ' in emit(str(file), (), "dot")
