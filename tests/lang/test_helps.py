"""Every help that a message on a spec gives, followed: the error is gone, and no other has come.
A help is one of three things. It is settings to write, with ``or`` between alternatives; or it is
what its fix makes of the text; or it is advice in words, which does not look like text to paste but
behind ``as in``.
"""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pytest

from bertc import lang
from bertc.base.diagnostics import Diagnostics, Source, codes
from bertc.check import passes
from bertc.ir.fixes import call_text
from bertc.ir.program.settings import Settings, canonical
from bertc.lang import helps
from bertc.lang.helps import alternatives, apply_edits, settings_written
from bertc.lang.read import shapes
from bertc.lang.read.tree import Block
from bertc.lang.write.show import show_value
from tests.fixes import load
from tests.lang.test_golden import CASES

IN_WORDS = re.compile("(remove|leave|insert|write|move) ")
"""How a help begins that tells the edit of its fix."""
SAYS = re.compile("E007|E011|E10[89]|E2")
"""Codes whose message says by itself what is expected, or what has to agree."""


@dataclass(frozen=True)
class Written:
    """A spec and the ``--set`` arguments after it; ``throughout``: also what is wrong behind what
    cannot be read.
    """

    spec: str
    sets: tuple[str, ...] = ()
    throughout: bool = True

    @cached_property
    def found(self):
        """What is found, remarks too, and the programs as they are written."""
        diagnostics = Diagnostics()
        programs = load(f"{self.spec}\n", self.sets, diagnostics)
        for program in programs if self.throughout or not diagnostics.found else ():
            passes.complete(program, diagnostics)
        return [*diagnostics.found, *diagnostics.remarks], programs

    def settings(self):
        """Those of the spec and of its blocks, by their own names."""
        return helps.written_settings(lang.parse(self.spec, diagnostics=Diagnostics()).items)

    def blocks(self, span):
        """Names of the blocks that a span touches: ``generator { ... }`` is a setting."""
        items = lang.parse(self.spec, diagnostics=Diagnostics()).items
        touched = (item for item in items if overlap(item.span, span))
        return {item.name.text for item in touched if isinstance(item, Block)}

    def fixed(self, fix):
        """The same after the edits of a fix."""
        text, name = fix.span.source.text, fix.span.source.name
        made = apply_edits(text, (fix,)).rstrip("\n")
        if name == "<spec>":
            return replace(self, spec=made)
        number = int(name.rpartition("#")[2]) - 1
        return replace(self, sets=(*self.sets[:number], made, *self.sets[number + 1 :]))

    def with_settings(self, text, at):
        """The same with settings in the place of those that it has, or else at its end."""
        sets, rest = list(self.sets), []
        for setting in lang.parse(text).settings():
            name = canonical(setting.name.text)
            hits = [number for number, each in enumerate(sets) if settings_written(each) == {name}]
            if hits:
                sets[hits[-1]] = setting.span.text
            else:
                rest.append(setting.span.text)
        source = Source("<spec>", f"{self.spec}\n")
        spec = apply_edits(source.text, helps.write_settings_in(source, " ".join(rest), at))
        return Written(spec.rstrip("\n"), tuple(sets), self.throughout)


def squeezed(text):
    return "".join(text.split())


def changed(before, after):
    """The settings that two programs say differently, of those that both say."""
    stages = zip(before.stages, after.stages, strict=False)
    pairs = [(before.settings, after.settings), *((a.settings, b.settings) for a, b in stages)]
    both = ((name, *pair) for pair in pairs for name in pair[0].keys() & pair[1].keys())
    return {name for name, old, new in both if old[name].value != new[name].value}


def complaint(case, diagnostic):
    """What is wrong with the help of a finding; empty if nothing is."""
    fix, help = diagnostic.fix, diagnostic.help
    for listed in (re.split(", |; ", text.partition(": ")[2]) for text, _ in diagnostic.notes):
        if len({*listed}) < len(listed):
            return f"a word twice in {listed}"
    if not help:
        hits = diagnostic.notes or diagnostic.label or SAYS.match(diagnostic.code)
        return "" if hits else "no way out"
    if "..." in help:  # where only the user knows
        return "a fix with a hole" if fix else ""
    made = ""
    if fix:
        after = case.fixed(fix)
        made = squeezed(" ".join((after.spec, *after.sets)))
        meant = {s.name.text for s in case.settings() if overlap(s.span, fix.span)}
        meant |= case.blocks(fix.span) | (settings_written(fix.replacement) or set())
        meant |= {name for each in case.sets for name in settings_written(each) or ()}
        if wrong := followed(case, after, diagnostic, meant):
            return f"its fix: {wrong}"
        if not tells(help, fix, made):
            return f"its fix makes another text: {after}"
    others = alternatives(help)
    for text in others if len(others) > 1 or not fix else ():
        if squeezed(text) not in made:  # else it is what the fix does
            after = case.with_settings(text, diagnostic.span)
            if wrong := followed(case, after, diagnostic, settings_written(text) or set()):
                return f"{text}: {wrong}"
    words, _, example = help.partition(" as in ")
    if not fix and not others and re.search(r"[=({\[]", words):
        return "advice that looks like text to paste"
    return "no example" if example and not settings_written(example) else ""


