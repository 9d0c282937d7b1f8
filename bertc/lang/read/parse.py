"""Parsing: the text of a spec to its tree, with what else was expected at a mistake."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

from bertc.base.diagnostics import Diagnostics, Fix, Note, Source, Span
from bertc.base.storage.paths import shipped_specs
from bertc.lang.read.grammar import END
from bertc.lang.read.machine import Mistake, parse_items
from bertc.lang.read.scan import CLOSERS, MOST_MISTAKES, OPENERS, SPELLING, Token, scan
from bertc.lang.read.tree import Block, Item, Tree

_VALUE_STARTS = {"NUMBER", "STRING", "LSQB"}


def report_mistake(
    tokens: Sequence[Token], mistake: Mistake, source: Source, diagnostics: Diagnostics
) -> None:
    """Report the first mistake of a setting: a bracket, a word that stands alone, or another."""
    place, last = mistake.place, tokens[-1]
    token = tokens[place] if place < len(tokens) else Token(END, "", last.end, last.end)
    before = tokens[place - 1] if place else None
    span = Span(source, token.start, token.end)
    opened = [token for token in tokens[:place] if token.kind in OPENERS or token.kind in CLOSERS]
    opener = _innermost(opened)
    if token.kind == END and before and before.kind == "NAME" and not opener:
        alone = Span(source, before.start, before.end)
        help, fix = "write name = value; terms are joined by +; or remove it", Fix(alone, "")
        if before.text in shipped_specs():
            help, fix = f"extends {before.text}", Fix(alone, f"extends {before.text}")
        message, label = f"{before.quote()} stands alone", "neither a setting nor part of one"
        diagnostics.error("E007", message, alone, label=label, help=help, fix=fix)
    elif token.kind == END and opener and "COMMA" in mistake.expected:
        report_unclosed(opener, token.start, source, diagnostics)
    elif token.kind in CLOSERS and not opener:
        diagnostics.error("E002", f"`{token.text}` closes nothing", span, fix=Fix(span, ""))
    elif token.kind in CLOSERS and opener and token.kind != OPENERS[opener.kind]:
        diagnostics.error(
            "E002",
            f"`{opener.text}` is closed by `{token.text}`",
            span,
            notes=(Note("opened here", Span(source, opener.start, opener.end)),),
            help=f"write {SPELLING[OPENERS[opener.kind]]}",
            fix=Fix(span, SPELLING[OPENERS[opener.kind]]),
        )
    else:
        expected = _in_words(mistake.expected)
        diagnostics.error("E007", f"expected {expected}, found {token.quote()}", span)


def report_unclosed(opener: Token, end: int, source: Source, diagnostics: Diagnostics) -> None:
    """Report a bracket that is open at the end of a setting or of the text."""
    closer, place = SPELLING[OPENERS[opener.kind]], Span(source, end, end)
    message = f"`{opener.text}` is never closed"
    label = f"`{closer}` is missing here"
    notes = (Note("opened here", Span(source, opener.start, opener.end)),)
    diagnostics.error("E002", message, place, label=label, notes=notes, fix=Fix(place, closer))


def _innermost(brackets: Sequence[Token]) -> Token | None:
    """The last opening bracket that none of those after it closes."""
    opened: list[Token] = []
    for bracket in brackets:
        if bracket.kind in OPENERS:
            opened.append(bracket)
        elif opened:
            opened.pop()
    return opened[-1] if opened else None


def _in_words(kinds: Set[str]) -> str:
    words = [f"`{SPELLING[kind]}`" for kind in sorted(kinds) if kind in SPELLING]
    if kinds >= _VALUE_STARTS:
        words = ["a value"] + [word for word in words if word not in ("`[`", "`{`")]
    else:
        names = {"NUMBER": "a number", "STRING": "a string", "NAME": "a name"}
        words = [text for kind, text in names.items() if kind in kinds] + words
    if kinds & {"EXTENDS", END}:
        words.append("the next setting")
    return " or ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


_CONTINUING = (*OPENERS, "PLUS", "STAR", "SLASH")
OVERRIDE = "--set"
"""Prefix of the names of sources from the command line, where a shell removes quotes."""


def parse(text: str, name: str = "<spec>", diagnostics: Diagnostics | None = None) -> Tree:
    """Parse a spec called ``name`` to a tree; mistakes go to ``diagnostics``, it has the rest."""
    found = Diagnostics() if diagnostics is None else diagnostics
    source = Source(name, text)
    tokens, comments = scan(source, found)
    items, mistake = parse_items(tokens, source)
    if mistake:
        items = _recover_items(tokens, source, found)
    if diagnostics is None:
        found.raise_if_any()
    return Tree(source, tuple(items), tuple(comments))


def _recover_items(tokens: Sequence[Token], source: Source, diagnostics: Diagnostics) -> list[Item]:
    """The items of faulty tokens one by one, so that a mistake affects its own setting only.

    1. Cut the tokens before each setting, and around the header and the brace of a block.
    2. Read each setting into the list of its block; report the first mistake in it.
    3. At the brace that closes a block, or at the end, make the block with its items.
    """
    blocks: list[tuple[Sequence[Token], list[Item]]] = [((), [])]
    for chunk in _chunks(tokens, source):
        if len(diagnostics.found) > MOST_MISTAKES:
            break
        if _block_header(chunk):
            blocks.append((chunk, []))
        elif chunk[0].kind == "RBRACE" and blocks[1:]:
            _close_block(blocks, chunk[0], source)
        else:
            items, mistake = parse_items(chunk, source)
            if mistake:
                items = _items_before(chunk, mistake.place, source)
                report_mistake(chunk, mistake, source, diagnostics)
            blocks[-1][1].extend(items)
    while blocks[1:]:
        end = tokens[-1].end
        report_unclosed(blocks[-1][0][-1], end, source, diagnostics)
        _close_block(blocks, Token("RBRACE", "}", end, end), source)
    return blocks[0][1]


def _close_block(
    blocks: list[tuple[Sequence[Token], list[Item]]], closer: Token, source: Source
) -> None:
    """Make the innermost block an item of the one around it."""
    header, inside = blocks.pop()
    ((block, *_), _) = parse_items([*header, closer], source)
    assert isinstance(block, Block), "a header and its braces are a block"
    span = Span(source, header[0].start, closer.end)
    blocks[-1][1].append(replace(block, span=span, items=tuple(inside)))


def _items_before(tokens: Sequence[Token], place: int, source: Source) -> list[Item]:
    """The items of the longest correct beginning before a place, without one that is cut off."""
    while place and parse_items(tokens[:place], source)[1]:
        place -= 1
    items = parse_items(tokens[:place], source)[0]
    return items[:-1] if place < len(tokens) and tokens[place].kind in _CONTINUING else items


def _chunks(tokens: Sequence[Token], source: Source) -> Iterator[Sequence[Token]]:
    """Cut tokens before each setting, and around the header and the brace of a block."""
    first, index, depth = 0, 0, 0
    closed_later = _find_closed(tokens)
    while index < len(tokens):
        kind, before = tokens[index].kind, tokens[index - 1].kind if index else ""
        header = 0 if before == "EQUAL" else _block_header(tokens[index : index + 3])
        lone = header + 1 if header else int(kind == "RBRACE" and not depth)
        inside = depth > 0 and (closed_later[index] or before in ("LPAR", "COMMA"))
        if lone or _begins_setting(tokens, index, inside, source):
            if first < index:
                yield tokens[first:index]
            first, depth = index, 0
        if lone:
            index += lone
            yield tokens[first:index]
            first = index
        else:
            depth = max(0, depth + (kind in OPENERS) - (kind in CLOSERS))
            index += 1
    if first < index:
        yield tokens[first:]


def _begins_setting(tokens: Sequence[Token], index: int, inside: bool, source: Source) -> bool:
    """True if a setting or ``extends`` begins here; ``inside`` brackets only at the margin."""
    kinds, start = [token.kind for token in tokens[index : index + 2]], tokens[index].start
    if kinds[0] == "EXTENDS":
        return True
    extends = index and tokens[index - 1].kind == "EXTENDS"
    at_margin = source.text[start - 1 : start] in ("", "\n")
    return kinds == ["NAME", "EQUAL"] and not extends and (at_margin or not inside)


def _find_closed(tokens: Sequence[Token]) -> list[bool]:
    """For each token True if the bracket open before it is closed after it, by count."""
    depths = [0]
    for token in tokens:
        depths.append(depths[-1] + (token.kind in OPENERS) - (token.kind in CLOSERS))
    lowest, closed = depths[-1], [False] * len(tokens)
    for index in range(len(tokens) - 1, -1, -1):
        lowest = min(lowest, depths[index + 1])
        closed[index] = lowest < depths[index]
    return closed


def _block_header(tokens: Sequence[Token]) -> int:
    """The number of tokens before the brace of a block; 0 if no block begins here."""
    kinds = [token.kind for token in tokens[:3]]
    if kinds[:2] == ["NAME", "LBRACE"]:
        return 1
    return 2 if kinds == ["NAME", "STRING", "LBRACE"] else 0
