"""Import of a Hugging Face folder as a program and tensors."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from bertc.diagnostics import DataError, MissingInputError
from bertc.interop.config import read_config
from bertc.interop.exporting import BESIDE
from bertc.interop.families import family_named
from bertc.interop.families.config import HfConfig
from bertc.interop.families.family import Family, transformer
from bertc.interop.keys import BUFFERS, by_key, keys, part_of, parts_of, plain
from bertc.interop.networks import GENERATOR, alone, joined, parted
from bertc.interop.program import to_program
from bertc.interop.sentences import sentences_task, vectors_of
from bertc.interop.task_config import TaskOfFolder, read_task, tasks_beside
from bertc.interop.tensors import (
    FLOATS,
    Entry,
    check_entry,
    find_weights,
    read_header,
    read_tensors,
)
from bertc.ir.learning.custom_task import AnyTask
from bertc.ir.learning.objective import Term
from bertc.ir.network.generator import GeneratorNetwork
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.written import Given, Origin, Program
from bertc.passes import resolve
from bertc.storage.json_file import shown_name
from bertc.storage.paths import is_file, is_folder

MOST_NAMED = 5
JUDGE_WEIGHT = 50.0  # configure_pretraining.py disc_weight


@dataclass(frozen=True)
class Imported:
    """An imported folder; heads missing in it are missing in ``tensors``, and ``notes`` say so."""

    config: HfConfig
    program: Program
    resolved: Resolved
    tensors: dict[str, Tensor]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _File:
    """A weights file with its header; ``stored`` maps current keys to the file's own."""

    path: Path
    header: Mapping[str, Entry]
    stored: dict[str, str]

    def entry(self, key: str) -> Entry:
        return self.header[self.stored[key]]

    def modules(self) -> set[str]:
        return {key.rpartition(".")[0] for key in self.stored}


def import_model(folder: Path, tokenizer: Path | None = None) -> Imported:
    """Read the model of a folder; the vocabulary is at ``tokenizer``, or in the folder.

    Raises:
        MissingInputError: if a file does not exist.
        DataError: if a file is damaged, if files do not belong together, or if bertc cannot compute
        the network; names the setting or tensor.
        UnsafeError: if the weights are pickled or the configuration names code.
    """
    if not is_folder(folder):
        raise MissingInputError(f"{folder} is no folder", help="name a Hugging Face model folder")
    imported = _import_network(folder, tokenizer)
    if not is_file(folder / GENERATOR / "config.json"):
        return imported
    return _with_generator(imported, _import_network(folder / GENERATOR, tokenizer), folder)


def _with_generator(encoder: Imported, generator: Imported, folder: Path) -> Imported:
    """Combine both networks into one program, tying tables that are equal."""
    other, mine, theirs = transformer(generator.resolved), encoder.tensors, generator.tensors
    tables = [name for name in mine if name.startswith("encoder.embeddings.")]
    same = {n for n in tables if n in theirs and torch.equal(mine[n], theirs[n])}
    whole = {n for n in tables if not n.startswith("encoder.embeddings.project.")} <= same
    token = "encoder.embeddings.token.weight" in same
    # A table narrower than the states it is read to is the discriminator's as well.
    untied: Literal["none", "gdes"] = "none" if other.embedding == other.hidden else "gdes"
    network = GeneratorNetwork(
        layers=len(other.layers),
        hidden=other.hidden,
        heads=other.layers[0].heads,
        ffn=other.layers[0].ffn,
        tie="embeddings" if whole else "tokens" if token else untied,
    )
    terms = (
        *(Term(weight=JUDGE_WEIGHT, objective=t.objective) for t in encoder.resolved.terms()),
        *generator.resolved.terms(),
    )
    origin = Origin("written")
    program = encoder.program.with_settings(
        {
            "generator": Given(network, origin),
            "objective": Given(terms, origin),
            "head": Given(other.head, origin),
        }
    )
    resolved = resolve(program)
    if alone(resolved, "generator").encoder != other:
        raise DataError(
            f"{folder / GENERATOR} does not match the discriminator beside it",
            help="both must have the same settings but for widths and depth; import each by itself",
        )
    tensors = parted(resolved, joined(resolved, mine, theirs))
    return Imported(encoder.config, program, resolved, tensors, encoder.notes + generator.notes)


def _import_network(folder: Path, tokenizer: Path | None) -> Imported:
    """Import one network with its heads."""
    config = read_config(folder / "config.json")
    family = family_named(config.model_type)
    main = _open(find_weights(folder), family)
    tuned = read_task(folder / "config.json", family, config, main.modules())
    named = tuned.held.named if tuned else {}
    copies = _adopt_copies(main, family)
    beside = read_header(folder / BESIDE) if is_file(folder / BESIDE) else {}
    parts = _parts(main, family, named) | parts_of(n for n in beside if n.count(".") > 1)
    others = tasks_beside(_shapes(beside))
    sentences = vectors_of(folder, None)
    tasks = (*((tuned.task,) if tuned else sentences_task(sentences)), *others)
    program = to_program(config, parts, _shapes(beside), folder, tokenizer or folder, tasks)
    resolved = resolve(program)

    fresh = parts_of(w.name for w in model_weights(resolved)) - parts
    table = {w.name: w.shape for w in model_weights(resolved) if part_of(w.name) not in fresh}

    own = [name for name in table if name not in beside]
    encoder = transformer(resolved)
    placed = keys(family, encoder, own, named)
    check_names(folder / BESIDE, set(beside), set(table) - set(placed))
    copies = {copy: key for copy, key in copies.items() if copy not in placed.values()}
    unread = _unread(main, family, placed.values()) if tuned else frozenset()
    found = set(main.stored) - set(copies) - unread
    check_names(main.path, found, set(placed.values()), main.stored)
    at_key = by_key(family, placed)
    shapes = {n: family.reshape.shape(encoder, n, table[n]) for n in placed}
    for key, names in at_key.items():
        rows = (sum(shapes[name][0] for name in names), *shapes[names[0]][1:])
        check_entry(main.path, main.stored[key], main.entry(key), rows)
    for name, entry in beside.items():
        check_entry(folder / BESIDE, name, entry, table[name])

    whole = read_tensors(main.path, {main.stored[key]: key for key in at_key})
    whole = {key: family.reshape.joined(encoder, key, tensor) for key, tensor in whole.items()}
    read = _split(whole, at_key, shapes)
    tensors = {name: family.reshape.back(name, each, table[name]) for name, each in read.items()}
    _check_copies(main, copies, whole)
    tensors |= read_tensors(folder / BESIDE, {name: name for name in beside}) if beside else {}
    notes = (
        *config.notes,
        *_notes_on_dtypes(main),
        *_notes_on_tasks(tuned, others, unread),
        *((sentences.note,) if sentences and not tuned else ()),
        *_notes_on_heads(fresh),
    )
    return Imported(config, program, resolved, {n: tensors[n] for n in table}, notes)


