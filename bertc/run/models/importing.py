"""Import of a Hugging Face folder as a program and tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from bertc.base.diagnostics import DataError, MissingInputError
from bertc.base.storage.paths import is_file, is_folder
from bertc.base.storage.plain_file import name_few, shown_name
from bertc.check.passes import resolve
from bertc.hub.config import read_config
from bertc.hub.families import family_named
from bertc.hub.families.config import HfConfig
from bertc.hub.families.family import Family, transformer
from bertc.hub.keys import by_key, keys, part_of, parts_of
from bertc.hub.leaving.exporting import BESIDE
from bertc.hub.networks import GENERATOR, add_tables, alone, join_networks
from bertc.hub.program import to_program
from bertc.hub.published import fetch_weights, or_hub
from bertc.hub.sentences import vectors_of
from bertc.hub.task_config import TaskOfFolder, class_names, read_task, tasks_beside
from bertc.hub.tensors import FLOATS, Entry, check_entry, check_names, read_header, read_tensors
from bertc.hub.token_vectors import MAP_THERE, map_files
from bertc.hub.weights import Stored, open_layout
from bertc.ir.learning import TOKENS_HEAD, Embed, Term
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.generator import GeneratorNetwork
from bertc.ir.program import Given, Origin, Program, Resolved, model_weights
from bertc.text.tokenizers.reading import network_folder

JUDGE_WEIGHT = 50.0  # configure_pretraining.py disc_weight


@dataclass(frozen=True)
class Imported:
    """An imported folder; heads missing in it are missing in ``tensors``, and ``notes`` say so."""

    config: HfConfig
    program: Program
    resolved: Resolved
    tensors: dict[str, Tensor]
    notes: tuple[str, ...]

    def summary(self, folder: Path) -> str:
        """Lines: the folder that it became, its network, the notes."""
        count, config = sum(tensor.numel() for tensor in self.tensors.values()), self.config
        first = (
            f"{folder}: {config.model_type}, {config.num_hidden_layers} layers of "
            f"{config.hidden_size}, {count:,} parameters"
        )
        return "\n".join([first, *(f"note: {note}" for note in self.notes)])


def import_model(folder: Path, tokenizer: Path | None = None) -> Imported:
    """Read the model of a folder; the vocabulary is at ``tokenizer``, or in the folder."""
    if not is_folder(folder):
        help = or_hub("name a Hugging Face model folder", str(folder))
        raise MissingInputError(f"{folder} is no folder", help=help)
    fetch_weights(folder)
    encoder = _import_network(folder, tokenizer)
    if not is_file(folder / GENERATOR / "config.json"):
        return encoder
    # Both networks are combined into one program, and tables that are equal are tied.
    generator = _import_network(folder / GENERATOR, tokenizer)
    body, mine, of_generator = transformer(generator.resolved), encoder.tensors, generator.tensors
    tables = [name for name in mine if name.startswith("encoder.embeddings.")]
    equal = {n for n in tables if n in of_generator and torch.equal(mine[n], of_generator[n])}
    all_same = {n for n in tables if not n.startswith("encoder.embeddings.project.")} <= equal
    token = "encoder.embeddings.token.weight" in equal
    # A table narrower than the states it is read to is the discriminator's as well.
    untied: Literal["none", "gdes"] = "none" if body.embedding == body.hidden else "gdes"
    network = GeneratorNetwork(
        layers=len(body.layers), hidden=body.hidden, heads=body.layers[0].heads,
        ffn=body.layers[0].ffn, tie="embeddings" if all_same else "tokens" if token else untied,
    )  # fmt: skip
    terms = (
        *(Term(weight=JUDGE_WEIGHT, objective=t.objective) for t in encoder.resolved.terms()),
        *generator.resolved.terms(),
    )
    changes = {"generator": network, "objective": terms, "head": body.head}
    given = {name: Given(value, Origin("written")) for name, value in changes.items()}
    program = encoder.program.with_settings(given)
    resolved = resolve(program)
    if alone(resolved, "generator").encoder != body:
        help = "both must have the same settings but for widths and depth; import each by itself"
        raise DataError(f"{folder / GENERATOR} does not match the discriminator beside it", help)
    tensors = add_tables(resolved, join_networks(resolved, mine, of_generator), -1)
    return Imported(encoder.config, program, resolved, tensors, encoder.notes + generator.notes)


def _import_network(folder: Path, tokenizer: Path | None) -> Imported:
    inner = network_folder(folder)
    config, classes = read_config(inner / "config.json"), class_names(inner / "config.json")
    family = family_named(config.model_type)
    main = open_layout(inner, family)
    head = read_task(inner / "config.json", family, config, main.modules())
    tuned = head if isinstance(head, TaskOfFolder) else None
    config = config.turned_at(main.rates).model_copy(update=tuned.always if tuned else {})
    named = tuned.held.named if tuned else {}
    copies = _adopt_copies(main, family)
    header = read_header(folder / BESIDE) if is_file(folder / BESIDE) else {}
    shapes_beside = {name: entry.shape for name, entry in header.items()}
    extra = tasks_beside(shapes_beside)
    sentences = vectors_of(folder, None)
    vectors = (Embed(**sentences.ways),) if sentences and not sentences.obstacle else ()
    tasks = (*((tuned.task,) if tuned else vectors), *extra)
    parts = _parts(main, family, named, config) | parts_of(n for n in header if n.count(".") > 1)
    parts |= {TOKENS_HEAD} & {task.head_name for task in tasks}
    program = to_program(config, parts, shapes_beside, folder, tokenizer or folder, tasks)
    resolved = resolve(program)

    fresh = parts_of(w.name for w in model_weights(resolved)) - parts
    table = {w.name: w.shape for w in model_weights(resolved) if part_of(w.name) not in fresh}

    encoder = transformer(resolved)
    placed = keys(family, encoder, [name for name in table if name not in header], named)
    maps = map_files(sentences.pooling, sentences.dense) if sentences else {}
    check_names(folder / BESIDE, set(header), set(table) - set(placed) - {*maps})
    copies = {copy: key for copy, key in copies.items() if copy not in placed.values()}
    unread = main.find_unread(family, {*copies, *placed.values()})
    present = set(main.stored) - set(copies) - set(unread)
    check_names(main.path, present, set(placed.values()), main.stored)
    stacked, tensors = _read(main, family, encoder, by_key(family, placed), table)
    _check_copies(main, copies, stacked)
    tensors |= _read_beside(folder, header, maps, table)
    narrow = sorted({main.entry(key).dtype for key in main.stored} - {FLOATS[0]})
    notes = (
        *config.notes,
        *main.notes,
        *((f"{', '.join(narrow)} weights became F32",) if narrow else ()),
        *filter(None, [head if isinstance(head, str) else head.note]),
        *(f"the task of the head {t.title} is unknown: it is imported as {t.kind}" for t in extra),
        *((sentences.note,) if sentences and not tuned else ()),
        *_note_on_left(main, unread, family, classes),
        *_notes_on_heads(fresh, parts, family, classes),
    )
    return Imported(config, program, resolved, {n: tensors[n] for n in table}, notes)


def _read_beside(
    folder: Path,
    header: Mapping[str, Entry],
    maps: Mapping[str, str],
    table: Mapping[str, tuple[int, ...]],
) -> dict[str, Tensor]:
    """Tensors of bertc's own file, and of maps in files of sentence-transformers."""
    for name, entry in header.items():
        check_entry(folder / BESIDE, name, entry, table[name])
    tensors = read_tensors(folder / BESIDE, {name: name for name in header}) if header else {}
    for name in maps.keys() & table.keys():
        file = folder / maps[name]
        of_map = read_header(file)
        check_names(file, {*of_map}, {MAP_THERE})
        check_entry(file, MAP_THERE, of_map[MAP_THERE], table[name])
        tensors |= read_tensors(file, {MAP_THERE: name})
    return tensors


