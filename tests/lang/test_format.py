"""``bertc fmt``: tidy text that says the same, comments included."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertc import lang
from bertc.base.diagnostics import Diagnostics, SpecError, codes
from bertc.base.storage.paths import shipped_specs
from bertc.lang.files import format_file, spec_text

UNTIDY = """


# head
layers=12   hidden = 768 # trailing
extends   "x.bertc"


objective = mlm(  # why
   p=15%,   # in
   unit = span) + sop*50  # after
stage   "a" { # first
  seq=128   # s
  # last
}
stage 'b' {seq=512 steps=100k}
stage 'c' {}
seed={2 .. 12} optimizer=adam({1e-5..1e-3 : log}) steps=equal(1e15   flops)
A = [12,12,12,12,12,12,12,12,12,12,12,12,12,12,12,12,12,12,12,12,12,12,12,12,12,12,12,12,12]
# end"""

TIDY = """\
# head
layers = 12
hidden = 768  # trailing
extends "x.bertc"

# why
# in
objective = mlm(p=15%, unit=span) + 50*sop  # after
stage "a" {
    # first
    seq = 128  # s
    # last
}
stage "b" { seq = 512  steps = 100k }
stage "c" {}
seed = {2..12}
optimizer = adam({1e-5..1e-3:log})
steps = equal(1e15   flops)
A = [
    12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12,
    12, 12, 12, 12, 12,
]
# end
"""


GOOD = [*(page.good for page in codes().values()), UNTIDY, ""]
GOOD += [path.read_text(encoding="utf-8") for path in shipped_specs().values()]


def test_example():
    assert lang.format_text(UNTIDY) == TIDY


@pytest.mark.parametrize("text", GOOD)
def test_says_the_same_and_stays_the_same(text):
    tidy = lang.format_text(text)
    assert lang.parse(tidy) == lang.parse(text)
    assert lang.format_text(tidy) == tidy
    assert all(len(line) <= 100 for line in tidy.splitlines() if "#" not in line)


PIECES = st.sampled_from(
    ["a=1", "b = f(x, y=[1,2])", "c={1,2}", "d=80/10/10", "e=2*f + g", "# note", "\n", "\n\n",
     "\t", "stage 's' {", "}", "extends bert-base", 'g="x\\ty"', "h=f(" + "1," * 60 + "2)"]
)  # fmt: skip


@settings(max_examples=150, deadline=None, database=None, derandomize=True)
@given(st.lists(PIECES, max_size=14).map(" ".join))
def test_any_sound_text(text):
    diagnostics = Diagnostics()
    tree = lang.parse(text, "<spec>", diagnostics)
    if diagnostics.found:
        return
    tidy = lang.format_text(text)
    assert lang.parse(tidy) == tree
    assert lang.format_text(tidy) == tidy


def test_files(tmp_path):
    path = tmp_path / "a.bertc"
    path.write_text("layers 12")
    pytest.raises(SpecError, format_file, path, write=True)
    assert path.read_text() == "layers 12"
    path.write_text("layers=12")
    assert format_file(path, write=False)
    assert path.read_text() == "layers=12"
    assert format_file(path, write=True)
    assert path.read_text() == "layers = 12\n"
    assert not format_file(path, write=True)
    assert [each.name for each in tmp_path.iterdir()] == ["a.bertc"]


def test_the_text_of_a_spec_with_its_overrides_reads_as_the_spec():
    text = spec_text("layers=12 # c", ["hidden=3\n4"])
    assert lang.load(text)[0].settings["layers"].value == 12
    assert "# --set hidden=3 4" in text
