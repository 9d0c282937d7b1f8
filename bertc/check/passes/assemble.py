"""From a complete, checked program to a ``Resolved``."""

from collections.abc import Callable
from functools import cache
from typing import Any

from bertc.check.passes.lengths import list_checkpoints
from bertc.check.passes.settings import is_causal, layer_values
from bertc.check.passes.teaching.teachers import taught_terms
from bertc.ir.changing.growth import FromRun, NetworkChange, Turned
from bertc.ir.data import FULL, PAIRED
from bertc.ir.learning.augmentation import chance_of_turns
from bertc.ir.learning.objective import balance_directions
from bertc.ir.network.body import Body
from bertc.ir.network.body_node import Transformer
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import feed_forward
from bertc.ir.network.generator import GeneratorNetwork
from bertc.ir.network.head import TransformHead
from bertc.ir.network.layer import LayerWidths
from bertc.ir.network.sharing import owners_of
from bertc.ir.program import Complete, CompleteSettings, CompleteStage, Resolved, Run
from bertc.ir.program.reading import cut_by_batch, place_methods
from bertc.ir.program.stage import METHODS, AnyStage, Stage, TaskStage, TextStage
from bertc.ir.terms.node import Pairs, predicts_masked
from bertc.ir.vocabulary import table_rows


def assemble(program: Complete) -> Resolved:
    """Build the resolved program; the passes have refused everything that could fail here."""
    return Resolved(
        name=program.name,
        stages=_stages(program),
        vocabulary=program.vocab,
        languages=program.languages,
        run=Run(**_same(program, *Run.model_fields) | {"save_at": list_checkpoints(program)}),
        origins={
            name: origin.kind + (f": {origin.source}" if origin.source else "")
            for name, origin in program.origins.items()
        },
    )


_OF_BODIES = ("embedding", "table", "pooler", "head", "dropout", "initializer")
"""Settings that every body has as they are."""
_OF_ENCODERS = {*Encoder.model_fields} & {*CompleteStage.model_fields}
_OF_ENCODERS -= {"layers", "ffn", "languages", "causal"}
"""Settings that a transformer has as they are."""


def _same(settings: CompleteSettings, *names: str) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in names}


def _encoder(stage: CompleteStage, causal: bool, two_streams: bool) -> Encoder:
    layers = stage.layers
    heads, widths = layer_values(stage.heads, layers), layer_values(stage.ffn, layers)
    attention_owner, ffn_owner = owners_of(stage.share, layers)
    of_layer = cache(lambda heads, ffn: LayerWidths(heads=heads, head_dim=stage.head_dim, ffn=ffn))
    return Encoder(
        **_same(stage, *_OF_ENCODERS),
        vocab_size=table_rows(stage.vocab),
        languages=stage.languages if stage.language_embeddings else (),
        ffn=feed_forward(stage.activation, stage.ffn),
        layers=tuple(map(of_layer, heads, widths)),
        attention_owner=attention_owner,
        ffn_owner=ffn_owner,
        causal=causal,
        two_streams=two_streams,
    )


def _generator(stage: CompleteStage) -> Encoder | None:
    """Like the encoder except for widths, and for depth if one is written."""
    node = stage.generator
    if not isinstance(node, GeneratorNetwork):
        return None
    widths = {"hidden": node.hidden, "heads": node.heads, "ffn": node.ffn}
    head_dim = node.hidden // node.heads
    # run_pretraining.py: untied tables are as wide as the generator's layers.
    embedding = node.hidden if node.tie == "none" else stage.embedding
    settings = {**widths, "head_dim": head_dim, "embedding": embedding, "pooler": False}
    settings["layers"] = node.layers or stage.layers
    return _encoder(stage.model_copy(update=settings), causal=False, two_streams=False)