def _read(
    file: Stored,
    family: Family,
    encoder: Encoder,
    at_key: Mapping[str, Sequence[str]],
    table: Mapping[str, tuple[int, ...]],
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The tensors of the file by key, and each weight, which may be some rows of one."""
    weights = [name for names in at_key.values() for name in names]
    shapes = {name: family.reshape.shape(encoder, name, table[name]) for name in weights}
    for key, names in at_key.items():
        rows = (sum(shapes[name][0] for name in names), *shapes[names[0]][1:])
        check_entry(file.path, file.stored[key], file.entry(key), rows)
    stacked = file.read({file.stored[key]: key for key in at_key})
    stacked = {key: family.reshape.joined(encoder, key, tensor) for key, tensor in stacked.items()}
    tensors = dict[str, Tensor]()
    for key, names in at_key.items():
        pieces = torch.split(stacked[key], [shapes[name][0] for name in names])
        for name, piece in zip(names, pieces, strict=True):
            tensors[name] = family.reshape.back(name, piece, table[name])
    return stacked, tensors


def _adopt_copies(file: Stored, family: Family) -> dict[str, str]:
    """Rename a copy to its original if that is missing; return the remaining copies."""
    present = {}
    for copy, original in family.copies.items():
        if copy in file.stored and original in file.stored:
            present[copy] = original
        elif copy in file.stored:
            file.stored[original] = file.stored.pop(copy)
    return present


def _parts(
    file: Stored, family: Family, named: Mapping[str, str], config: HfConfig
) -> frozenset[str]:
    """Pooler and heads of which the file has a tensor."""
    # A task's layers may have the names of a pretraining head's.
    of_tasks = {*named.values(), *(c.own_pooler for c in family.tasks.classes)}
    of_tasks |= {c.own_norm for c in family.tasks.classes}
    known = {ours: key for ours, key in family.names.items() if key not in of_tasks}
    known |= named
    if config.learned:  # of both directions one has the key
        head = f"heads.{config.learned.head_name}"
        known = {ours: key for ours, key in known.items() if key != known[head] or ours == head}
    modules = file.modules()
    return parts_of(f"{ours}.weight" for ours, key in known.items() if key in modules)


def _check_copies(file: Stored, copies: Mapping[str, str], tensors: Mapping[str, Tensor]) -> None:
    """Check that tied tensors stored twice are equal, since bertc stores them once."""
    for copy, original in copies.items():
        name = file.stored[copy]
        check_entry(file.path, name, file.entry(copy), tuple(tensors[original].shape))
        if not torch.equal(file.read({name: name})[name], tensors[original]):
            raise DataError(
                f"{file.path}: {name} differs from {file.stored[original]}",
                help="bertc ties the two; transformers leaves the head out: "
                "AutoModel.from_pretrained(folder).save_pretrained(another)",
            )


def _notes_on_heads(
    fresh: frozenset[str], parts: frozenset[str], family: Family, classes: list[str]
) -> list[str]:
    """Remarks on heads without weights; of an encoder alone those that its class has."""
    named = {
        part: hf_class.name
        for hf_class in family.classes
        if hf_class.name in classes
        for part in hf_class.parts
    }
    lacking = fresh if parts - {"pooler"} else fresh & named.keys()
    return [
        f"the weights have no {part} head"
        + (f", which {named[part]} has" if part in named else "")
        + ": it is initialised, untrained"
        for part in sorted(lacking)
    ]


def _note_on_left(file: Stored, unread: list[str], family: Family, classes: list[str]) -> list[str]:
    if not unread:
        return []
    known = {c.name for c in family.classes} | {c.name for c in family.tasks.classes}
    unknown = [shown_name(name) for name in classes if name not in known]
    whose = f"; no task of bertc has a head as {unknown[0]} has" if unknown else ""
    named = name_few(sorted(file.stored[key] for key in unread))
    return [f"weights that the network does not read, left: {named}{whose}"]
