"""A spec as a value: text of the language, and settings as Python values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bertc import api
from bertc.api.words import Value, text_of
from bertc.base.diagnostics import Diagnostics, InNotebooks, Source, SpecError, Table, UsageError
from bertc.base.diagnostics.errors import nearest
from bertc.base.diagnostics.render import render
from bertc.check.compiling import check_spec
from bertc.ir.base import Node
from bertc.ir.program import Program, Resolved, Settings
from bertc.ir.program.settings import canonical
from bertc.lang import SpecLocation, Written, format_text, load, parse, read_spec, show, show_value
from bertc.lang.files import find_spec
from bertc.lang.read.shapes import arguments
from bertc.lang.read.tree import Block, Call, Setting

if TYPE_CHECKING:
    from typing import Unpack

    from bertc.api.typed import SettingValues
    from bertc.cost import Estimate
    from bertc.model import Model
    from bertc.run.train.report import Report


class Findings(Diagnostics):
    """The mistakes (``found``) and ``remarks`` on a spec; prints as ``bertc check``."""

    def __len__(self) -> int:
        return len(self.found) + len(self.remarks)

    def __repr__(self) -> str:
        return render([*self.found, *self.remarks]) or "no mistakes, no remarks"

    __str__ = __repr__


class Spec(InNotebooks):
    """A spec: a text, a shipped name or a file, with settings that replace those of its text.

    ``Spec("extends bert-base", layers=6, objective=bertc.mlm(p=0.3) + 2 * bertc.sop(), lr=1e-4)``.
    Numbers, words, lists and kinds are values; an argument that one setting has is enough. Nothing
    is checked before a method needs it. Specs that say the same are equal.

    Raises:
        MissingInputError: if the text names no spec.
        TypeError: if a value has no notation.
    """

    def __init__(self, text: str | Path = "", /, **settings: Unpack[SettingValues]) -> None:
        text = str(text)
        folder = Path()
        blank = SpecLocation("<spec>", "spec", None, folder, folder, text)
        self._place = find_spec(text) if text.strip() else blank
        self._given = text
        self._settings = dict[str, tuple[str, str]]()
        for name, value in cast("Mapping[str, Value]", settings).items():
            if canonical(name) in Settings.model_fields or not self._owners(name):
                # Others are mistakes, for later.
                self._settings[canonical(name)] = name, text_of(value)
            else:
                self._settings |= self._setting_of(name, text_of(value))

    @cached_property
    def text(self) -> str:
        """The canonical text with all its settings, which reads back as an equal spec."""
        text = self._place.read()
        tree = parse(text, self._place.name)
        for item in reversed(tree.items):
            if isinstance(item, Setting | Block) and canonical(item.name.text) in self._settings:
                text = text[: item.span.start] + text[item.span.end :]
        lines = [f"{name} = {value}" for name, value in self._settings.values()]
        return format_text("\n".join([text, *lines]), self._place.name)

    def check(self) -> Findings:
        """All mistakes and remarks, those of the files that it names too."""
        diagnostics = Findings()
        with suppress(SpecError):  # its mistakes are in diagnostics
            check_spec(self._read(diagnostics), (), diagnostics)
        return diagnostics

    def resolve(self) -> Resolved:
        """The program with every setting, checked.

        Raises:
            SpecError: with every mistake.
            UsageError: of a grid.
        """
        return api.resolve(self._read(Diagnostics()))

    def estimate(self, device: str = "h200", *, devices: int = 1) -> Estimate:
        """Parameters, FLOPs, memory (bytes) and time (seconds), as ``bertc estimate``."""
        return api.estimate(self.resolve(), device, devices=devices)

    def build(self) -> Model:
        """The torch module with its first weights, on the CPU, in training mode."""
        return api.build(self.resolve())

    def source(self) -> str:
        """The network as one file of PyTorch, as ``bertc build``."""
        from bertc.use.source.checking import emit_checked

        return emit_checked(self.resolve().merged, str(api.show(self.text)))

    def train(self, out: str | Path, *, resume: bool = False) -> Report:
        """Train in the run folder ``out``, or with ``resume`` go on there, as ``bertc train``."""
        return api.train(self.resolve(), out, resume=resume, spec_text=self.text)

    def with_(self, **settings: Value) -> Spec:
        """The spec with other values of some settings."""
        other = Spec.__new__(Spec)
        other._place, other._given, other._settings = self._place, self._given, {**self._settings}
        for name, value in settings.items():
            other._settings |= self._setting_of(name, text_of(value))
        return other

    def grid(self, **values: Sequence[Value]) -> list[Spec]:
        """A spec for each combination of values: ``grid(seed=[1, 2], hidden=[64, 128])``."""
        for name, value in values.items():
            if isinstance(value, str) or not isinstance(value, Collection) or not len(value):
                raise UsageError(f"{name} has no list of values", help=f"{name}=[...]")
        combined = product(*([(name, value) for value in values[name]] for name in values))
        return [self.with_(**dict(settings)) for settings in combined]

    def tables(self) -> list[Table]:
        """The lines of its text, or its repr if they cannot be read."""
        text = repr(self)
        with suppress(SpecError):
            text = self.text
        lines = [line.partition(" = ") for line in text.splitlines()]
        return [Table(("setting", "value"), [(name, value) for name, _, value in lines])]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        words = [repr(self._given)] if self._given else []
        for name, text in self._settings.values():  # a number is written as Python has it
            words.append(f"{name}={text if text.replace('.', '', 1).isdecimal() else repr(text)}")
        return f"Spec({', '.join(words)})"

    @property
    def _key(self) -> tuple[str, ...]:
        return tuple(map(show, self._programs))

    @cached_property
    def _programs(self) -> list[Program]:
        diagnostics = Diagnostics()
        programs = load(self._read(diagnostics), (), diagnostics)
        diagnostics.raise_if_any()
        return programs

    def _read(self, diagnostics: Diagnostics) -> Written:
        """The spec as read; messages about a setting name its keyword."""
        texts = [Source(f"keyword {n}", f"{n} = {value}") for n, value in self._settings.values()]
        return read_spec(self._place, texts, diagnostics)

    def _setting_of(self, name: str, text: str) -> Mapping[str, tuple[str, str]]:
        """The setting of a name, or the one whose value has it as an argument."""
        if (setting := canonical(name)) in Settings.model_fields:
            return {setting: (name, text)}
        nodes = self._owners(name)
        if len(nodes) != 1:
            near = nearest(name, Settings.model_fields)
            why = f"an argument of {' and '.join(nodes)}" if nodes else "no setting"
            help = f"{next(iter(nodes))}=..." if nodes else f"did you mean {near}?" if near else ""
            raise UsageError(f"{name} is {why}", help=help or "`bertc specs --language` lists them")
        ((setting, node),) = nodes.items()
        (item,) = parse(f"{setting} = {show_value(node)}").items
        assert isinstance(item, Setting), "a value of a setting was parsed"
        call, texts = item.value, dict[str, str]()
        if isinstance(call, Call):
            for position, argument in enumerate(call.arguments):
                place = argument.name.text if argument.name else type(node).positional[position]
                texts[place] = argument.value.span.text
        texts[name] = text
        written = ", ".join(f"{argument}={value}" for argument, value in texts.items())
        return {setting: (setting, f"{getattr(node, 'kind')}({written})")}  # noqa: B009

    def _owners(self, argument: str) -> dict[str, Node]:
        """The settings whose value is a kind with such an argument, written or by default."""
        owners = dict[str, Node]()
        for name, field in Settings.model_fields.items():
            program: Program | None = self._programs[0]
            while program and name not in program.settings:
                program = program.base
            value: Any = program.settings[name].value if program else field.default
            if isinstance(value, Node) and "kind" in type(value).model_fields:
                owners |= {name: value} if argument in arguments(type(value)) else {}
        return owners