def _bodies(program: Complete) -> Callable[[CompleteStage, bool], Body]:
    """Gives the main network of a stage, causal or not, by what the stages have in common."""
    by_generator = isinstance(program.generator, GeneratorNetwork)
    terms = [term.objective for stage in program.stages for term in stage.objective]
    tasks = [task for stage in program.stages for task in stage.tasks if task.pooled]
    pairs = any(stage.pairing for stage in program.stages)
    pairs |= any({"pair", "choices"} & {*task.reads} for task in tasks)
    two_streams = any(term.order == "permuted" for term in terms)
    decodes = any(t.states.decoded and not (by_generator and predicts_masked(t)) for t in terms)

    def body(stage: CompleteStage, causal: bool) -> Body:
        head = stage.head
        if isinstance(head, TransformHead) and not decodes:
            stage = stage.model_copy(update={"head": head.model_copy(update={"decoder": 0})})
        if isinstance(stage.body, Transformer):
            return _encoder(stage, causal, two_streams)
        shared = {"vocab_size": table_rows(stage.vocab), "causal": causal}
        return stage.body.network(2 if pairs else 1, shared | _same(stage, *_OF_BODIES))

    return body


def _stages(program: Complete) -> tuple[AnyStage, ...]:
    """Stage by stage: its networks, how they come from those before, its counting, its pieces."""
    init = program.init
    carried = init if isinstance(init, FromRun) and init.moments == "carry" else None
    body = _bodies(program)
    counted_from, first = -carried.updates if carried else 0, 0
    stages = list[AnyStage]()
    for stage in program.stages:
        before = stages[-1] if stages else None
        networks = body(stage, is_causal(stage)), _generator(stage)
        turned = before and before.encoder.causal != networks[0].causal
        facing = (body(stage, not networks[0].causal), networks[1]) if turned else networks
        begins = _begins_anew(stage, before, facing)
        if begins and (before or carried is None):
            counted_from = first
        change: NetworkChange | None = None
        if begins:
            change = stage.grow
        elif turned:
            change = Turned()
        settled = _stage(stage, networks, change, first, program.total_steps, counted_from)
        rows_read = carried.rows if carried and not before else 0
        whole_run = "objective" not in stage.own
        begin, end = (0, program.total_steps) if whole_run else (first, first + stage.steps)
        stages += cut_by_batch(place_methods(settled), stage.methods, rows_read, begin, end)
        first += stage.steps
    return tuple(stages)


def _begins_anew(stage: CompleteStage, before: AnyStage | None, facing: object) -> bool:
    """True if its optimiser is new: for another network (not a turned one), a task or a rule."""
    if before is None:
        return isinstance(stage.init, FromRun)
    changed = (before.encoder, before.generator) != facing
    new_rule = before.optimizer.keeps != stage.optimizer.keeps
    return changed or bool(stage.tasks) or new_rule


_AS_THEY_ARE = tuple(name for name in Stage.model_fields if name in CompleteStage.model_fields)
_OF_TASKS = ("augment", *(method.setting for method in METHODS if method.reads == "tasks"))
"""Settings of the whole run that apply to its stages of tasks only, the first unless it turns."""


def _stage(
    stage: CompleteStage,
    networks: tuple[Body, Body | None],
    change: NetworkChange | None,
    first: int,
    total: int,
    counted_from: int,
) -> AnyStage:
    encoder, generator = networks
    own_schedule = "optimizer" in stage.own
    tuned = bool(stage.tasks)
    schedule_steps = stage.optimizer.schedule_steps(stage.steps if own_schedule else total)
    kind = TaskStage if tuned else TextStage
    ways = [term.objective.pairs for term in stage.objective if term.objective.pairs != "none"]
    pairs: Pairs = (*ways, "consecutive")[0] if stage.format.kind in PAIRED else "none"
    unread = () if tuned else _OF_TASKS[chance_of_turns(stage.augment) > 0 :]
    settings = _same(stage, *_AS_THEY_ARE) | {
        name: CompleteStage.model_fields[name].default for name in unread
    }
    del settings["generator"], settings["grow"], settings["objective"]
    return kind(
        **settings,
        encoder=encoder,
        generator=generator,
        replacements=stage.generator,
        grow=change,
        first_step=first,
        objective=balance_directions(taught_terms(stage)),
        pairs=pairs,
        padded=stage.format.kind not in FULL or bool(stage.translation_term) or tuned,
        warmup_steps=stage.optimizer.warmup_steps(schedule_steps),
        schedule_start=first if own_schedule else 0,
        schedule_steps=schedule_steps,
        counted_from=counted_from,
    )
