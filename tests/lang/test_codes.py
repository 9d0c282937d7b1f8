"""The list of codes is closed, and the examples on each page are what they claim to be."""

import re
from pathlib import Path

import pytest

from bertc import lang
from bertc.base.diagnostics import Diagnostics, UsageError, codes, explain
from bertc.base.diagnostics.diagnostic import GROUPS
from bertc.check import passes
from bertc.check.compiling import equalise
from bertc.check.facts import counts, facts as filled_in
from bertc.check.facts.texts import look_at_text, read_files
from bertc.check.passes.changing.beginning import vectors as vectors_fit
from bertc.hub.leaving.target import remark_own_layout

PACKAGE = Path(__file__).parents[2] / "bertc"
OF_TEACHERS = ("E268", "E283", "E284", "E285", "E286", "E287", "R130")
"""Codes that compare a network with that of another spec, or are about that of init."""


def found(folder: Path, code: str, text: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The codes that a spec gives, read from a file and passed through every pass.
    Of a page on a remark they are those of remarks: its examples have no mistakes.
    """
    (folder / "example.bertc").write_text(text, encoding="utf-8")
    monkeypatch.chdir(folder)
    diagnostics = Diagnostics()
    programs = lang.load("example.bertc", (), diagnostics)[:1]
    for program in equalise(programs, diagnostics) if code == "E119" else programs:
        if code == "E309":
            read_files([program.settings["objective"]], diagnostics)
            break
        known = filled_in(program, diagnostics) if code in OF_TEACHERS else program
        if code in ("E332", "R127"):  # what reading a text tells
            monkeypatch.setattr(counts, "LITTLE_BYTES", 0)
            how = {"sparing": code == "R127", "too_much": set()}
            known = counts.add_text_counts(program, diagnostics, **how)
        complete = passes.complete(known, diagnostics)
        if code in ("E400", "E401"):  # of files of word vectors
            vectors_fit(complete, diagnostics)
        if code == "R129":
            look_at_text(complete, diagnostics)
        if code in ("E307", "E308"):  # elsewhere files are named that are not there
            passes.missing_inputs(complete, diagnostics)
        if code == "R108":
            remark_own_layout(complete, passes.assemble(complete), diagnostics)
    if code.startswith("R"):
        assert diagnostics.found == []
        # A task that learns its vocabulary has no pretrained network either.
        beside = {"R103", "R117"} if code in ("R117", "R119") else set()
        return {remark.code for remark in diagnostics.remarks} - (beside - {code})
    return {diagnostic.code for diagnostic in diagnostics.found}


@pytest.mark.parametrize("code", codes())
def test_examples(code, tmp_path, monkeypatch):
    page = codes()[code]
    folder = tmp_path / "specs"
    folder.mkdir()
    for name, text in page.beside.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    assert found(folder, code, page.bad, monkeypatch) == {code}
    assert found(folder, code, page.good, monkeypatch) == set()


def test_every_code_in_use_has_a_page_and_every_page_a_use():
    sources = (path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    used = {code for source in sources for code in re.findall(r'"([ER]\d{3})"', source)}
    assert used == set(codes())


def test_explain_shows_both_examples_lists_codes_by_group_or_names_a_near_one():
    pages, text = codes(), explain("e201")
    assert text.startswith("E201: heads that do not divide the width")
    assert "    hidden = 512  heads = 10" in text
    assert "    hidden = 512  heads = 8" in text
    listed = explain().splitlines()
    assert [line.split()[0] for line in listed if line.startswith(" ")] == sorted(pages)
    assert [line[:4] for line in listed if line[0] != " "] == [f"{g}xx" for g in GROUPS]
    assert explain("e20").startswith(f"E2xx: {GROUPS['E2']}\n  E201  {pages['E201'].title}\n  E202")
    assert pytest.raises(UsageError, explain, "E2O1").value.help.startswith("bertc explain E2")