def _split(
    whole: Mapping[str, Tensor],
    at_key: Mapping[str, Sequence[str]],
    shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, Tensor]:
    """Each weight of its key's tensor, whose rows several may share."""
    read = dict[str, Tensor]()
    for key, names in at_key.items():
        rows = [shapes[name][0] for name in names]
        pieces = torch.split(whole[key], rows) if len(names) > 1 else (whole[key],)
        read |= dict(zip(names, pieces, strict=True))
    return read


def _open(path: Path, family: Family[Any]) -> _File:
    header, stored = read_header(path), dict[str, str]()
    for key in header:
        today = plain(family, key)
        if today in BUFFERS:
            continue
        if today in stored:
            raise DataError(
                f"{path}: {shown_name(stored[today])} and {shown_name(key)} name the same tensor",
                help="save the model again with one of them",
            )
        stored[today] = key
    return _File(path, header, stored)


def _adopt_copies(file: _File, family: Family[Any]) -> dict[str, str]:
    """Rename a copy to its original if that is missing; return the remaining copies."""
    present = {}
    for copy, original in family.copies.items():
        if copy in file.stored and original in file.stored:
            present[copy] = original
        elif copy in file.stored:
            file.stored[original] = file.stored.pop(copy)
    return present


def _parts(file: _File, family: Family[Any], named: Mapping[str, str]) -> frozenset[str]:
    """Pooler and heads of which the file has a tensor."""
    taken = set(named.values())  # a task's layer may have the name of a pretraining head's
    known = {ours: theirs for ours, theirs in family.names.items() if theirs not in taken}
    known |= named
    modules = file.modules()
    return parts_of(f"{ours}.weight" for ours, theirs in known.items() if theirs in modules)


def _unread(file: _File, family: Family[Any], placed: Collection[str]) -> frozenset[str]:
    """Keys that the class of the folder's task does not read."""
    return (family.unread & file.stored.keys()).difference(placed)


def _shapes(header: Mapping[str, Entry]) -> dict[str, tuple[int, ...]]:
    return {name: entry.shape for name, entry in header.items()}


def check_names(
    path: Path, found: set[str], expected: set[str], spelling: Mapping[str, str] | None = None
) -> None:
    """Refuse a file with missing or unexpected tensors.

    ``spelling`` maps names to those that the file uses.

    Raises:
        DataError: naming the first few.
    """
    if missing := sorted(expected - found):
        raise DataError(
            f"{path} lacks {_named(missing)}",
            help="the file does not match the config.json beside it",
        )
    if unexpected := sorted((spelling or {}).get(name, name) for name in found - expected):
        raise DataError(
            f"{path} has {_named(unexpected)}, which the network does not have",
            help="bertc imports encoders, pretraining heads, and the task head whose class "
            "config.json names; save the model without the rest, as BertModel.save_pretrained does",
        )


def _named(names: list[str]) -> str:
    named = ", ".join(map(shown_name, names[:MOST_NAMED]))
    return named + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def _check_copies(file: _File, copies: Mapping[str, str], tensors: Mapping[str, Tensor]) -> None:
    """Check that tied tensors stored twice are equal, since bertc stores them once."""
    for copy, original in copies.items():
        name = file.stored[copy]
        check_entry(file.path, name, file.entry(copy), tuple(tensors[original].shape))
        if not torch.equal(read_tensors(file.path, {name: name})[name], tensors[original]):
            raise DataError(
                f"{file.path}: {name} differs from {file.stored[original]}",
                help="bertc ties the two; a model with a separate output table cannot be imported",
            )


def _notes_on_heads(fresh: frozenset[str]) -> list[str]:
    return [f"the folder has no {part} head: it is initialised, untrained" for part in fresh]


def _notes_on_tasks(
    tuned: TaskOfFolder | None, others: tuple[AnyTask, ...], unread: frozenset[str]
) -> list[str]:
    held = [tuned.note] if tuned else []
    left = [f"{tuned.held.name} does not use {name}: dropped" for name in sorted(unread) if tuned]
    kept = [
        f"the task of the head {task.title} is unknown: it is imported as {task.kind}"
        for task in others
    ]
    return [*held, *left, *kept]


def _notes_on_dtypes(file: _File) -> tuple[str, ...]:
    narrow = {file.entry(key).dtype for key in file.stored} - {FLOATS[0]}
    return (f"{', '.join(sorted(narrow))} weights became F32",) if narrow else ()
