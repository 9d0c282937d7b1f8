"""Lowering of a tree to programs: names to settings, values to typed ones, grids expanded.

Mistakes are reported and left out, so that later passes still check the rest.
"""

from collections.abc import Sequence

from bertc.base.diagnostics import Diagnostics, Fix, Note, Span, listed
from bertc.ir.base import NAME_RULE, is_plain
from bertc.ir.methods.batches import MOST_STAGES
from bertc.ir.program.settings import STAGE_SETTINGS, Settings, canonical
from bertc.ir.written import Given, Origin, OriginKind, Program
from bertc.lang.helps import written_settings
from bertc.lang.lowering import grids
from bertc.lang.lowering.convert import Converter
from bertc.lang.lowering.mistakes import BAD, given_twice
from bertc.lang.lowering.unknown import refuse_setting
from bertc.lang.read.scan import MOST_MISTAKES
from bertc.lang.read.shapes import arguments, block_kind, setting_shape
from bertc.lang.read.tree import Argument, Block, Call, Extends, Grid, Item, Name, Setting, Tree
from bertc.lang.write.show import quote


def lower_tree(
    tree: Tree,
    diagnostics: Diagnostics,
    name: str,
    base: Program | None = None,
    overrides: Sequence[Tree] = (),
    searched: bool = False,
) -> list[Program]:
    """Lower a tree, which extends ``base``, to programs, one for each point of its grids.

    Ranges are refused, unless they are ``searched``: then the programs are samples, with either end
    of each range and either choice of each list. ``overrides`` (``--set``) replace the settings of
    ``tree``, and a stage's grid of such a setting; other stages and bases are left to the passes.
    """
    lowering = _Lowering(diagnostics, base)
    items = lowering.items = [lowering.as_setting(item) for item in tree.items]
    main = lowering.scope(items)
    stages = lowering.stages([item for item in items if isinstance(item, Block)])
    forced = lowering.overrides(overrides)
    for scope in stages:
        scope.axes = {k: v for k, v in scope.axes.items() if k not in forced.axes or not v.grid}
    main.axes |= forced.axes
    for axis in (axis for scope in (main, *stages) for axis in scope.axes.values()):
        grids.check_ranges(axis.value, axis.written, diagnostics, searched=searched)
    return grids.combine(name, main, stages, base, diagnostics, searched)


