"""Tree to programs: names, types, grids, stages, overrides and bases."""

from dataclasses import replace

import pytest

from bertc import api, lang
from bertc.base.diagnostics import DataError, Diagnostics, MissingInputError, SpecError
from bertc.ir.data import Docstrings, Files, Share
from bertc.ir.learning.objective import Mlm, Sop, Term
from bertc.ir.learning.optimizer import Adam, Lamb, Polynomial
from bertc.ir.network.layer import Dropout
from bertc.ir.network.positions import LearnedPositions
from bertc.ir.network.sharing import ShareAttention, ShareGroups, ShareMap
from bertc.ir.terms.masking import NgramUnit, Replace, SpanUnit
from bertc.ir.vocabulary import TokenizerFile, WordPiece
from bertc.lang import show
from bertc.lang.space import Interval, Options, SpacePoint, space

KEPT = Replace(mask=85, random=0, keep=15)


def only(text, *overrides):
    (program,) = lang.load(text, overrides)
    return program


def value(text):
    (given,) = only(text).settings.values()
    return given.value


def codes(text, *overrides):
    diagnostics = Diagnostics()
    lang.load(text, overrides, diagnostics)
    return [diagnostic.code for diagnostic in diagnostics.found]


def test_the_first_line():
    program = only("layers=12 share=attention E=128 objective=sop+span")
    assert {name: given.value for name, given in program.settings.items()} == {
        "layers": 12, "share": ShareAttention(), "embedding": 128,
        "objective": (Term(objective=Sop()), Term(objective=Mlm(unit=SpanUnit()))),
    }  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [
    ("V=30k", WordPiece(size=30_000)),
    ("vocab=wordpiece(30k, lower=false)", WordPiece(size=30_000, lower=False)),
    ('vocab="a/vocab.txt"', TokenizerFile(path="a/vocab.txt")),
    ("share=groups(4)", ShareGroups(groups=4)),
    ("share=map([0, 0], ffn=[0, 1])", ShareMap(attention=(0, 0), ffn=(0, 1))),
    ("heads=12", 12), ("heads=[12, 6]", (12, 6)), ("positions=512", LearnedPositions(rows=512)),
    ("positions=learned(514, offset=2)", LearnedPositions(rows=514, offset=2)),
    ("dropout=0", Dropout(hidden=0, attention=0)),
    ("dropout=dropout(0.2, attention=0)", Dropout(hidden=0.2, attention=0)),
    ("pooler=false", False), ("steps=1e5", 100_000), ("precision=bf16", "bf16"),
    ("data=docstrings([os, json])", (Share(corpus=Docstrings(packages=("os", "json"))),)),
    ("data='x/*.txt'", (Share(corpus=Files(path="x/*.txt")),)),
    ("data=0.7*files('x') + docstrings",
     (Share(weight=0.7, corpus=Files(path="x")), Share(corpus=Docstrings()))),
    ("objective=sop*50", (Term(weight=50, objective=Sop()),)),
    ("objective=span(p=.3)", (Term(objective=Mlm(unit=SpanUnit(p=0.3))),)),
    ("objective=mlm(15%, ngram(max=2), replace=85/0/15)",
     (Term(objective=Mlm(p=0.15, unit=NgramUnit(max=2), replace=KEPT)),)),
    ("optimizer=lamb(1.76e-3, warmup=3125, schedule=polynomial(decay_from=start))",
     Lamb(lr=1.76e-3, warmup=3125, schedule=Polynomial(decay_from="start"))),
    ("optimizer=adam", Adam(kind="adam")), ("optimizer=adamw(warmup=6%)", Adam(warmup=0.06)),
    ("optimizer=adamw(warmup=1)", Adam(warmup=1)),
    ("optimizer=adamw(warmup=0%)", Adam(warmup=0.0)),
])  # fmt: skip
def test_values(text, expected):
    """With their types: 1 is a step, and 0% a fraction."""
    assert repr(value(text)) == repr(expected)


def test_arguments_have_their_spans():
    origin = only("objective=2*sop + mlm(unit=span(max=4))").settings["objective"].origin
    assert origin.parts[(1, "objective", "unit", "max")].text == "4"
    assert origin.parts[(0, "weight")].text == "2"