def overlap(one, other):
    alike = one.source.name == other.source.name
    return alike and one.start <= other.end and other.start <= one.end


def tells(help, fix, made):
    """Whether a help says what its fix makes of a text, be it by another name of the setting."""
    if IN_WORDS.match(help) or help.endswith(fix.replacement):
        return True
    texts = [[help]]
    texts += [[s.span.text for s in lang.parse(t).settings()] for t in alternatives(help)]
    return any(all(squeezed(each) in made for each in text) for text in texts)


def followed(case, after, diagnostic, meant):
    """What is found once a help has been followed and should not be."""
    (old, before), (new, now) = case.found, after.found
    same = (diagnostic.code, diagnostic.message)
    counts = [[(d.code, d.message) for d in found].count(same) for found in (old, new)]
    if counts[1] >= counts[0]:
        return f"{after} still has it"
    others = {d.message for d in new if d.code[0] == "E"} - {d.message for d in old}
    # What could not be read hid what is wrong behind it.
    if others and diagnostic.code >= "E2":
        return f"{after} has {sorted(others)}"
    pairs = zip(before, now, strict=True) if len(before) == len(now) else ()
    surplus = {name for pair in pairs for name in changed(*pair)} - {*meant}
    return f"{after} changes {sorted(surplus)}" if surplus else ""


# ---- what is followed


WRONG = (
    "zzz", "7", "-1", "1.5", "2M", '"all"', "[1]", "1/2", "zzz(1)", "yes", "15 %", "{1, zzz}",
    "3*zzz", "mlm + mlm", "0",
)  # fmt: skip
WRONG_ARGUMENTS = ("zzz", "-1", "2M", '"text"', "[1, 2, 3]", "1.5")


def of_setting(setting):
    """A setting with values that it cannot have, and with every kind that it can, wrongly said."""
    shape = shapes.setting_shape(setting)
    yield from (f"{setting}={value}" for value in WRONG)
    for kind, node in shape.single.kinds.items():
        yield f"{setting}={kind}"
        yield f"{setting}={call_text(kind, 'zzz=1')}"
        yield f"{setting}={call_text(kind, '1, 2, 3, 4, 5, 6')}"
        for name, inner in shapes.arguments(node).items():
            wrong = (call_text(kind, f"{name}={value}") for value in WRONG_ARGUMENTS)
            yield from (f"{setting}={call}" for call in wrong)
            yield f"{setting}={call_text(kind, f'{name[:-1]}x=1')}"
            for word in inner.single.kinds:
                yield f"{setting}={call_text(kind, f'{name}={word}(zzz=1)')}"
            if not (info := node.model_fields[name]).is_required():
                yield f"{name}={show_value(info.default, inner)}"


def complaints(cases):
    return [
        f"{case} {diagnostic.code} help: {diagnostic.help}: {wrong}"
        for case in cases
        for diagnostic in case.found[0]
        if (wrong := complaint(case, diagnostic))
    ]


@pytest.mark.parametrize("setting", Settings.model_fields)
def test_helps_on_every_setting_and_its_kinds(setting):
    specs = dict.fromkeys(of_setting(setting))
    assert complaints([Written(spec, (), False) for spec in specs]) == []


def test_helps_of_goldens_of_pages_and_on_slips():
    """Slips that people make are a spec a line; ``--set`` arguments stand after ``@``."""
    cases = [Written(case.spec) for case in CASES]
    cases += [Written(page.bad) for page in codes().values() if not page.beside]
    lines = (Path(__file__).parent / "slips.txt").read_text(encoding="utf-8").splitlines()
    slips = (line.split(" @ ") for line in lines)
    assert complaints([*cases, *(Written(spec, tuple(sets)) for spec, *sets in slips)]) == []


@pytest.mark.parametrize(
    "task",
    ["tagging('ner/', pos2)", "glue(mrcp, 'glue/MRPC')", "classify('a.tsv', labels=['yes'])"],
)
def test_passes_over_a_task_that_cannot_be_read_are_no_mistake(task):
    for spec in ("{}", "extends bert-base {}", "stage 'a' {{ {} }}"):
        found, _ = Written(spec.format(f"epochs=1 patience=2 task={task}")).found
        assert [each.code for each in found if each.code >= "E2"] == []


@pytest.mark.parametrize(("spec", "code", "meant"), [
    ("init='runs/base' positions=64 seq=128 vocab=1k", "E203", ["seq=64"]),
    ("layers=2 lr=1e-3 hidden=64", "", ["optimizer=adamw(..., lr=1e-3)"]),
    ("lr=1e-3 optimizer=lamb", "", ["optimizer=lamb(..., lr=1e-3)"]),
    (f"task=classify('a.tsv', name={'a' * 41})", "E110", ["at most 40 characters"]),
    ("positions=rotary(scaled=llama3(8, 4, 1, 99))", "E110", ["fast=16"]),
    ("task=embed('a.tsv', widths=[64, 64])", "E110", ["that is 64"]),
    ("task=embed('a.tsv', positive=b, negatives=mined('r', margin=2))", "E109", [""]),
    ("task=embed('a.tsv')+embed('b.tsv')", "E207", ["name=embed2"]),
])  # fmt: skip
def test_helps_are_what_people_meant(spec, code, meant):
    found, _ = Written(spec).found
    assert [each.help for each in found if each.code.startswith(code)] == meant
