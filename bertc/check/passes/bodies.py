"""The pass for bodies other than the transformer: settings they have no use for, and abilities."""

from typing import Any

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes.settings import Checker, set_values
from bertc.ir.changing.growth import FromVectors
from bertc.ir.fixes import Rule, Way, fix, span_if_written
from bertc.ir.network.body_node import Ability, BodySetting
from bertc.ir.network.positions import NoPositions
from bertc.ir.program.complete import Complete, CompleteStage
from bertc.ir.program.written import Given, Origin, Program


def bodies(program: Complete, diagnostics: Diagnostics) -> Complete:
    """Refuse settings of transformers beside another body, and give them values that follow.

    ``body=bilstm(150)`` becomes ``body=bilstm(150) hidden=300 layers=1 segments=2 positions=none``;
    ``body=bilstm heads=4`` is E228; what an extended spec says of its transformer is dropped.
    """
    body = program.body
    if not isinstance(body, BodySetting):
        return program
    check = Checker(program, diagnostics)
    for origins in (program.origins, *(stage.own for stage in program.stages)):
        for name in body.unread:
            if span := span_if_written(origins.get(name)):
                message = f"{name} is a setting of transformers, but body = {body.kind}"
                removed = fix(origins[name], "")
                way: Way = {"help": f"remove {name}, or body=transformer", "fix": removed}
                check.report(
                    "E228", message, span, also=("body", f"body = {body.kind} is set here"), way=way
                )
    origin = Origin("default", source=f"body = {body.kind}")
    implied: dict[str, Any] = {
        "layers": body.depth, "hidden": body.width, "heads": 1, "head_dim": body.width,
        "ffn": body.width, "positions": NoPositions(), "segments": body.segments,
    }  # fmt: skip
    return set_values(program, {name: Given(value, origin) for name, value in implied.items()})


def drop_unread(program: Complete) -> Program:
    """The program without the settings that its body has no use for."""
    read, unread = program.program.settings, program.body.unread
    if unread:
        read = {name: setting for name, setting in read.items() if name not in unread}
    return program.program.having(read, program.program.stages)


def check_body(check: Checker[CompleteStage]) -> None:
    """Report objectives and row formats that a stage's body cannot do."""
    stage = check.settings
    for ability, setting, why in _needs(stage):
        if ability not in stage.body.able:
            surplus = setting not in ("objective", "generator")  # without: another objective
            removed = fix(stage.origins.get(setting), "") if surplus else None
            without = f"remove {setting}, or " if removed else ""
            message = f"{why}, which body = {stage.body.kind} cannot do"
            also = ("body", f"body = {stage.body.kind} is set here")
            way: Way = {"help": f"{without}body=transformer", "fix": removed}
            check.report("E229", message, setting, also=also, way=way)
            return


OF_TABLES: tuple[Rule[Complete], ...] = (
    Rule("E229", "table", lambda p: p.table.narrows and p.body.kind != "transformer",
         "table = adaptive has a table for each range of tokens, which a BiLSTM cannot read",
         also=("body", "body is set here"), help="table=whole"),
    Rule("E269", "init", lambda p: p.table.narrows and isinstance(p.init, FromVectors),
         "init = vectors(...) begins a table of one width, and table = adaptive",
         also=("table", "table is set here"), help="table=whole"),
)  # fmt: skip


def _needs(stage: CompleteStage) -> list[tuple[Ability, str, str]]:
    """Abilities that a stage needs, each with the setting that says so, and why."""
    permuted = any(term.objective.order == "permuted" for term in stage.objective)
    backward = stage.format.kind == "stream-pair"
    needs: tuple[tuple[bool, Ability, str, str], ...] = (
        (any(term.objective.order == "forward" for term in stage.objective), "causal", "objective",
         "clm needs states that depend on no later token"),
        (permuted, "permuted", "objective", "plm predicts tokens in a random order"),
        (stage.pack, "packed", "pack", "pack = true reads several examples of a row apart"),
        (stage.memory > 0, "remembering", "memory", "memory keeps the inputs of layers"),
        (backward, "backward", "format", "stream-pair rows go on from rows before"),
        (stage.head.decoder > 0, "decoding", "head", "a mask decoder applies the last layer again"),
        (stage.generator.kind == "network", "generating", "generator",
         "a generator is cut from the encoder"),
    )  # fmt: skip
    return [(ability, setting, why) for applies, ability, setting, why in needs if applies]