def test_a_grid_is_the_product_of_its_settings_and_lowered_once_for_each_value():
    programs = lang.load("E={64,128} share={none,all} seq=128")
    points = [f"E={width} share={share}" for width in (64, 128) for share in ("none", "all")]
    assert [program.name for program in programs] == points
    assert {program.settings["seq"].value for program in programs} == {128}
    programs = lang.load("optimizer=lamb(lr={1e-3, 2e-3}, clip={1, 0})")
    rates = [program.settings["optimizer"].value for program in programs]
    assert [(r.lr, r.clip) for r in rates] == [(1e-3, 1), (1e-3, 0), (2e-3, 1), (2e-3, 0)]
    assert codes("optimizer=lamb(lr={1e-3, 2e-3}, clp=1)") == ["E104"], "once, for all points"

    ten = ",".join(str(64 * n) for n in range(1, 11))
    programs = lang.load(f"H={{{ten}}} E={{{ten}}} F={{{ten}}}")
    assert len(programs) == 1000
    assert programs[0].settings["hidden"] is programs[1].settings["hidden"]


def test_stages():
    program = only('steps=10 stage "a" { seq=128 B=8 } stage "b" { seq={512} }')
    assert [stage.name for stage in program.stages] == ["a", "b"]
    assert program.stages[0].settings["batch"].value == 8


def test_overrides_win_and_say_so():
    program = only("layers=12 E={1,2} stage 'a' { seq={128,512} }", "L=3", "E=7 seq=64")
    values = {name: given.value for name, given in program.settings.items()}
    assert values == {"layers": 3, "embedding": 7, "seq": 64}
    assert program.settings["layers"].origin.kind == "set"
    assert str(program.settings["layers"].origin.span) == "--set #1:1:1"
    assert dict(program.stages[0].settings) == {}
    # They may be grids, and may be wrong.
    assert len(lang.load("layers=12", ["E={1,2,3}"])) == 3
    assert only("").settings == {}
    assert codes("layers=12", "layrs=3") == ["E101"]
    assert codes("layers=12", "extends bert-base") == ["E111"]
    assert codes("layers=12", "layers") == ["E007"]


def test_wrong_settings_are_left_out_and_the_rest_is_kept():
    diagnostics = Diagnostics()
    (program,) = lang.load("layers=0 hidden=256 chickens=3", (), diagnostics)
    assert list(program.settings) == ["hidden"]
    assert len(diagnostics.found) == 2
    many = " ".join(f"x{n}=1" for n in range(3000))
    assert 100 <= len(codes(many)) < 110, "too many are cut short"


def test_extends_reads_bases(tmp_path, monkeypatch):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "b.bertc").write_text("extends './c.bertc' layers=3")
    (tmp_path / "below" / "c.bertc").write_text("hidden=64")
    (tmp_path / "a.bertc").write_text("extends './below/b.bertc' seq=64")
    program = only(str(tmp_path / "a.bertc"))
    assert program.name == "a"
    assert program.base.base.settings["hidden"].value == 64
    monkeypatch.chdir(tmp_path)
    assert only("extends './a.bertc'").base == replace(program, name="./a.bertc")


def test_a_mistake_in_a_base_is_shown_there_and_a_link_does_not_lead_out_of_the_folder(tmp_path):
    (tmp_path / "secret.bertc").write_text("the secret")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link.bertc").symlink_to(tmp_path / "secret.bertc")
    two = "extends './c.bertc' extends './c.bertc'"
    texts = {"b": "layers=0", "grid": "layers={1, 2}", "two": two, "c": "layers=1"}
    for base, text in texts.items():
        (tmp_path / "in" / f"{base}.bertc").write_text(text)
    bases = {"b": ("E109", "./b.bertc:1:8"), "link": ("E302", "a.bertc:1:9")}
    bases |= {"grid": ("E302", "a.bertc:1:9"), "two": ("E302", "./two.bertc:1:21")}
    for base, (code, place) in bases.items():
        (tmp_path / "in" / "a.bertc").write_text(f"extends './{base}.bertc'")
        error = pytest.raises(SpecError, lang.load, str(tmp_path / "in" / "a.bertc"))
        (mistake,) = error.value.diagnostics
        assert (mistake.code, str(mistake.span)[-len(place) :]) == (code, place)


