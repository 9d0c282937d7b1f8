"""Layers that cannot be compared with a teacher's, and the ways out that are told."""

import pytest

from bertc import lang
from bertc.api import resolve
from bertc.base.diagnostics import Diagnostics
from bertc.check import passes
from bertc.check.facts import facts as filled_in
from bertc.ir.learning.objective import Objective
from tests.fixes import apply_fixes

STUDENT = "layers=2 hidden=24 heads=2 ffn=32 vocab=500 seq=16 "
TEACHER = "layers=4 hidden=48 heads=4 ffn=64 vocab=500 seq=16"


def mended(spec: str, code: str) -> list[Objective]:
    """The terms of a spec once its one mistake is mended as its diagnostic says."""
    diagnostics = Diagnostics()
    (program,) = lang.load(spec, (), diagnostics)
    passes.complete(filled_in(program, diagnostics), diagnostics)
    (found,) = diagnostics.found
    assert found.code == code
    assert found.help
    assert found.fix is not None
    (stage,) = resolve(apply_fixes(found.fix.span.source, [found])).stages
    return [term.objective for term in stage.objective]


@pytest.mark.parametrize(
    ("term", "code", "instead"),
    [
        ("kd(attention)", "E287", "kd(relations)"),
        ("kd(relations, heads=7)", "E287", "kd(relations)"),
        ("kd(relations, heads=16)", "E287", "kd(relations)"),
        ("kd(relations, layers=5)", "E286", "kd(relations)"),
        ("kd(hidden, layers=[5, 6, 7])", "E286", "kd(hidden)"),
        ("kd(attention, layers=[0, 2, 4])", "E286", "kd(attention)"),
    ],
)
def test_the_way_out_is_one(term, code, instead):
    teacher = TEACHER.replace("heads=4", "heads=2") if code == "E286" else TEACHER
    spec = f"{STUDENT} objective=0.5*{term}+mlm teacher=spec('{teacher}')"
    found, _ = mended(spec, code)
    assert found.title == instead


@pytest.mark.parametrize(
    ("own", "teacher"), [("attention=relative", ""), ("", "attention=relative")]
)
def test_scores_of_more_than_queries_and_keys_are_not_compared(own, teacher):
    spec = f"{STUDENT} {own} objective=kd(attention) teacher=spec('{TEACHER} heads=2 {teacher}')"
    (found,) = mended(spec.replace("heads=4 ", ""), "E287")
    assert found.title == "kd(relations)"


@pytest.mark.parametrize("whose", ["student", "teacher"])
@pytest.mark.parametrize("term", ["kd(attention)", "kd(cls)", "kd(embeddings)", "kd(hidden)"])
def test_an_lstm_has_no_attention_and_no_first_token(term, whose):
    lstm = "body=bilstm(8) vocab=500 seq=16 "
    own, teacher = (lstm, TEACHER) if whose == "student" else (STUDENT, lstm)
    mended(f"{own} objective=mlm+{term} teacher=spec('{teacher}')", "E287")
