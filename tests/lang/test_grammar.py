"""The grammar is LALR(1) without collisions, and its table is the grammar's."""

import json
import time

import pytest
from lark import Lark

from bertc.base.diagnostics import Diagnostics
from bertc.lang import parse
from bertc.lang.read.build import Builder
from bertc.lang.read.grammar import grammar, source_path, table_path
from bertc.lang.read.table import compile_table

SOURCE = source_path().read_text(encoding="utf-8")


def test_strictly_lalr() -> None:
    lark = Lark(SOURCE, parser="lalr", lexer="contextual", strict=True)
    assert lark.options.parser == "lalr"


def test_the_table_is_made_from_the_grammar() -> None:
    assert json.loads(table_path().read_text(encoding="utf-8")) == compile_table(SOURCE), (
        "run python -m bertc.lang.read.table"
    )


def test_every_rule_is_built() -> None:
    names = {p.name for p in grammar().productions if not p.inline and p.name != "start"}
    passed_on = {p.name for p in grammar().productions if p.lone and p.length == 1}
    source = Builder.node.__code__.co_consts
    assert {name for name in names - passed_on if name not in source} == set()


def test_no_kind_is_named() -> None:
    assert not {"mlm", "lamb", "wordpiece", "stage", "layers"} & set(SOURCE.split())


TRAPS = ("1e", "e1", "1-", "1.", "1e+1", "e+", "a-", "a.", '\\"', '"', "\\'", "'", "%", "..", "1..",
         "[", "{", "# ", "\t", "G ", "1 h ", "1 tokens ", "extends", "1,000 ", "~/",
         "/")  # fmt: skip
"""Beginnings that one terminal or another might match in many ways."""


@pytest.mark.parametrize("trap", TRAPS)
def test_reading_takes_time_in_proportion_to_the_text(trap: str) -> None:
    """Seconds of processor time: milliseconds here, hours where a trap doubles it each time."""
    for end in ("", "1", "..", "\n", "=", "\0"):
        text = "seed=" + (trap * 10_000)[:10_000] + end
        began = time.process_time()
        grammar().pattern.match(text, 5)
        assert time.process_time() - began < 0.05
        parse(text, "spec", Diagnostics())
        assert time.process_time() - began < 1