def test_what_is_not_there_or_no_file_is_not_read(tmp_path):
    names = {"bert-bsae": "bert-base", "no/such.bertc": "path", "my file.bertc": "path"}
    for spec, help in {**names, str(tmp_path): "", "/dev/zero": ""}.items():
        error = pytest.raises(MissingInputError, lang.load, spec)
        assert error.value.exit_code == 66
        assert help in error.value.help
    (tmp_path / "binary.bertc").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="byte 0xff is not UTF-8"):
        lang.load(str(tmp_path / "binary.bertc"))


def test_a_block_gives_the_arguments_of_the_kind_that_a_number_stands_for():
    called = "generator = network(hidden=64, heads=1, tie=tokens)"
    assert value("generator { H=64 A=1 tie=tokens }") == value(called)
    assert only("dropout { hidden=0.2 }") == only("dropout = dropout(hidden=0.2)")


@pytest.mark.parametrize(
    ("written", "meant"),
    [("kd(logit)", "logits"), ("kd(Hidden, loss=mse)", "hidden"), ("kd", ""), ("kd(xyz)", "")],
)
def test_a_kind_named_with_its_first_word_is_completed(written, meant):
    diagnostics = Diagnostics()
    lang.load(f"objective = mlm + {written}", (), diagnostics)
    (mistake,) = diagnostics.found
    assert mistake.code == "E103"
    assert mistake.label == (f"did you mean `{meant}`?" if meant else "")
    assert mistake.help == f"kd({meant or 'logits'})"


SPEC = """
layers={2..12} dropout={0..1} share={none, all}
optimizer=adamw(lr={1e-5..1e-3:log}, warmup={1%..10%})
objective={mlm(p={10%..40%}), sop+mlm}
stage "a" { seq={64, 128} steps={10..1000:log} }
"""


def middle(dimension):
    match dimension:
        case Interval(low=low, high=high):
            return (low + high) / 2
        case Options(texts=texts):
            return texts[-1]


def test_dimensions_are_named_and_typed_by_what_holds_them():
    assert list(space(SPEC).dimensions.values()) == [
        Interval("layers", 2, 12, False, True), Interval("dropout", 0, 1, False, False),
        Options("share", ("none", "all")), Interval("optimizer.lr", 1e-5, 1e-3, True, False),
        Interval("optimizer.warmup", 0.01, 0.1, False, False),
        Options("objective", ("mlm(p={10%..40%})", "sop+mlm")),
        Interval("objective.p", 0.1, 0.4, False, False), Options("a.seq", ("64", "128")),
        Interval("a.steps", 10, 1000, True, True),
    ]  # fmt: skip


def test_a_point_is_a_program_and_its_settings_as_written():
    drawn = []
    point = space(SPEC).point(lambda each: drawn.append(each.name) or middle(each))
    assert point.settings == (
        "layers=7", "dropout=0.5", "share=all", "optimizer=adamw(lr=0.000505, warmup=0.055)",
        "objective=sop + mlm", "a.seq=128", "a.steps=505",
    )  # fmt: skip
    assert "objective.p" not in drawn, "it stands in a choice that was not made"
    assert api.resolve(point.program).encoder.depth == 7
    assert api.resolve(show(point.program)).stages == api.resolve(point.program).stages


def test_overrides_replace_and_add_dimensions():
    found = space("layers={2..4} batch={8, 16}", ["layers=3", "optimizer=adam({1e-4..1e-3})"])
    assert found.names == ("batch", "optimizer")
    point: SpacePoint = found.point(middle)
    assert point.settings == ("batch=16", "optimizer=adam(0.00055)")
    # Check looks at both ends, and nothing else takes a range.
    assert api.check("layers={2..12} dropout={0..0.3}") == 4
    caught = pytest.raises(SpecError, api.check, "heads={8..10}")
    assert [each.code for each in caught.value.diagnostics] == ["E201"]
    caught = pytest.raises(SpecError, api.estimate, "layers={2..12}")
    assert [each.code for each in caught.value.diagnostics] == ["E116"]


@pytest.mark.parametrize(
    "wrong", ["{12..2}", "{2..2}", "{2..4:lin}", "2..4", "{0..4:log}", "{2..4kb}"]
)
def test_ranges_that_are_none(wrong):
    caught = pytest.raises(SpecError, space, f"layers={wrong}")
    assert {each.code for each in caught.value.diagnostics} <= {"E116", "E010", "E109"}
