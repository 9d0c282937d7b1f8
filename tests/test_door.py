"""``bertc.Spec`` and ``bertc.open``: text and Python values say the same, errors name keywords."""

import inspect
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import bertc
from bertc import Spec, lab_api, lang
from bertc.api.words import kinds, text_of
from bertc.ir.program.settings import Settings
from bertc.ir.written import Given, Origin, Program
from bertc.lang.read.shapes import setting_shape
from tests import typed
from tests.lang.test_round_trips import values

SPEC = "layers=1 hidden=32 heads=2 seq=16 batch=4 steps=2 data='text.txt' vocab=wordpiece(64)"


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A program of some settings."""
    names = draw(st.lists(st.sampled_from([*Settings.model_fields]), unique=True, max_size=4))
    drawn = {name: draw(values(setting_shape(name))) for name in names}
    return Program("", {name: Given(value, Origin("written")) for name, value in drawn.items()})


@given(programs())
@settings(max_examples=200, deadline=None)
def test_text_and_spec_are_the_same(program: Program) -> None:
    text = lang.format_text(lang.show(program))
    spec = Spec(text)
    assert spec.text == text
    shown = {n: lang.show_value(g.value, setting_shape(n)) for n, g in program.settings.items()}
    keywords = Spec(**shown)
    assert keywords == spec == Spec(spec.text) == Spec(keywords.text)
    assert hash(keywords) == hash(spec)
    assert eval(repr(keywords)) == keywords


def test_values_of_python_are_those_of_the_language() -> None:
    objective = bertc.mlm(p=0.3, unit=bertc.span) + 2 * (bertc.sop() + bertc.nsp())
    spec = Spec(
        "extends bert-base hidden=64 generator { hidden=8 }", L=2, hidden=384, heads=[6, 4],
        pack=True, objective=objective, data=bertc.files(Path("my texts/*.txt"), column="body"),
        optimizer=bertc.stable_adamw(1e-3, schedule=bertc.wsd(0.2)), generator="none",
        init="runs/first",
    )  # fmt: skip
    assert spec == Spec(
        "extends bert-base L=2 hidden=384 heads=[6,4] pack=true generator=none "
        "objective=mlm(p=0.3,unit=span)+2*sop+2*nsp data=files('my texts/*.txt',column=body) "
        "optimizer=stable-adamw(1e-3,schedule=wsd(0.2)) init='runs/first'"
    )
    assert spec != spec.with_(L=3)
    assert Spec(L=np.int64(3), dropout=np.float32(0.5)) == Spec("L=3 dropout=0.5")
    assert Spec(objective=sum([bertc.mlm(), bertc.sop()])) == Spec("objective=mlm+sop")
    assert "generator = none" in spec.text
    with pytest.raises(TypeError, match="no dict"):
        text_of({})  # type: ignore[arg-type]


def test_mistakes_are_at_the_keyword() -> None:
    spec = Spec("bert-base", heads=5, objectiv="mlm")
    with pytest.raises(bertc.SpecError, match="keyword objectiv:1:1: E101") as error:
        spec.resolve()
    assert error.value.diagnostics[0].span.text == "objectiv"
    assert [mistake.code for mistake in spec.check().found] == ["E101", "E201"]
    assert "keyword objectiv" in str(spec.check())
    assert not Spec("layers=2").check()
    assert "layers=" in Spec("layers=")._repr_html_()
    missing = pytest.raises(bertc.MissingInputError, Spec, "bert-bass")
    assert missing.value.__notes__ == ["help: did you mean bert-base?"]


def test_an_argument_stands_for_its_setting() -> None:
    changed = Spec("extends bert-base").with_(lr=1e-3).resolve().stages[0].optimizer
    optimizer = Spec("bert-base").resolve().stages[0].optimizer
    assert changed == optimizer.model_copy(update={"lr": 1e-3})
    assert Spec().with_(lr=2e-5).resolve().stages[0].optimizer.lr == 2e-5
    assert Spec("extends bert-base", lr=1e-3).resolve().stages[0].optimizer == changed
    with pytest.raises(bertc.UsageError, match="dropoutt is no setting") as error:
        Spec().with_(dropoutt=0)
    assert error.value.help == "did you mean dropout?"


def test_a_grid_is_its_specs() -> None:
    specs = Spec(SPEC).grid(seed=[1, 2], hidden=[32, 64])
    assert [spec.resolve().run.seed for spec in specs] == [1, 1, 2, 2]
    points = lab_api.points(f"{SPEC.replace('hidden=32', '')} seed={{1,2}} hidden={{32,64}}")
    assert {spec.resolve().fingerprint() for spec in specs} == {p.fingerprint() for p in points}
    for nothing in ("adam", 3, ()):
        with pytest.raises(bertc.UsageError, match="optimizer has no list of values"):
            Spec(SPEC).grid(optimizer=nothing)  # type: ignore[arg-type]


def test_every_kind_has_a_typed_function() -> None:
    assert typed.PATH.read_text() == typed.stub(), "run python -m tests.typed"
    assert {*kinds()} <= {*dir(bertc)}
    assert not {*kinds()} & {*bertc.__all__}
    assert str(inspect.signature(bertc.sop)) == "()"
    assert "p=0.15, unit=token" in str(inspect.signature(bertc.mlm))
    assert "unit: `token` `word`" in (bertc.mlm.__doc__ or "")


def test_a_run_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("the hen sat on the egg\n\n" * 40)
    spec = Spec(SPEC)
    report = spec.train("run")
    run = bertc.open("run")
    assert report.step == run.metrics[-1]["step"] == 2
    assert Spec("run/spec.bertc") == spec
    assert run.metrics.frame.step.max() == 2
    text = "the [MASK] sat"
    assert run.fill(text).summary() == bertc.load("run").fill(text).summary()
    assert (run.embed(["a hen"]).shape, run.encode("a hen").shape[-1]) == ((1, 32), 32)
    assert run.evaluate(examples=4).step == 2
    assert Spec(init=run) == Spec(init=Path("run"))
    assert "step" in run.metrics._repr_html_()
    assert "mask 1" in run.fill(text)._repr_html_()
    pytest.raises(bertc.UsageError, run.evaluate, example=4).match("evaluate has no example")
    others = bertc.open(run.export("exported"))
    pytest.raises(bertc.UsageError, others.evaluate).match("exported is no run")
    assert (others.embed(["a hen"]) == run.embed(["a hen"])).all()
    assert others.metrics == []
    assert "held-out mlm" in run._repr_html_()
    assert "run" in repr(run)
    pytest.raises(bertc.MissingInputError, bertc.open, "nowhere").match("there is no folder")
