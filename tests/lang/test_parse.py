"""Text to tree: what each form of the language says."""

import pytest

from bertc import lang
from bertc.base.diagnostics import Diagnostics, SpecError
from bertc.lang.read.numbers import NUMBER_UNITS, NotANumberError, read_number, show_number
from bertc.lang.read.tree import Block, Extends, Grid, Name, Ratio, Scaled, Setting, String, Sum


def value(text: str) -> object:
    (setting,) = lang.parse(f"x = {text}").settings()
    return setting.value


NUMBERS = {
    "30k": 30_000, "8Ki": 8192, "1M": 10**6, "1.5k": 1500, "2G": 2 * 10**9, "15%": 0.15,
    "100%": 1.0, "1e-4": 1e-4, "1e6": 10**6, ".5": 0.5, "5.": 5, "-1": -1, "1.76e-3": 1.76e-3,
    "0.1": 0.1,
}  # fmt: skip


def test_numbers():
    read = {text: read_number(text) for text in NUMBERS}
    assert {text: repr(number) for text, number in read.items()} == {
        text: repr(number) for text, number in NUMBERS.items()
    }
    assert all(read_number(show_number(number)) == number for number in read.values())
    units = {unit: read_number(f"2{unit}") for unit in NUMBER_UNITS}
    assert units == {unit: float(2 * factor) for unit, factor in NUMBER_UNITS.items()}


@pytest.mark.parametrize("text", ["1e999", "9" * 33, "1.2.3", "1_000", "3kk", "1e", "0x10"])
def test_not_numbers(text):
    with pytest.raises(NotANumberError):
        read_number(text)


def test_forms_of_values():
    assert isinstance(value("80/10/10"), Ratio)
    assert isinstance(value("{a, b, c}"), Grid)
    assert value("segment-pair") == Name(_anywhere(), "segment-pair")
    assert value("'a\\'b\\n\\u{1F600}'") == String(_anywhere(), "a'b\n\U0001f600")
    assert value("rtd*50 + mlm") == value("50*rtd + mlm")
    total = value("0.7*files('x') + docstrings")
    assert isinstance(total, Sum)
    assert isinstance(total.terms[0], Scaled)
    assert value("f(1, b=g(2,),)") == value("f( 1 ,b = g(2) )")


def test_items():
    tree = lang.parse('# c\nextends albert-base\nstage "long" { seq=512 steps=100k } # d\na=1')
    assert [type(item) for item in tree.items] == [Extends, Block, Setting]
    assert [comment.text for comment in tree.comments] == ["# c", "# d"]
    spans = [str(setting.span) for setting in lang.parse("a=1\n  bb = f(x,\n y=2)", "n").settings()]
    assert spans == ["n:1:1", "n:2:3"]


def test_what_can_be_understood_is_kept_and_mistakes_are_raised_where_nobody_takes_them():
    with pytest.raises(SpecError) as error:
        lang.parse("layers 12 hidden = = 3")
    assert [d.code for d in error.value.diagnostics] == ["E004", "E007"]
    diagnostics = Diagnostics()
    tree = lang.parse("layers = 12 hidden == (3 heads = 4 seq =", "<spec>", diagnostics)
    assert {setting.name.text for setting in tree.settings()} >= {"layers", "heads"}
    assert diagnostics.found


def _anywhere() -> object:
    return lang.parse("x = 1").items[0].span
