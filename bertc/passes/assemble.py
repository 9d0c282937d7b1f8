"""The last arrow: a complete, checked program becomes a ``Resolved``."""

from typing import Any

from bertc.ir.data import FULL
from bertc.ir.learning.objective import Plm
from bertc.ir.network.encoder import Encoder, LayerWidths
from bertc.ir.network.ffn import feed_forward
from bertc.ir.network.generator import GeneratorNetwork
from bertc.ir.network.growth import FromRun
from bertc.ir.program.resolved import Resolved, Run, Stage
from bertc.ir.program.written import Program
from bertc.passes.dimensions import total_steps
from bertc.passes.sharing import layer_values, owners
from bertc.passes.stages import StageView, has_tasks, reads_on, stage_views


def assemble(program: Program) -> Resolved:
    """Build the resolved program; the passes have left nothing that could fail here."""
    value: dict[str, Any] = {name: given.value for name, given in program.settings.items()}
    return Resolved(
        name=program.name,
        stages=_stages(program, value),
        vocabulary=value["vocab"],
        languages=value["languages"],
        run=Run(**{name: value[name] for name in Run.model_fields}),
        origins={
            name: given.origin.kind + (f": {given.origin.source}" if given.origin.source else "")
            for name, given in program.settings.items()
        },
    )


def _causal(program: Program) -> bool:
    """The checks have seen that all stages agree."""
    return reads_on(stage_views(program)[0].value("objective"))


def _permutes(program: Program) -> bool:
    """Whether any stage tells tokens in a random order."""
    terms = (term for stage in stage_views(program) for term in stage.value("objective"))
    return any(isinstance(term.objective, Plm) for term in terms)


def _encoder(value: dict[str, Any], layers: int, causal: bool, two_streams: bool) -> Encoder:
    heads, widths = layer_values(value["heads"], layers), layer_values(value["ffn"], layers)
    return Encoder(
        vocab_size=value["vocab"].size,
        embedding=value["embedding"],
        hidden=value["hidden"],
        table=value["table"],
        positions=value["positions"],
        segments=value["segments"],
        languages=value["languages"] if value["language_embeddings"] else (),
        attention=value["attention"],
        ffn=feed_forward(value["activation"]),
        norm=value["norm"],
        layers=tuple(
            LayerWidths(heads=h, head_dim=value["head_dim"], ffn=w)
            for h, w in zip(heads, widths, strict=True)
        ),
        attention_owner=owners(value["share"], "attention", layers),
        ffn_owner=owners(value["share"], "ffn", layers),
        causal=causal,
        two_streams=two_streams,
        pooler=value["pooler"],
        head=value["head"],
        dropout=value["dropout"],
        initializer=value["initializer"],
    )


def _generator(value: dict[str, Any], depth: int) -> Encoder | None:
    """As the encoder, but for its widths and depth; tied tables have the encoder's width.

    ``depth`` is the encoder's, which it has too unless one is written.
    """
    node = value["generator"]
    if not isinstance(node, GeneratorNetwork):
        return None
    widths = {"hidden": node.hidden, "heads": node.heads, "ffn": node.ffn}
    head_dim = node.hidden // node.heads
    # run_pretraining.py: untied tables are as wide as the generator's layers.
    embedding = node.hidden if node.tie == "none" else value["embedding"]
    own = {**widths, "head_dim": head_dim, "embedding": embedding, "pooler": False}
    return _encoder({**value, **own}, node.layers or depth, causal=False, two_streams=False)


def _stages(program: Program, value: dict[str, Any]) -> tuple[Stage, ...]:
    total, first, counted_from, stages = total_steps(program), 0, 0, list[Stage]()
    causal, two_streams = _causal(program), _permutes(program)
    for view in stage_views(program):
        depth = view.value("layers")
        encoder = _encoder(value, depth, causal, two_streams)
        networks = encoder, _generator(value, depth)
        begins = isinstance(value["init"], FromRun)
        if stages:
            # A task's optimiser knows nothing of what was learned before.
            tuned = has_tasks(view.value("objective"))
            other = (stages[-1].encoder, stages[-1].generator) != networks
            begins = other or view.begins_told or tuned
        counted_from = first if begins else counted_from
        stages.append(_stage(view, networks, begins, first, total, counted_from))
        first += view.value("steps")
    return tuple(stages)


def _stage(
    view: StageView,
    networks: tuple[Encoder, Encoder | None],
    begins: bool,
    first: int,
    total: int,
    counted_from: int,
) -> Stage:
    steps, optimizer = view.value("steps"), view.value("optimizer")
    encoder, generator = networks
    own_schedule = "optimizer" in view.own
    tuned = has_tasks(view.value("objective"))
    schedule_steps = optimizer.schedule_steps(steps if own_schedule else total)
    return Stage(
        name=view.name,
        encoder=encoder,
        generator=generator,
        replacements=view.value("generator"),
        grow=view.value("grow") if begins else None,
        steps=steps,
        first_step=first,
        batch=view.value("batch"),
        seq=view.value("seq"),
        microbatch=view.value("microbatch"),
        objective=view.value("objective"),
        data=view.value("data"),
        smoothing=view.value("smoothing"),
        mixing=view.value("mixing"),
        format=view.format,
        pairs=view.pairs,
        padded=view.format.kind not in FULL or view.translates or tuned,
        pack=view.value("pack"),
        memory=view.value("memory"),
        optimizer=optimizer,
        warmup_steps=optimizer.warmup_steps(schedule_steps),
        schedule_start=first if own_schedule else 0,
        schedule_steps=schedule_steps,
        counted_from=counted_from,
        freeze=view.value("freeze"),
        # Written for the whole of a run, it is meant for its tasks.
        patience=view.value("patience") if tuned else 0,
    )
