"""Loading of specs, with the specs that they extend, into programs."""

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path, PurePath
from typing import NamedTuple

from bertc.base.diagnostics import BertcError, Diagnostics, Fix, Note, Source, UsageError, nearest
from bertc.base.storage.paths import names_in, real_path, shipped_specs
from bertc.ir.written import Program
from bertc.lang.files import SUFFIX, SpecLocation, find_spec, shipped_place
from bertc.lang.helps import written_settings
from bertc.lang.lowering.grids import ranges
from bertc.lang.lowering.lower import lower_tree
from bertc.lang.read.parse import OVERRIDE, parse
from bertc.lang.read.scan import MOST_MISTAKES
from bertc.lang.read.tree import Extends, String, Tree
from bertc.lang.write.show import quote

DEEPEST_BASE = 16
_BARE_PATH = re.compile(
    r"^(\s*[A-Za-z_][\w-]*\s*=\s*)((?:[~.]?/|[A-Za-z_][\w-]*[./])[\w~./*?-]+)\s*$"
)
"""An unquoted path after ``--set name=``: the shell has removed the quotes."""


class Written(NamedTuple):
    """A spec as read: its tree, those of ``--set`` arguments, and the program that it extends."""

    title: str
    tree: Tree
    overrides: tuple[Tree, ...]
    base: Program | None

    @property
    def has_ranges(self) -> bool:
        """True if it or its overrides have a range, which only a search can draw from."""
        settings = (
            s for tree in (self.tree, *self.overrides) for s in written_settings(tree.items)
        )
        return any(any(ranges(setting.value)) for setting in settings)


def load(
    spec: str | SpecLocation | Written,
    overrides: Sequence[str | Source] = (),
    diagnostics: Diagnostics | None = None,
    *,
    searched: bool = False,
) -> list[Program]:
    """Load the programs of a spec: one, or one for each point of its grids.

    ``overrides`` are ``--set`` arguments, or texts by another name, such as that of an option; a
    spec that was read has its own. Mistakes go to ``diagnostics``; the programs have the rest.
    ``searched``: a spec may have ranges, and the programs are samples of its values.
    """
    report = Diagnostics() if diagnostics is None else diagnostics
    it = spec if isinstance(spec, Written) else read_spec(spec, overrides, report)
    programs = lower_tree(it.tree, report, it.title, it.base, it.overrides, searched)
    if len(report.found) > MOST_MISTAKES:
        message = f"more than {MOST_MISTAKES} mistakes; the rest is not read"
        report.error("E011", message, report.found[-1].span)
    if diagnostics is None:
        report.raise_if_any()
    return programs


def read_spec(
    spec: str | SpecLocation, overrides: Sequence[str | Source], report: Diagnostics
) -> Written:
    """Read a spec, its overrides and the specs that it extends; mistakes go to ``report``."""
    place = spec if isinstance(spec, SpecLocation) else find_spec(spec)
    text = place.read()
    if place.name != "<spec>" and not re.sub("#.*", "", text).strip():
        raise UsageError(f"the spec {place.name} is empty", help="extends bert-base, for one")
    tree = parse(text, place.name, report)
    sources = (
        override if isinstance(override, Source) else Source(f"{OVERRIDE} #{number}", override)
        for number, override in enumerate(overrides, 1)
    )
    sets = [_read(_BARE_PATH.sub(r'\1"\2"', s.text), s.name, report) for s in sources]
    base = _Bases(place.root, report).of(tree, place.here, [place])
    return Written(place.title, tree, tuple(sets), base)


def _read(text: str, name: str, report: Diagnostics) -> Tree:
    """The tree of a base or an override, which many programs share."""
    tree, mistakes = _parsed(text, name)
    report.add(mistakes)
    return tree


@lru_cache(256)
def _parsed(text: str, name: str) -> tuple[Tree, Diagnostics]:
    mistakes = Diagnostics()
    return parse(text, name, mistakes), mistakes


