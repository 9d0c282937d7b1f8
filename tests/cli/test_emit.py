"""What ``build`` shows is what estimate and train use; pictures have every part once."""

import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bertc import lang
from bertc.api import points, resolve
from bertc.cli.emit import emit
from bertc.ir.learning.objective import Mlm
from bertc.ir.program.resolved import Resolved, model_weights
from bertc.lab.drawing.columns import picture_of
from bertc.lab.drawing.pictures import svg
from tests.hub.programs import bert_folder
from tests.kinds import NETWORKS, OBJECTIVES
from tests.net.programs import FARM
from tests.shipped import PROGRAMS

TOY = "layers=2 hidden=32 heads=2 vocab=500 seq=32 batch=4"
UNIONS = ("attention", "positions", "share", "norm", "ffn", "table", "generator")
KINDS = [*OBJECTIVES.values(), *(kind for union in UNIONS for kind in NETWORKS[union].values())]


def assert_drawn(program: Resolved) -> None:
    drawn = picture_of(program)
    assert sum(box.numel for box in drawn.boxes) == sum(w.numel for w in model_weights(program))
    for a, b in combinations(drawn.boxes, 2):
        assert abs(a.x - b.x) > drawn.width or a.bottom < b.top or b.bottom < a.top
    image = ElementTree.fromstring(svg(drawn))
    assert len(image.findall("{*}rect")) == len(drawn.boxes)
    assert {end for edge in drawn.edges for end in edge[1:3]} == {*range(len(drawn.boxes))}


@pytest.mark.parametrize("spec", [*PROGRAMS, *(f"{TOY} {kind}" for kind in KINDS)])
def test_every_shipped_spec_and_kind_is_drawn(spec: str, monkeypatch) -> None:
    monkeypatch.chdir(FARM)
    for program in PROGRAMS.get(spec) or points(spec):
        assert_drawn(program)


@pytest.mark.parametrize(("spec", "drawn"), [
    ("bert-base", "af × 12"),
    ("extends albert-base share=attention", "af × 12 loop"),
    ("layers=6 share=map([0, 1, 2, 2, 1, 0])", "afafafafaf × 2 loop"),
    ("modernbert-base", "afafaf × 2 × 7"),
    ("layers=3 heads=[2, 1, 4] head_dim=64 ffn=[9, 8, 7]", "af × 3"),
    ("electra-small", "afaf × 12 × 12 tied guesses"),
    ("deberta-v3-base", "afaf × 6 × 12 added guesses"),
    ("tinybert-6", "afaf × 12 × 6 lesson lesson lesson"),
])  # fmt: skip
def test_equal_layers_are_drawn_once_and_networks_linked(spec: str, drawn: str) -> None:
    _, boxes, edges, *_ = picture_of(resolve(spec))
    parts = "".join(box.kind[0] for box in boxes if box.kind in ("attention", "ffn"))
    ways = [edge.label or edge.kind for edge in edges if edge.kind not in ("flow", "residual")]
    assert " ".join([parts, *ways]) == drawn


def test_names_are_text_and_defaults_are_shown(tmp_path: Path) -> None:
    (file := tmp_path / 'a<b&"\\c.bertc').write_text(TOY)
    assert "a&lt;b&amp;" in emit(str(file), (), "svg")
    text = emit(f"{TOY} optimizer=adamw", (), "resolved")
    assert "betas=[0.9, 0.999]" in text
    for name in Mlm.model_fields.keys() - {"kind"}:
        assert f"{name}=" in text


def test_the_network_of_init_is_shown(tmp_path: Path) -> None:
    bert_folder(tmp_path, "abcdefghijk", hidden=384, layers=6)
    text = emit(f'init="{tmp_path}" vocab=16 steps=10', (), "resolved")
    assert re.search("layers = 6 +# derived: that of init", text)
    assert re.search("hidden = 384 +# derived: that of init", text)


def test_a_task_is_shown_with_its_labels_and_as_written_with_the_places(tmp_path: Path) -> None:
    (tmp_path / "examples.csv").write_text("text,label\n" + "a good one,yes\na bad one,no\n" * 20)
    task = f'{TOY} epochs=3 objective=classify("{tmp_path}/examples.csv")'
    text = emit(task, (), "resolved")
    assert "examples=40" in text
    assert 'labels=["no", "yes"]' in text
    assert re.search("steps = 30 +# derived", text)
    text = emit(task, ["seq=16"], "program")
    assert "layers = 2  # written: <spec>:1:1" in text
    assert "seq = 16  # set: --set #1:1:1" in text
    assert "hidden_dropout" not in text
    (program,) = lang.load(task)  # of Python too
    assert resolve(program) == resolve(task)


@pytest.mark.parametrize(
    "spec", [*PROGRAMS, *(f"{TOY} {objective}" for objective in OBJECTIVES.values())]
)
def test_what_is_shown_reads_back_as_the_same_run(spec: str) -> None:
    (first, *others) = PROGRAMS.get(spec) or points(spec)
    if not others:
        (again,) = points(emit(spec, (), "resolved"))
        assert again.fingerprint() == first.fingerprint()
