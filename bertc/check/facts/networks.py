"""Networks in the folders of runs and of others, as settings and as programs; reads no weights."""

from pathlib import Path
from typing import Any, get_args

from bertc.base.storage.paths import is_taken
from bertc.data.tokenizers.reading import network_folder
from bertc.hub.folders import read_network
from bertc.ir.learning.task import Task
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.positions import RotaryPositions
from bertc.ir.program.network import MAIN
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.run import HfLayout, layout_of
from bertc.ir.program.written import Program
from bertc.ir.terms.node import System

NETWORK = (
    "layers", "hidden", "heads", "head_dim", "ffn", "embedding", "table", "share", "attention",
    "activation", "norm", "positions", "segments", "languages", "language_embeddings", "head",
    "dropout", "initializer", "recipe",
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
    path = network_folder(folder) / "config.json"
    if not is_taken(path):
        return None
    from bertc.hub.config import read_config
    from bertc.hub.program import to_program

    config = read_config(path)
    return to_program(config, frozenset(), {}, folder, folder), config.model_type


def _of_run(resolved: Resolved) -> dict[str, Any]:
    encoder = resolved.encoder
    settings = {**encoder.settings(), "recipe": _system(resolved)}
    if resolved.run.layout != layout_of(resolved.run.recipe):  # several are of such a network
        settings["layout"] = resolved.run.layout
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
    known = attention or next((term.system for term in objectives if term.system), None)
    if known:
        return known
    if isinstance(encoder, Encoder):
        return _most_like(encoder, resolved.vocabulary.kind)
    return recipe


def _most_like(encoder: Encoder, vocabulary: str) -> System:
    """The system that a network looks like."""
    positions, norm = encoder.positions, encoder.norm
    if not norm.of_layers.affine:
        return "stackingbert"
    if positions.kind == "alibi":
        return "mosaicbert"
    if isinstance(positions, RotaryPositions):
        if norm.kind == "post":
            return "nomic"
        if norm.function != "rms":
            return "modernbert"
        return "neobert" if positions.pairs == "interleaved" else "eurobert"
    alone = not encoder.segments and not encoder.causal and not encoder.attention.distances
    if encoder.languages or (alone and encoder.head.kind == "linear"):
        return "xlm"
    if len(set(encoder.attention_owner)) < len(encoder.layers):
        return "albert"
    return "roberta" if vocabulary == "bpe" or positions.offset else "bert"
