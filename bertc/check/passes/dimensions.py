"""Constant and derived defaults of settings, and what a body but the transformer has no use for."""

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from bertc.base.diagnostics import Diagnostics, Span
from bertc.check.passes.settings import Checker, default_format, layer_values, reads_on, set_values
from bertc.ir.changing.growth import FromVectors
from bertc.ir.fixes import Rule, Way, fix, span_if_written
from bertc.ir.network.body_node import Ability, BodySetting
from bertc.ir.network.head import AdaptiveHead, LinearHead, TransformHead
from bertc.ir.network.positions import LearnedPositions, NoPositions
from bertc.ir.program import Complete, CompleteSettings, CompleteStage, Given, Origin, Program
from bertc.ir.program.settings import Settings, declared, layout_of
from bertc.ir.vocabulary import OfAlphabet
from bertc.lang.read.shapes import Limits, setting_shape


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


def _mask(program: Complete) -> int:
    """The mask of an alphabet's vocabulary; of others, which files decide, the dropped token."""
    return program.vocab.mask if isinstance(program.vocab, OfAlphabet) else program.table.dropped


OF_TABLES: tuple[Rule[Complete], ...] = (
    Rule("E229", "table", lambda p: p.table.narrows and p.body.kind != "transformer",
         "table = adaptive has a table for each range of tokens, which a BiLSTM cannot read",
         also=("body", "body is set here"), help="table=whole"),
    Rule("E229", "table", lambda p: p.table.dropped >= 0 and p.body.kind != "transformer",
         lambda p: f"table = whole(dropped) is of transformers, and body = {p.body.kind}",
         also=("body", "body is set here"), help="table=whole"),
    Rule("E229", "table", lambda p: p.table.dropped >= 0 and p.table.dropped != _mask(p),
         lambda p: f"table drops the embedding of token {p.table.dropped}, which is not the mask",
         also=("vocab", "the vocabulary is set here"),
         help=lambda p: f"table=whole(dropped={_mask(p)})"),
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
        (stage.causal is True, "causal", "causal", "causal = true hides later tokens from states"),
        (permuted, "permuted", "objective", "plm predicts tokens in a random order"),
        (stage.pack, "packed", "pack", "pack = true reads several examples of a row apart"),
        (stage.memory > 0, "remembering", "memory", "memory keeps the inputs of layers"),
        (backward, "backward", "format", "stream-pair rows go on from rows before"),
        (stage.head.decoder > 0, "decoding", "head", "a mask decoder applies the last layer again"),
        (stage.generator.kind == "network", "generating", "generator",
         "a generator is cut from the encoder"),
    )  # fmt: skip
    return [(ability, setting, why) for applies, ability, setting, why in needs if applies]


CONSTANT = {
    name: Given(field.default, Origin("default", source=declared(name)["source"]))
    for name, field in Settings.model_fields.items()
    if not field.is_required()
}

_CONSTANTS = {id(setting.origin) for setting in CONSTANT.values()}


def defaults(program: Program, diagnostics: Diagnostics) -> Program:
    """Give each unset setting its constant default; that of ``seq`` is at most the positions.

    ``hidden=256`` becomes ``hidden=256 layers=12 share=none ...``.
    """
    complete = program.with_settings({**CONSTANT, **program.settings})
    positions, seq = program.settings.get("positions"), complete.settings["seq"]
    room = positions.value.room if positions else None
    if room is not None and "seq" not in program.settings and room < seq.value:
        shorter = Given(room, Origin("derived", source="as many tokens as there are positions"))
        return complete.with_settings({"seq": shorter})
    return complete


def dimensions(program: Complete, diagnostics: Diagnostics) -> Complete:
    """Derive every setting that is still unset.

    ``hidden=256`` becomes ``hidden=256 heads=4 head_dim=64 ffn=1024 embedding=256 ...``.
    """
    derived = dict[str, object]()
    for formulas in DERIVED:
        open_ = {n: compute(program) for n, compute in formulas.items() if n not in program.origins}
        program, derived = program.model_copy(update=open_), derived | open_
    program = set_values(program, {n: Given(v, _RULES[n]) for n, v in derived.items()})
    read, unread = program.program.settings, program.body.unread
    if unread:  # of which its body has no use
        read = {name: setting for name, setting in read.items() if name not in unread}
    written = program.program.having(read, program.program.stages)
    return program.model_copy(update={"program": written})


