"""Edits of a text that the help of a diagnostic stands for: its fix, or settings to write."""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from bertc.base.diagnostics import Diagnostic, Diagnostics, Fix, Source, Span, SpecError
from bertc.ir.program import Settings
from bertc.ir.program.settings import canonical
from bertc.lang.read.parse import parse
from bertc.lang.read.tree import Block, Item, Setting, Tree


def apply_edits(text: str, edits: Iterable[Fix]) -> str:
    """A text after edits of it that do not overlap."""
    for edit in reversed(sorted(edits, key=lambda edit: (edit.span.start, edit.span.end))):
        text = text[: edit.span.start] + edit.replacement + text[edit.span.end :]
    return text


class Remedy(NamedTuple):
    """A way out of a mistake: the help in words, and edits that are made together."""

    title: str
    edits: tuple[Fix, ...]


def remedies(diagnostic: Diagnostic, text: str) -> list[Remedy]:
    """The edits of a text that the help of a diagnostic offers: its fix, then other settings."""
    span = diagnostic.span
    source = span.source if span and span.source.text == text else Source("<spec>", text)
    ways: list[Remedy] = []
    fix, texts = diagnostic.fix, alternatives(diagnostic.help)
    if fix and fix.span.source == source:
        title = fix.in_words if len(texts) > 1 else diagnostic.help
        ways.append(Remedy(title, (fix,)))
    if len(texts) > 1 or not fix:
        ways += [Remedy(help, write_settings_in(source, help, span)) for help in texts]
    by_result: dict[str, Remedy] = {}
    for remedy in ways:
        by_result.setdefault(apply_edits(source.text, remedy.edits), remedy)
    return list(by_result.values())


def alternatives(help: str) -> list[str]:
    """The texts of a help that can be pasted as settings, if all of it is such texts."""
    texts = help.split(" or ")
    return texts if all(map(settings_written, texts)) else []


def settings_written(text: str) -> set[str]:
    """The settings that a text writes, by their own names; none if it is something else."""
    try:
        items = parse(text).items
    except SpecError:
        return set()
    known = {canonical(item.name.text) for item in items if isinstance(item, Setting)}
    return known if len(known) == len(items) and known <= set(Settings.model_fields) else set()


def written_settings(items: Iterable[Item]) -> list[Setting]:
    """The settings among some items, then those of blocks, by their own names."""
    items = list(items)
    blocks = (block.items for block in items if isinstance(block, Block))
    settings = (i for inside in (items, *blocks) for i in inside if isinstance(i, Setting))
    return [replace(i, name=replace(i.name, text=canonical(i.name.text))) for i in settings]


def write_settings_in(source: Source, text: str, meant: Span | None) -> tuple[Fix, ...]:
    """The edits that write settings in the place of those that a spec has, or else at its end.

    Of one that is written several times, the one at ``meant``, or else all are changed.
    """
    tree = _tree(source)
    items: list[Setting | Block] = [*written_settings(tree.items)]
    items += (item for item in tree.items if isinstance(item, Block))
    offset = meant.start if meant and meant.source == source else -1
    edits: list[Fix] = []
    added: list[str] = []
    for setting in parse(text).settings():
        name = canonical(setting.name.text)
        spans = [item.span for item in items if canonical(item.name.text) == name]
        places = [span for span in spans if span.start <= offset < span.end] or spans
        edits += [Fix(place, setting.span.text) for place in places]
        added += [] if places else [setting.span.text]
    if added:
        end = Span(source, len(source.text), len(source.text))
        line = "" if source.text.endswith("\n") or not source.text else "\n"
        edits.append(Fix(end, line + "\n".join(added) + "\n"))
    return tuple(edits)


@lru_cache(2)
def _tree(source: Source) -> Tree:
    """The tree of a text, kept since each of its mistakes asks for it."""
    return parse(source.text, source.name, Diagnostics())