class _Lowering:
    def __init__(self, diagnostics: Diagnostics, base: Program | None) -> None:
        self.diagnostics = diagnostics
        self.base = base
        self.items: list[Item] = []

    def scope(
        self, items: Sequence[Item], block: str = "", origin: OriginKind = "written"
    ) -> grids.Scope:
        """Lower the settings among some items; in a stage only STAGE_SETTINGS are allowed."""
        scope = grids.Scope()
        for item in items:
            if len(self.diagnostics.found) > MOST_MISTAKES:
                break
            if isinstance(item, Setting) and canonical(item.name.text) in Settings.model_fields:
                self.setting(item, scope, block, origin)
            elif isinstance(item, Setting):
                near = written_settings([*items, *self.items])
                refuse_setting(item, block, near, self.base, self.diagnostics)
        return scope

    def setting(self, item: Setting, scope: grids.Scope, block: str, origin: OriginKind) -> None:
        written, setting = item.name.text, canonical(item.name.text)
        if block and setting not in STAGE_SETTINGS:
            self.diagnostics.error(
                "E112",
                f"a stage cannot change `{setting}`",
                item.span,
                label="it holds for the whole run",
                notes=(Note(f"a stage may change: {listed(STAGE_SETTINGS)}"),),
                help="move it out of the stage, or remove it",
                fix=Fix(item.span, ""),
            )
            return
        if origin == "written" and setting in scope.axes:
            first = scope.axes[setting]
            also = "" if written == first.written else f", as `{first.written}`"
            note = Note(f"first given here{also}", first.span)
            given_twice(written, item.span, note, Fix(item.span, ""), self.diagnostics)
            return
        axis = self.axis(item, setting, origin)
        if axis.choices or origin == "written":
            scope.axes[setting] = axis

    def axis(self, item: Setting, setting: str, origin: OriginKind) -> grids.GridAxis:
        name, grid = item.name.text, isinstance(item.value, Grid)
        axis = grids.GridAxis(setting, name, item.span, [], grid, item.value)
        points, size = grids.num_points(item.value), grids.num_parts(item.value)
        if grids.is_too_large(points, size):
            grids.too_many_points(points, size, item.span, self.diagnostics)
            return axis
        values = grids.alternatives(item.value)
        axis.grid = axis.grid or len(values) > 1
        for value in values:
            if len(self.diagnostics.found) > MOST_MISTAKES:
                break
            converter = Converter(name, self.diagnostics)
            typed = converter.convert(value, setting_shape(setting))
            if typed is not BAD:
                parts = dict(converter.parts)
                axis.choices.append(Given(typed, Origin(origin, item.span, "", parts)))
        return axis

    # ---- blocks and overrides

    def as_setting(self, item: Item) -> Item:
        """Rewrite a block with the name of a setting as a call: ``generator { H=64 }``."""
        if not isinstance(item, Block) or item.label:
            return item
        kind, node = block_kind(canonical(item.name.text))
        if node is None:
            return item
        call_arguments = []
        for inside in item.items:
            if not isinstance(inside, Setting):
                self.misplaced(inside)
                continue
            name, written = inside.name, canonical(inside.name.text)
            if written in arguments(node):
                name = Name(name.span, written)
            call_arguments.append(Argument(inside.span, name, inside.value))
        call = Call(item.span, Name(item.name.span, kind), tuple(call_arguments))
        return Setting(item.span, item.name, call)

    def stages(self, blocks: list[Block]) -> list[grids.Scope]:
        if len(blocks) > MOST_STAGES:
            message = f"{len(blocks):,} blocks; at most {MOST_STAGES} are read"
            self.diagnostics.error("E011", message, blocks[MOST_STAGES].name.span)
            return []
        stages = [stage for block in blocks if (stage := self.block(block))]
        self.stage_names(stages)
        return stages

    def block(self, block: Block) -> grids.Scope | None:
        """Lower a block to a stage; report any other block."""
        if block.label and block_kind(canonical(block.name.text))[1]:
            message = f"block `{block.name.text}` has a name"
            label = "only stages have names"
            fix = Fix(block.label.span, "")
            self.diagnostics.error("E111", message, block.label.span, label=label, fix=fix)
            return None
        if block.name.text != "stage":
            self.diagnostics.error(
                "E111",
                f"unknown block `{block.name.text[:40]}`",
                block.name.span,
                label="a block is a stage, or has the arguments of a setting",
                help=f"stage {block.label.span.text}" if block.label else "a stage with a name",
                fix=Fix(block.name.span, "stage") if block.label else None,
            )
            return None
        for item in block.items:
            if not isinstance(item, Setting):
                self.misplaced(item)
        scope = self.scope(block.items, block.name.text)
        scope.name, scope.span = (block.label.value if block.label else ""), block.name.span
        scope.label = block.label.span if block.label else None
        return scope

    def misplaced(self, item: Block | Extends) -> None:
        what = "`extends`" if isinstance(item, Extends) else f"block `{item.name.text[:40]}`"
        self.diagnostics.error(
            "E111",
            f"{what} inside a block",
            item.span,
            label="only settings stand in a block",
            help="move it out of the block, or remove it",
            fix=Fix(item.span, ""),
        )

    def stage_names(self, stages: list[grids.Scope]) -> None:
        """Report stages without a name, with one that is not plain, and two with the same."""
        first: dict[str, grids.Scope] = {}
        for number, stage in enumerate(stages, 1):
            assert stage.span is not None, "a stage was written somewhere"
            again, notes = first.setdefault(stage.name, stage), [Note(NAME_RULE)]
            if not stage.name:
                message, notes = "a stage without a name", []
            elif again is not stage:
                message = f'two stages are called "{stage.name[:40]}"'
                notes = [Note("the first one is here", again.label)]
            elif not is_plain(stage.name):
                message = f"a stage cannot be called {quote(stage.name[:40])}"
            else:
                continue
            name = quote(f"{'stage' if again is stage else stage.name}-{number}")
            after = Span(stage.span.source, stage.span.end, stage.span.end)
            fix = Fix(stage.label, name) if stage.label else Fix(after, f" {name}")
            where, help = stage.label or stage.span, f"stage {name}"
            self.diagnostics.error("E111", message, where, notes=(*notes,), help=help, fix=fix)

    def overrides(self, trees: Sequence[Tree]) -> grids.Scope:
        """Lower the settings of ``--set`` arguments; later ones replace earlier ones."""
        scope = grids.Scope()
        for tree in trees:
            for item in tree.items:
                if not isinstance(item, Setting):
                    self.diagnostics.error(
                        "E111", "--set takes settings only", item.span, help="--set name=value"
                    )
            scope.axes |= self.scope(tree.items, origin="set").axes
        return scope
