"""The grammar is LALR(1) without collisions, and the parser reads its language, token by token."""

import json
import random
import time

import pytest
from lark import Lark
from lark import Token as LarkToken

from bertc.base.diagnostics import Diagnostics, Source
from bertc.base.resources import folder
from bertc.lang import parse
from bertc.lang.read.grammar import END, grammar, table_path
from bertc.lang.read.machine import Builder, parse_items
from bertc.lang.read.scan import SPELLING, Token
from bertc.lang.read.table import compile_table

SOURCE = (folder("grammar") / "bertc.lark").read_text(encoding="utf-8")
LARK = Lark(SOURCE, parser="lalr", lexer="contextual", strict=True)
WORDS = {
    **SPELLING, "NAME": "a", "NUMBER": "1", "RANGE": "1..2", "STRING": "'s'", "EXTENDS": "extends",
}  # fmt: skip
STARTS = (
    "a = ", "a = a ( ", "a = a ( a = [ ", "a 's' { ", "extends ", "a = 1 * { ", "a = 1 / 1 + ", "",
)  # fmt: skip


def test_the_table_is_made_from_the_grammar():
    assert json.loads(table_path().read_text(encoding="utf-8")) == compile_table(SOURCE), (
        "run python -m bertc.lang.read.table"
    )


def test_every_rule_is_built():
    names = {p.name for p in grammar().productions if not p.inline and p.name != "start"}
    passed_on = {p.name for p in grammar().productions if p.lone and p.length == 1}
    source = Builder.node.__code__.co_consts
    assert {name for name in names - passed_on if name not in source} == set()


def test_the_parser_stops_where_the_grammar_does_and_expects_the_same():
    draw, kinds = random.Random(1), {word: kind for kind, word in WORDS.items()}
    for start in STARTS * 50:
        text = [*start.split(), *(draw.choice([*kinds]) for _ in range(draw.randrange(7)))]
        tokens = [Token(kinds[word], word, 0, 0) for word in text]
        state, place = LARK.parse_interactive(""), 0
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
