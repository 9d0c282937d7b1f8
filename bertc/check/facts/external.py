"""Facts outside the spec's text: the network of ``init``, and facts from the files of tasks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from operator import mul
from pathlib import Path
from typing import Any, get_args

from bertc.begun import embedding_as_there, taken
from bertc.diagnostics import Diagnostics, MissingInputError
from bertc.interop.folders import checkpoint_of, read_network
from bertc.ir.changing.growth import TEACHER, FromOther, FromRun
from bertc.ir.learning.custom_task import Choose, Classify, Embed, Read, Regress, Tag
from bertc.ir.learning.objective import Term
from bertc.ir.learning.task import Tagging, Task
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.positions import RotaryPositions
from bertc.ir.program.complete import Complete
from bertc.ir.program.model import model_weights
from bertc.ir.program.network import MAIN
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.run import HfLayout, layout_of
from bertc.ir.program.stage import TaskStage
from bertc.ir.program.teacher import NOBODY, FromFolder
from bertc.ir.program.written import Given, Program
from bertc.ir.terms.node import System
from bertc.ir.vocabulary import TokenizerFile
from bertc.passes.extends import extends
from bertc.passes.recipes import as_published
from bertc.storage.paths import is_folder, is_taken
from bertc.teachers import with_shape
from bertc.tokenizer_files.reading import network_folder

NETWORK = (
    "layers", "hidden", "heads", "head_dim", "ffn", "embedding", "table", "share", "attention",
    "activation", "norm", "positions", "segments", "languages", "language_embeddings", "head",
    "dropout", "initializer", "recipe",
)  # fmt: skip
"""Settings of a network; unwritten ones are taken from ``init``."""


def filled_in(program: Program, diagnostics: Diagnostics) -> Program:
    """A program with every fact from other files filled in.

    Raises:
        MissingInputError, DataError: if a file that it names is not there, or cannot be read.
    """
    program = extends(program, diagnostics)
    init = program.settings.get("init")
    if init is not None and isinstance(init.value, FromOther):
        program = embedding_as_there(_as_there(program, init))
    program = as_published(program)
    program = program.with_settings(_read_of(program.settings))
    stages = (replace(stage, settings=_read_of(stage.settings)) for stage in program.stages)
    return replace(program, stages=tuple(stages))


def _as_there(program: Program, init: Given) -> Program:
    """Fill in unwritten settings of the network from ``init``, and what is asked of it."""
    if init.value.path == TEACHER:
        init, found = _of_teacher(program, init)
    else:
        found = network_of(Path(init.value.path))
    init, found = taken(init, found, program.settings)
    origin = replace(init.origin, kind="derived", source="that of init")
    open_ = {n: Given(v, origin) for n, v in found.items() if n not in program.settings}
    return program.with_settings({**open_, "init": init})


def _of_teacher(program: Program, init: Given) -> tuple[Given, dict[str, Any]]:
    """``init`` with the path of the first teacher if it has one, and settings of its network."""
    first = program.stages[0].settings if program.stages else {}
    given = first.get("teacher") or program.settings.get("teacher")
    teacher = given.value[0] if given else NOBODY[0]
    if isinstance(teacher.source, FromFolder) and (found := network_of(Path(teacher.source.path))):
        path = teacher.source.path
        return replace(init, value=init.value.model_copy(update={"path": path})), found
    shape = with_shape(teacher).shape
    return init, shape.body.settings() if shape else {}


def network_of(folder: Path) -> dict[str, Any]:
    """Settings of the network in a run folder or a Hugging Face folder; empty if it is neither.

    Errors in the folder are reported where its weights are read.
    """
    resolved, config = folder / "resolved.json", network_folder(folder) / "config.json"
    if is_taken(resolved):
        return _of_run(read_network(folder))
    if is_taken(config):
        return _of_config(folder)
    return {}


def _of_config(folder: Path) -> dict[str, Any]:
    from bertc.interop.config import read_config
    from bertc.interop.program import to_program

    config = read_config(network_folder(folder) / "config.json")
    settings = to_program(config, frozenset(), {}, folder, folder).settings
    found = {name: settings[name].value for name in NETWORK if name in settings}
    if not found["languages"]:
        del found["languages"]
    if config.model_type in get_args(HfLayout):  # several layouts are of such a network
        found["layout"] = config.model_type
    return found


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
    own = (objective for stage, objective in terms if stage.learner(objective).name == MAIN)
    attention: System | None = encoder.attention.system if isinstance(encoder, Encoder) else None
    known = attention or next((term.system for term in own if term.system), None)
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
    alone = not encoder.segments and not encoder.causal and not encoder.attention.knows_distances
    if encoder.languages or (alone and encoder.head.kind == "linear"):
        return "xlm"
    if len(set(encoder.attention_owner)) < len(encoder.layers):
        return "albert"
    return "roberta" if vocabulary == "bpe" or positions.offset else "bert"


def _read_of(settings: Mapping[str, Given]) -> dict[str, Given]:
    """Settings with what files say of their tasks and teachers."""
    found = _counted(settings)
    given = settings.get("teacher")
    if given is not None:
        found["teacher"] = Given(tuple(with_shape(each) for each in given.value), given.origin)
    return found


def _counted(settings: Mapping[str, Given]) -> dict[str, Given]:
    """The program with the labels and the number of training examples of every task."""
    given = settings.get("objective")
    if given is None:
        return dict(settings)
    terms = tuple(_read(term) for term in given.value)
    return {**settings, "objective": Given(terms, given.origin)}


def _read(term: Term) -> Term:
    task = term.objective
    if not isinstance(task, Task):
        return term
    asks = isinstance(task, Classify | Tagging | Tag) and not task.labels
    own = Classify | Regress | Choose | Tag | Read | Embed
    imported = isinstance(task, own) and not task.train
    if not asks and (task.examples or imported):
        return term
    from bertc.data.examples.training_facts import training_facts

    facts = training_facts(task)
    found: dict[str, Any] = {"examples": facts.examples}
    if asks:
        found["labels"] = facts.labels
    return term.model_copy(update={"objective": task.model_copy(update=found)})


def row_lengths(programs: Sequence[Resolved]) -> list[tuple[int, ...]]:
    """Mean row length in tokens of each program, stage by stage.

    For tasks it is the mean, if vocabulary and examples are there; files used by several programs
    are read once.

    Raises:
        DataError: if a file cannot be read.
    """
    once = cache(_row_length)
    return [
        tuple(
            once(
                stage.tasks, stage.smoothing, stage.seq, stage.encoder.kinds_of_segments, vocabulary
            )
            if isinstance(stage, TaskStage)
            and isinstance(vocabulary := program.vocabulary, TokenizerFile)
            else stage.seq
            for stage in program.stages
        )
        for program in programs
    ]


def full_rows(program: Resolved, lengths: Sequence[int]) -> bool:
    """True if rows of a task count as full, as ``row_lengths`` has them if it knows no better."""
    return any(
        isinstance(stage, TaskStage) and length == stage.seq
        for stage, length in zip(program.stages, lengths, strict=True)
    )


def _row_length(
    tasks: tuple[Any, ...], smoothing: float, seq: int, segments: int, vocabulary: TokenizerFile
) -> int:
    from bertc.data.examples.task_sets import mean_length
    from bertc.data.vocab.existing import load_vocabulary

    try:
        known = load_vocabulary(vocabulary)
        lengths = [mean_length(task, known, seq, segments) for task in tasks]
    except MissingInputError:  # a spec may say how many examples there are without having them
        return seq
    # Several are drawn in proportion to their size as the spec has it.
    sizes: list[float] = [task.examples**smoothing for task in tasks]
    mean: float = sum(map(mul, sizes, lengths)) / sum(sizes)
    return math.ceil(mean)


def begun_from(resolved: Resolved) -> None:
    """Compare the network of ``init`` with the one to start from it, by shapes only.

    Raises:
        MissingInputError: if a run there has no checkpoint of the step that ``init`` names.
        DataError: if its weights would not fit.
    """
    from bertc.compress import begins_as, fit, refusal

    init = resolved.run.init
    if not isinstance(init, FromOther) or init.path == TEACHER:
        return
    old = program_of(Path(init.path))
    if old is None:
        return
    if isinstance(init, FromRun) and is_folder(Path(init.path) / "checkpoints"):
        checkpoint_of(Path(init.path), init.step)
    new = resolved.as_in(resolved.stages[0])
    # Which heads are there, and whether there is a pooler, only its weights say.
    names = (weight.name for weight in model_weights(old))
    body = [n for n in names if n.startswith("encoder.") and not n.startswith("encoder.pooler.")]
    _, mismatches = fit(old, body, new, begins_as(resolved))
    if mismatches:
        raise refusal(Path(init.path), mismatches, old, new)


def program_of(folder: Path) -> Resolved | None:
    """The network in a run folder or a Hugging Face folder; None if it is neither."""
    if is_taken(folder / "resolved.json"):
        return read_network(folder)
    if not is_taken(network_folder(folder) / "config.json"):
        return None
    from bertc.interop.config import read_config
    from bertc.interop.program import to_program
    from bertc.passes import resolve

    config = read_config(network_folder(folder) / "config.json")
    return resolve(to_program(config, frozenset(), {}, folder, folder))


def judged_by(program: Complete) -> None:
    """Read the dev files of a program's tasks.

    Raises:
        MissingInputError, DataError: if one is not there, or says what training files do not.
    """
    from bertc.data.layouts import dev_parts, part_examples

    terms = (term for stage in program.stages for term in stage.objective)
    tasks: list[Any] = [term.objective for term in terms if isinstance(term.objective, Task)]
    for task in tasks:
        for part in dev_parts(task):
            part_examples(task, part)
