"""The examples in the docstrings of passes: what becomes of a spec, and what is found in one."""

import re

import pytest

from bertc import lang
from bertc.base.diagnostics import Diagnostics
from bertc.check import passes
from bertc.check.compiling import PASSES
from bertc.ir.program.complete import Complete

EXAMPLE = re.compile(r"``([^`]+)``\s+(?:becomes\s+``([^`]+)``|is\s+([ER]\d{3}))")


def completed(spec: str) -> tuple[Complete, Diagnostics]:
    diagnostics = Diagnostics()
    (program,) = lang.load(spec, (), diagnostics)
    return passes.complete(program, diagnostics), diagnostics


ON_FILES = ("facts", "vectors")
"""Passes on files, of which other tests have examples."""


@pytest.mark.parametrize(
    "step",
    [step for step in PASSES if step.__name__ not in ON_FILES],
    ids=lambda step: step.__name__,
)
def test_examples_of_passes_hold(step, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert").mkdir()
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(30517))]
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(tokens))
    text = re.sub(r"\s+", " ", step.__doc__)
    found = EXAMPLE.findall(text)
    assert found, "a pass says what it does by an example"
    for spec, after, code in found:
        complete, diagnostics = completed(spec)
        if code:
            assert [each.code for each in [*diagnostics.found, *diagnostics.remarks]] == [code]
            continue
        assert not diagnostics.found
        (wanted,) = lang.load(after.removesuffix(" ..."), (), Diagnostics())
        for setting, given in wanted.settings.items():
            assert getattr(complete.stages[0], setting) == given.value, setting