class _Bases(NamedTuple):
    """A loader of the chain of specs that a spec extends."""

    root: Path
    diagnostics: Diagnostics

    def of(self, tree: Tree, folder: Path, chain: list[SpecLocation]) -> Program | None:
        """The base of a tree with its own bases; None if it has none or it is wrong."""
        extends = [item for item in tree.items if isinstance(item, Extends)]
        if not extends:
            return None
        for again in extends[1:MOST_MISTAKES]:
            self.diagnostics.error(
                "E302",
                "a spec extends one other, not two",
                again.span,
                notes=(Note("the first one is here", extends[0].span),),
                help="remove one of the two",
                fix=Fix(again.span, ""),
            )
        place = self.find(extends[0], folder)
        if place is None or not self.sound(place, extends[0], chain):
            return None
        target = extends[0].target.span
        try:
            text = place.read()
        except BertcError as error:
            self.diagnostics.error("E305", error.message, target, help=error.help)
            return None
        tree = _read(text, place.name, self.diagnostics)
        base = self.of(tree, place.here, [*chain, place])
        programs = lower_tree(tree, self.diagnostics, place.title, base)
        if len(programs) > 1:
            message = f"`{place.title}` is a grid of {len(programs):,} specs"
            self.diagnostics.error("E302", message, target, help="extend a spec without a grid")
            return None
        return programs[0]

    def find(self, extends: Extends, folder: Path) -> SpecLocation | None:
        target, notes = extends.target, tuple[Note, ...]()
        if isinstance(target, String):
            path = folder / target.value
            if path.suffix == SUFFIX and os.path.lexists(path):
                if self.has(path):
                    name, root = target.value, self.root
                    return SpecLocation(name, name, path, path.parent, root, span=extends.span)
                message = f"{target.value[:200]} is outside the folder of the spec"
                notes = (Note("a spec extends files beside or below it"),)
                help = "copy it beside the spec"
                self.diagnostics.error("E302", message, target.span, notes=notes, help=help)
                return None
            wrong = "" if path.suffix == SUFFIX else f"; a spec ends in {SUFFIX}"
            names = names_in(path.parent) if self.has(path.parent) else []
            near = nearest(path.name, [name for name in names if name.endswith(SUFFIX)])
            near = quote(str(PurePath(target.value).parent / near)) if near else ""
            what, help = f"spec {target.value[:200]}{wrong}", "check the path"
        elif target.text in shipped_specs():
            return shipped_place(target.text, extends.span)
        else:
            what, near = f"shipped spec `{target.text[:60]}`", nearest(target.text, shipped_specs())
            notes = (Note("`bertc specs` lists those that there are"),)
            help = 'a file is written in quotes: extends "./x.bertc"'
        self.diagnostics.error(
            "E301",
            f"there is no {what}",
            target.span,
            label=f"did you mean `{near}`?" if near else "",
            notes=notes,
            help=f"extends {near}" if near else help,
            fix=Fix(target.span, near) if near else None,
        )
        return None

    def has(self, path: Path) -> bool:
        """True if a path is in the folder that bases may be in."""
        return real_path(path).is_relative_to(real_path(self.root))

    def sound(self, place: SpecLocation, extends: Extends, chain: list[SpecLocation]) -> bool:
        """True unless the chain of bases has a cycle or is too long, which is reported."""
        assert place.path is not None, "a base is a file"
        for earlier in chain:
            if earlier.path and real_path(earlier.path) == real_path(place.path):
                notes = tuple(Note("by way of this", p.span) for p in chain[1:] if p.span)
                message = f"{place.name} extends itself"
                self.diagnostics.error("E302", message, extends.span, notes=notes[:2])
                return False
        if len(chain) > DEEPEST_BASE:
            message = f"a chain of more than {DEEPEST_BASE} specs that extend each other"
            self.diagnostics.error("E011", message, extends.span)
        return len(chain) <= DEEPEST_BASE
