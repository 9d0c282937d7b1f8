"""Parsing of text to a tree; a faulty text gives a tree of its correct parts."""

from collections.abc import Sequence
from dataclasses import replace

from bertc.base.diagnostics import Diagnostics, Source, Span
from bertc.lang.read.brackets import balance
from bertc.lang.read.machine import parse_items
from bertc.lang.read.repair import repaired
from bertc.lang.read.scan import CLOSERS, MOST_MISTAKES, OPENERS, Token, scan
from bertc.lang.read.tree import Block, Item, Tree

OVERRIDE = "--set"
"""Prefix of the names of sources from the command line, where a shell removes quotes."""


def parse(text: str, name: str = "<spec>", diagnostics: Diagnostics | None = None) -> Tree:
    """Parse a spec called ``name`` to a tree; mistakes go to ``diagnostics``, it has the rest."""
    report = Diagnostics() if diagnostics is None else diagnostics
    source = Source(name, text)
    tokens, comments = scan(source, report)
    tokens = balance(tokens, source, report)
    items, mistake = parse_items(tokens, source)
    if mistake:
        items = _recovered(tokens, source, report)
    if diagnostics is None:
        report.raise_if_any()
    return Tree(source, tuple(items), tuple(comments))


def _recovered(tokens: Sequence[Token], source: Source, diagnostics: Diagnostics) -> list[Item]:
    """The items of faulty tokens one by one, so that a mistake affects its own setting only."""
    items: list[Item] = []
    for chunk in _chunks(tokens):
        if len(diagnostics.found) > MOST_MISTAKES:
            break
        if header := _block_header(chunk):
            inside = _recovered(chunk[header + 1 : -1], source, diagnostics)
            ((block, *_), _) = parse_items([*chunk[: header + 1], chunk[-1]], source)
            assert isinstance(block, Block), "a header and its braces are a block"
            span = Span(source, chunk[0].start, chunk[-1].end)
            items.append(replace(block, span=span, items=tuple(inside)))
        else:
            items += parse_items(repaired(chunk, source, diagnostics), source)[0]
    return items


def _chunks(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Cut balanced tokens before each setting, block and ``extends``, and after each block."""
    starts, depth, block_ends = {0}, 0, False
    for index, token in enumerate(tokens):
        if depth == 0 and _begins_item(tokens, index):
            starts.add(index)
            block_ends = block_ends or _block_header(tokens[index : index + 3]) > 0
        depth += (token.kind in OPENERS) - (token.kind in CLOSERS)
        if depth == 0 and block_ends and token.kind == "RBRACE":
            starts.add(index + 1)
            block_ends = False
    cuts = sorted(starts | {len(tokens)})
    return [tokens[a:b] for a, b in zip(cuts, cuts[1:], strict=False) if a < b <= len(tokens)]


def _begins_item(tokens: Sequence[Token], index: int) -> bool:
    kinds = [token.kind for token in tokens[index : index + 2]]
    before = tokens[index - 1].kind if index else ""
    if kinds[0] == "EXTENDS":
        return True
    if before == "EXTENDS":
        return False
    block = before != "EQUAL" and _block_header(tokens[index : index + 3]) > 0
    return block or kinds == ["NAME", "EQUAL"]


def _block_header(tokens: Sequence[Token]) -> int:
    """The number of tokens before the brace of a block; 0 if no block begins here."""
    kinds = [token.kind for token in tokens[:3]]
    if kinds[:2] == ["NAME", "LBRACE"]:
        return 1
    return 2 if kinds == ["NAME", "STRING", "LBRACE"] else 0