def limits(program: Complete, diagnostics: Diagnostics) -> None:
    """Report numbers that follow from others, and are beyond the limits of their settings.

    ``hidden=1M`` is E109: it gives ``ffn=4M``.
    """
    reported, apart = set[Span | None](), set.intersection(*(set(s.own) for s in program.stages))
    of_run = [n for n, o in program.origins.items() if n not in apart and id(o) not in _CONSTANTS]
    for settings, names in ((program, of_run), *((stage, stage.own) for stage in program.stages)):
        for name in filter(_bounds().__contains__, names):
            bounds = _bounds()[name]
            beyond = [n for n in _numbers(getattr(settings, name)) if not bounds.hold(n)]
            source = _source(settings, name) if beyond else name
            if beyond and (span := settings.span(source)) not in reported:
                reported.add(span)
                message = f"`{name}` is {beyond[0]:,}, must be {bounds}"
                label = f"{name} is {settings.origins[name].source}" if source != name else ""
                help = f"a smaller value of {source}"
                diagnostics.error("E109", message, span, label=label, help=help)


def _numbers(value: object) -> tuple[int | float, ...]:
    """A value that is a number, or one for each layer; () of anything else."""
    numbers = value if isinstance(value, tuple) else (value,)
    return tuple(n for n in numbers if isinstance(n, int | float) and not isinstance(n, bool))


@cache
def _bounds() -> dict[str, Limits]:
    shapes = {name: setting_shape(name).single for name in Settings.model_fields}
    return {n: limits for n, shape in shapes.items() if (limits := shape.whole or shape.number)}


def _source(settings: CompleteSettings, name: str) -> str:
    """The setting itself if it is written, or the first that its value follows from."""
    origin = settings.origins[name]
    if origin.span:
        return name
    words = (word for word in re.findall("[a-z_]+", origin.source) if word in settings.origins)
    sources = [_source(settings, word) for word in words]
    return next((source for source in sources if settings.span(source)), name)


def languages(program: Complete) -> tuple[str, ...]:
    """The languages of all stages' data, sorted; text without a language adds none."""
    names = {name for s in program.stages for share in s.data for name in share.corpus.languages}
    return tuple(sorted(names - {""}))


def _head(program: Complete) -> TransformHead | LinearHead | AdaptiveHead:
    if program.table.kind == "adaptive":
        return AdaptiveHead()
    forward = all(reads_on(stage.objective) for stage in program.stages)
    return LinearHead() if forward else TransformHead()


def _now_and_then(program: Complete) -> int:
    """Default interval in steps: a tenth of the run, a third if it has tasks only, at most 1000."""
    tasks = all(stage.tasks for stage in program.stages)
    return min(1000, math.ceil(program.total_steps / (3 if tasks else 10)))


DERIVED: tuple[dict[str, Callable[[Complete], object]], ...] = (
    {"heads": lambda p: max(1, p.hidden // 64)},
    {
        "head_dim": lambda p: max(1, p.hidden // layer_values(p.heads, 1)[0]),
        "ffn": lambda p: 4 * p.hidden,
        "embedding": lambda p: p.hidden,
        "languages": languages,
        "positions": lambda p: (
            NoPositions() if p.attention.distances else LearnedPositions(rows=p.longest_seq)
        ),
        "pooler": lambda p: (
            p.causal is not True
            and any(t.objective.states.pooled for s in p.stages for t in s.objective)
        ),
        "head": _head,
        "format": lambda p: default_format(p.objective, p.pack),
        "layout": lambda p: layout_of(p.recipe),
        "save_every": _now_and_then,
        "eval_every": _now_and_then,
        "log_every": lambda p: max(1, min(100, p.total_steps // 100)),
    },
)
"""The formula of each derived setting, from constant defaults and what groups before it derive."""
_RULES = {
    n: Origin("derived", source=declared(n)["source"]) for formulas in DERIVED for n in formulas
}
