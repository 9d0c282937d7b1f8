"""The grammar is LALR(1), the parser reads its language, and ``bertc fmt`` writes it tidily."""

import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from lark import Lark, Token as LarkToken

from bertc import lang
from bertc.base.diagnostics import Diagnostics, Source, SpecError, codes
from bertc.base.storage.paths import folder, shipped_specs
from bertc.lang import parse
from bertc.lang.files import format_file, spec_text
from bertc.lang.read.grammar import END, compile_table, grammar, table_path
from bertc.lang.read.machine import Builder, parse_items
from bertc.lang.read.numbers import NUMBER_UNITS, NotANumberError, read_number, show_number
from bertc.lang.read.scan import SPELLING, Token
from bertc.lang.read.tree import Block, Extends, Grid, Name, Ratio, Scaled, Setting, String, Sum

SOURCE = (folder("grammar") / "bertc.lark").read_text(encoding="utf-8")
WORDS = {
    **SPELLING, "NAME": "a", "NUMBER": "1", "RANGE": "1..2", "STRING": "'s'", "EXTENDS": "extends",
}  # fmt: skip
STARTS = (
    "a = ", "a = a ( ", "a = a ( a = [ ", "a 's' { ", "extends ", "a = 1 * { ", "a = 1 / 1 + ", "",
)  # fmt: skip


def test_the_table_is_made_from_the_grammar_and_every_rule_is_built():
    table = json.loads(table_path().read_text(encoding="utf-8"))
    assert table == compile_table(SOURCE), "run python -m bertc.lang.read.grammar"
    names = {p.name for p in grammar().productions if not p.inline and p.name != "start"}
    passed_on = {p.name for p in grammar().productions if p.lone and p.length == 1}
    source = Builder.node.__code__.co_consts
    assert {name for name in names - passed_on if name not in source} == set()


def test_the_parser_stops_where_the_grammar_does_and_expects_the_same():
    draw, kinds = random.Random(1), {word: kind for kind, word in WORDS.items()}
    lark = Lark(SOURCE, parser="lalr", lexer="contextual", strict=True)
    for start in STARTS * 50:
        text = [*start.split(), *(draw.choice([*kinds]) for _ in range(draw.randrange(7)))]
        tokens = [Token(kinds[word], word, 0, 0) for word in text]
        state, place = lark.parse_interactive(""), 0
        allowed = state.accepts()
        while place < len(tokens) and tokens[place].kind in allowed:
            state.feed_token(LarkToken(tokens[place].kind, text[place]))
            allowed, place = state.accepts(), place + 1
        mistake = parse_items(tokens, Source("", " "))[1]
        assert (place == len(tokens) and END in allowed) == (mistake is None), text
        assert mistake is None or mistake == (place, allowed), text


def test_no_kind_is_named():
    assert not {"mlm", "lamb", "wordpiece", "stage", "layers"} & set(SOURCE.split())


TRAPS = ("1e", "e1", "1-", "1.", "1e+1", "e+", "a-", "a.", '\\"', '"', "\\'", "'", "%", "..", "1..",
         "[", "{", "# ", "\t", "G ", "1 h ", "1 tokens ", "extends", "1,000 ", "~/",
         "/")  # fmt: skip
"""Beginnings that one terminal or another might match in many ways."""


@pytest.mark.parametrize("trap", TRAPS)
def test_reading_takes_time_in_proportion_to_the_text(trap):
    """Seconds of processor time: milliseconds here, hours where a trap doubles it each time."""
    for end in ("", "1", "..", "\n", "=", "\0"):
        text = "seed=" + (trap * 10_000)[:10_000] + end
        began = time.process_time()
        grammar().pattern.match(text, 5)
        assert time.process_time() - began < 0.05
        parse(text, "spec", Diagnostics())
        assert time.process_time() - began < 1


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
    assert repr(read) == repr(NUMBERS), "with their types"
    assert all(read_number(show_number(number)) == number for number in read.values())
    units = {unit: read_number(f"2{unit}") for unit in NUMBER_UNITS}
    assert units == {unit: float(2 * factor) for unit, factor in NUMBER_UNITS.items()}


@pytest.mark.parametrize("text", [
    "1e999", "9" * 41, "1.2.3", "1_000", "3kk", "1e", "0x10", "4e-416777216", "0e-999999999",
    "1e-9999999h", f"1{'e' * 10**6}_", "1e1000", "1e-1000%",
])  # fmt: skip
def test_not_numbers(text):
    pytest.raises(NotANumberError, read_number, text)


def test_forms_of_values():
    total = value("0.7*files('x') + docstrings")
    forms = {"80/10/10": Ratio, "{a, b, c}": Grid, "0.7*files('x') + docstrings": Sum}
    assert {text: type(value(text)) for text in forms} == forms
    assert isinstance(total.items[0], Scaled)
    anywhere = lang.parse("x = 1").items[0].span
    assert value("segment-pair") == Name(anywhere, "segment-pair")
    assert value("'a\\'b\\n\\u{1F600}'") == String(anywhere, "a'b\n\U0001f600")
    assert value("rtd*50 + mlm") == value("50*rtd + mlm")
    assert value("f(1, b=g(2,),)") == value("f( 1 ,b = g(2) )")


def test_items():
    tree = lang.parse('# c\nextends albert-base\nstage "long" { seq=512 steps=100k } # d\na=1')
    assert [type(item) for item in tree.items] == [Extends, Block, Setting]
    assert [comment.text for comment in tree.comments] == ["# c", "# d"]
    spans = [str(setting.span) for setting in lang.parse("a=1\n  bb = f(x,\n y=2)", "n").settings()]
    assert spans == ["n:1:1", "n:2:3"]


def test_what_can_be_understood_is_kept_and_mistakes_are_raised_where_nobody_takes_them():
    error = pytest.raises(SpecError, lang.parse, "layers 12 hidden = = 3")
    assert [d.code for d in error.value.diagnostics] == ["E007", "E007"]
    diagnostics = Diagnostics()
    tree = lang.parse("layers = 12 hidden == (3 heads = 4 seq =", "<spec>", diagnostics)
    assert {setting.name.text for setting in tree.settings()} >= {"layers", "heads"}
    assert diagnostics.found


UNTIDY = Path(__file__).with_name("untidy.bertc").read_text()
TIDY = Path(__file__).with_name("tidy.bertc").read_text()

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
