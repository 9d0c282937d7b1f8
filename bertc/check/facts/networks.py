"""Networks in folders of runs and others, as programs; what ``init`` takes of one. No weights."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

from bertc.base.diagnostics import DataError
from bertc.base.storage.paths import is_folder, is_taken
from bertc.hub.folders import RESOLVED, checkpoint_at, checkpoint_of, read_network, read_resolved
from bertc.ir.changing.growth import TEACHER, FromLayers, FromOther, FromRun
from bertc.ir.learning import Embed, Spans, Task
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.positions import RotaryPositions
from bertc.ir.network.sharing import ShareMap, ShareNone
from bertc.ir.program import MAIN, Given, Program, Resolved, map_terms, model_weights
from bertc.ir.program.settings import HfLayout, layout_of
from bertc.ir.terms.node import MASKED_HEAD, System
from bertc.ir.weight_maps import begins_as, fit, refusal
from bertc.text.tokenizers.reading import network_folder

NETWORK = (
    "layers", "hidden", "heads", "head_dim", "ffn", "embedding", "table", "share", "attention",
    "activation", "norm", "positions", "segments", "languages", "language_embeddings", "head",
    "dropout", "initializer", "residual", "causal", "recipe",
)  # fmt: skip
"""Settings of a network; unwritten ones are taken from ``init``."""


def program_of(folder: Path) -> Resolved | None:
    """The network in a run folder or a Hugging Face folder; None if it is neither."""
    if is_taken(folder / "resolved.json"):
        return read_network(folder)
    if (read := _of_config(folder)) is None:
        return None
    from bertc.check.passes import resolve

    return resolve(read[0])


def network_of(folder: Path) -> dict[str, Any]:
    """Settings of the network in a run folder or a Hugging Face folder; empty if it is neither."""
    if is_taken(folder / "resolved.json"):
        return _of_run(read_network(folder))
    if (read := _of_config(folder)) is None:
        return {}
    program, model_type = read
    values = {n: program.settings[n].value for n in NETWORK if n in program.settings}
    if not values["languages"]:
        del values["languages"]
    if model_type in get_args(HfLayout):  # several layouts are of such a network
        values["layout"] = model_type
    return values


def _of_config(folder: Path) -> tuple[Program, str] | None:
    from bertc.hub.config import read_config, refuse_adapter

    path = network_folder(folder) / "config.json"
    refuse_adapter(path.parent)
    if not is_taken(path):
        return None
    from bertc.hub.program import to_program

    config = read_config(path)
    return to_program(config, frozenset(), {}, folder, folder), config.model_type


def _of_run(resolved: Resolved) -> dict[str, Any]:
    encoder = resolved.encoder
    settings = {**encoder.settings(), "recipe": _system(resolved)}
    if resolved.run.layout != layout_of(resolved.run.recipe):  # several are of such a network
        settings["layout"] = resolved.run.layout
    if not resolved.origins.get("causal", "default").startswith("default"):
        settings["causal"] = encoder.causal
    if resolved.languages:
        embedded = bool(encoder.languages)
        settings |= {"languages": resolved.languages, "language_embeddings": embedded}
    return settings


def _system(resolved: Resolved) -> System:
    """The system whose recipe a run was made with, or else that it is most like."""
    terms = [(stage, term.objective) for stage in resolved.stages for term in stage.objective]
    encoder, recipe = resolved.encoder, resolved.run.recipe
    tasks = any(isinstance(objective, Task) for _, objective in terms)
    # A run on text says none unless one was written. Of causal systems there is none to follow.
    if tasks or encoder.causal or recipe != type(resolved.run).model_fields["recipe"].default:
        return recipe
    objectives = (objective for stage, objective in terms if stage.learner(objective).name == MAIN)
    attention: System | None = encoder.attention.system if isinstance(encoder, Encoder) else None
    if known := attention or next((term.system for term in objectives if term.system), None):
        return known
    if isinstance(encoder, Encoder):
        return _most_like(encoder, resolved.vocabulary.kind)
    return recipe


def _most_like(encoder: Encoder, vocabulary: str) -> System:
    positions, norm = encoder.positions, encoder.norm
    if not norm.of_layers.affine:
        return "stackingbert"
    if positions.kind == "alibi":
        return "mosaicbert"
    if isinstance(positions, RotaryPositions):
        if norm.kind == "post":
            return "nomic"
        if norm.function != "rms":
            return "modernbert" if norm.embeddings else "roberta"
        ours: System = "ultrabert" if encoder.head.kind == "two-layer" else "eurobert"
        return "neobert" if positions.pairs == "interleaved" else ours
    unsegmented = not encoder.segments and not encoder.causal and not encoder.attention.distances
    plain = encoder.head.kind == "linear" and encoder.ffn.kind == "mlp"
    if encoder.languages or (unsegmented and plain):
        return "xlm"
    if len(set(encoder.attention_owner)) < len(encoder.layers):
        return "albert"
    return "roberta" if vocabulary == "bpe" or positions.offset else "bert"


def compare_init(resolved: Resolved) -> None:
    """Compare the network of ``init`` with the one to start from it, by shapes only."""
    init = resolved.run.init
    if not isinstance(init, FromOther) or init.path == TEACHER:
        return
    if (old := program_of(folder := Path(init.path))) is None:
        return
    if isinstance(init, FromRun) and is_folder(folder / "checkpoints"):
        checkpoint_of(folder, init.step)
    new = resolved.as_in(resolved.stages[0])
    if not init.same_tokens:  # its tables are carried to other tokens
        old = old.with_vocabulary(resolved.vocabulary)
    # Which heads are there, and whether there is a pooler, only its weights say for sure.
    if any(isinstance(task, Embed) and task.is_sparse for task in resolved.stages[0].tasks):
        from bertc.hub.families import FAMILIES
        from bertc.hub.task_config import class_names

        named = class_names(at) if is_taken(at := network_folder(folder) / "config.json") else []
        held = [of.parts for family in FAMILIES for of in family.classes if of.name in named]
        if held and not any(MASKED_HEAD in parts for parts in held):
            raise no_masked_head(folder)
    names = (weight.name for weight in model_weights(old))
    body = [n for n in names if n.startswith("encoder.") and not n.startswith("encoder.pooler.")]
    _, mismatches = fit(old, body, new, begins_as(resolved))
    if mismatches:
        raise refusal(folder, mismatches, old, new)


def no_masked_head(folder: Path) -> DataError:
    """The refusal of sparse vectors by a network without the head that makes them."""
    message = f"{folder} has no masked-LM head, whose scores sparse vectors are made of"
    return DataError(message, "pooling=mean, or first a stage of objective=mlm to learn one")


def take_network(
    init: Given, settings: dict[str, Any], written: Mapping[str, Given]
) -> tuple[Given, dict[str, Any]]:
    """``init`` with the depth of its network, and the settings of what a run takes of that."""
    match init.value:
        case FromLayers() if "layers" in settings:
            taken = init.value.model_copy(update={"depth": settings["layers"]})
            depth = taken.depth if isinstance(taken.layers, str) else len(taken.layers)
            depth = written["layers"].value if "layers" in written else depth
            fits = not taken.misfit(taken.depth, depth)  # else it is told with its place
            sources = [taken.source(n, taken.depth, depth) if fits else 0 for n in range(depth)]
            widths = ((n, settings.get(n)) for n in ("heads", "ffn"))
            by_layer = {n: tuple(w[i] for i in sources) for n, w in widths if isinstance(w, tuple)}
            # What shares its weights there may have its own here.
            mapped = isinstance(settings.get("share"), ShareMap)
            alone = {"share": ShareNone()} if mapped else {}
            return replace(init, value=taken), {**settings, "layers": depth, **by_layer, **alone}
        case FromRun(moments="carry"):
            return replace(init, value=_going_on(init.value)), settings
        case _:
            return init, settings


def copy_embedding(program: Program) -> Program:
    """Fill in unwritten arguments of tasks of vectors or spans from those of ``init``."""
    init: FromOther = program.settings["init"].value
    objectives = [block["objective"] for block in program.blocks if "objective" in block]
    kinds = {type(term.objective) for g in objectives for term in g.value}
    if Spans in kinds and init.path != TEACHER:
        from bertc.hub.gliner import complete_spans

        fill = partial(complete_spans, folder=Path(init.path))
        program = program.map_blocks(partial(map_terms, change=fill))
    if Embed not in kinds:
        return program
    from bertc.hub.sentences import vectors_of_init

    if (sentences := vectors_of_init(init)) is None:
        return program

    fill = partial(sentences.complete, folder=Path(init.path))
    return program.map_blocks(partial(map_terms, change=fill))


def _going_on(init: FromRun) -> FromRun:
    """``init`` with what the run there had done at its step: updates, and rows of text."""
    folder = Path(init.path)
    if not is_taken(folder / RESOLVED) or (saved := checkpoint_at(folder, init.step)) is None:
        return init  # told of where its weights are read
    step, checkpoint = saved
    stage = read_resolved(folder / RESOLVED).stage_after(step)
    rows = (stage.first_batch + step - stage.first_step) * stage.batch
    updates = step - stage.counted_from
    return init.model_copy(update={"step": step, "updates": updates, "rows": rows})
