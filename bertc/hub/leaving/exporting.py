"""Export of a model: a Hugging Face layout if one fits, else bertc's own."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from bertc.base.diagnostics import DataError, listed
from bertc.base.storage.paths import without_folders
from bertc.hub import gliner
from bertc.hub.config import OF_SCORES, as_it_came, hf_config
from bertc.hub.families.config import Tokens, Wordless, place_of_cls
from bertc.hub.families.family import Family, HfClass, Obstacle, transformer
from bertc.hub.folders import replacing
from bertc.hub.keys import by_key, keys, part_of, parts_of, prefix_key
from bertc.hub.leaving.target import exported_task, target_of
from bertc.hub.networks import alone, names_beside, tensors_alone
from bertc.hub.sentences import Sentences, write_sentences
from bertc.hub.tensors import write_tensors
from bertc.hub.token_vectors import MAP_THERE, map_files
from bertc.ir.learning import Rerank, Spans
from bertc.ir.program import MAIN, Resolved
from bertc.ir.terms.node import is_answerable
from bertc.ir.vocabulary import ByteBpe, Extended, TokenizerFile, Trimmed

CODE = "code"
"""The layout of folders that bring their classes."""
BESIDE = "bertc_heads.safetensors"
"""Weights that the folder's class cannot hold, by their bertc names."""
TRANSFORMERS = "5.23.0"
"""The version of transformers whose layouts are written."""
JOINED = (
    "give its tokenizer the words of a sentence joined by spaces: with is_split_into_words "
    "transformers takes the space off each word, and this vocabulary splits it otherwise"
)
UNASKED = ("albert", "xlnet")
"""Layouts whose tokenizers return no token types in transformers 5, unless asked."""
TYPED = (
    "pipelines of transformers give it no token types, which it has learned with: call its "
    "tokenizer with return_token_type_ids=True"
)
NEXT = (
    "its masked-LM head scores at each position the token after it, as mntp has them: no pipeline "
    "fills masks with it, and of all classes that of --code alone has its loss"
)


@dataclass(frozen=True)
class Exported:
    """An exported folder, its layout, and the class of transformers that loads it, or none."""

    folder: Path
    layout: str
    architecture: str
    notes: tuple[str, ...]
    lacks_pooler: bool = False  # and the plain encoder of the layout would draw one

    @property
    def library(self) -> str:
        """The package that loads it."""
        of_class = "gliner" if self.architecture == gliner.CLASS else "transformers"
        return of_class if self.architecture else "bertc"

    def summary(self) -> str:
        """Lines: the folder, the class that loads it, the notes."""
        loads = f"{self.library}.{self.architecture or 'load'}"
        first = f"{self.folder}: {self.layout} layout, for {loads}"
        return "\n".join([first, *(f"note: {note}" for note in self.notes)])


def export_model(
    resolved: Resolved,
    tensors: Mapping[str, Tensor],
    vocabulary: Tokens,
    folder: Path,
    *,
    strict: bool = False,
    prefer: str | None = None,
    copied: Mapping[str, Any] | None = None,
    sentences: Sentences | None = None,
    longest: int = 0,
) -> Exported:
    """Write a model folder; ``tensors`` are named as in the weight table, heads may be absent.

    If no layout fits, bertc's own is written, with a note, unless ``strict``. ``prefer`` is the
    layout that the model was imported from, ``copied`` are settings of its ``config.json``,
    ``longest`` is the longest row if none of them says that.
    """
    # What maps states to a teacher's width has served.
    taught = [t.objective.teaching for t in resolved.terms()]
    aids = {aid.head_name for aid in taught if aid and not aid.asks_head}
    tensors = {name: tensor for name, tensor in tensors.items() if part_of(name) not in aids}
    target = target_of(alone(resolved), tensors, vocabulary.pad, prefer)
    if strict and isinstance(target, Obstacle):
        raise DataError(str(target), help=target.way_out)
    turned = notes_on_reading(resolved)
    with replacing(folder) as fresh:
        if isinstance(target, Obstacle):
            written = _write_own(_Model(resolved, tensors, vocabulary), fresh, target)
            return replace(written, folder=folder, notes=(*written.notes, *turned))
        main = tensors_alone(resolved, tensors)
        files = map_files(sentences.pooling, sentences.dense) if sentences else {}
        maps = {file: main.pop(name) for name, file in files.items() if name in main}
        copied = {**target[0].config.of_rows(longest), **(copied or {})}
        written = _write_hf(_Model(resolved, main, vocabulary), fresh, target, copied)
        if sentences and not exported_task(resolved, parts_of(tensors)):
            note = f"sentence-transformers loads it too: {sentences}"
            if obstacle := sentences.obstacle:
                note = f"its vectors have {obstacle}: without files of sentence-transformers"
            else:
                write_sentences(sentences, fresh, resolved.encoder, pooler=not written.lacks_pooler)
            written = replace(written, notes=(*written.notes, note))
        for file, tensor in maps.items():
            write_tensors(fresh / file, {MAP_THERE: tensor})
        written = replace(written, folder=folder, notes=(*written.notes, *turned))
        return _with_networks_beside(written, _Model(resolved, tensors, vocabulary), fresh)


def notes_on_reading(resolved: Resolved) -> tuple[str, ...]:
    """Notes on stages that read in unlike directions, and on a head that scores what follows."""
    body = resolved.encoder
    unanswered = [t.name for t in resolved.terms() if not is_answerable(t.objective, body)]
    seen = "earlier tokens alone" if body.causal else "all tokens of a row"
    last = f"each token attends to {seen}; {listed(unanswered)} learned otherwise"
    return (*[last] * bool(unanswered), *[NEXT] * scores_next(resolved))


def scores_next(resolved: Resolved) -> bool:
    """True if the masked-LM head scores the token after each position, as mntp has it."""
    return any(t.objective.masks and getattr(t.objective, "ahead", 0) for t in resolved.terms())


class _Model(NamedTuple):
    """A model that is written: its program, its weights, and its vocabulary."""

    resolved: Resolved
    tensors: Mapping[str, Tensor]
    vocabulary: Tokens


def _with_networks_beside(written: Exported, model: _Model, fresh: Path) -> Exported:
    """The folder with one for each further network, in ``fresh`` until it takes its place."""
    resolved, tensors, vocabulary = model
    for name in names_beside(resolved):
        network = _Model(alone(resolved, name), tensors_alone(resolved, tensors, name), vocabulary)
        (fresh / name).mkdir()
        target = target_of(network.resolved, network.tensors, vocabulary.pad, written.layout)
        if isinstance(target, Obstacle):
            exported = _write_own(network, fresh / name, target)
        else:
            exported = _write_hf(network, fresh / name, target, {})
        first = replace(exported, folder=written.folder / name).summary().splitlines()[0]
        notes = (*written.notes, f"the {name}: {first}", *exported.notes)
        written = replace(written, notes=notes)
    return written


def save_tokenizer(
    vocabulary: Tokens, folder: Path, resolved: Resolved, *, always_cut: bool = False
) -> None:
    """Write the tokenizer with what the network reads; segments where it learned of pairs.

    A vocabulary that came without a longest row has that of training if it is ``always_cut``.
    """
    encoder = resolved.encoder
    of_pairs = any(len(task.reads) > 1 and task.examples for task in resolved.stages[-1].tasks)
    came = isinstance(resolved.vocabulary, TokenizerFile | Extended | Trimmed) and not always_cut
    longest = 0 if came else max(stage.seq for stage in resolved.stages)
    segments: Literal["needed", "unread", "as-it-came"] = "needed" if of_pairs else "as-it-came"
    if encoder.kinds_of_segments < 2:
        segments = "unread"
    room, last = encoder.room, resolved.stages[-1]
    if any(isinstance(task, Rerank) for task in last.tasks):
        room = min(last.seq, room or last.seq)  # CrossEncoder cuts there, as the run does
    vocabulary.save(folder, longest, room, segments)


def _write_own(model: _Model, fresh: Path, obstacle: Obstacle) -> Exported:
    note = f"{obstacle}; in bertc's own layout, for bertc.load and bertc export RUN --to FOLDER"
    resolved, tensors, vocabulary = model
    write_tensors(fresh / "model.safetensors", tensors)
    program = resolved.model_dump_json(indent=1)
    if not resolved.stages[-1].tasks:  # whose labels may look like paths
        program = without_folders(program)
    (fresh / "resolved.json").write_text(program, encoding="utf-8")
    (fresh / "note.txt").write_text(note + "\n", encoding="utf-8")
    save_tokenizer(vocabulary, fresh, resolved)
    return Exported(fresh, "bertc", "", (note,))


def _write_hf(
    model: _Model, fresh: Path, target: tuple[Family, HfClass], copied: Mapping[str, Any]
) -> Exported:
    (resolved, tensors, vocabulary), (family, chosen) = model, target
    encoder = transformer(resolved)
    fits = [n for n in tensors if part_of(n) in chosen.parts | {"body"}]
    left = {n: tensor for n, tensor in tensors.items() if n not in set(fits)}
    placed = keys(family, encoder, fits, chosen.named)
    assert len(placed) == len(fits), f"{family.title} has no place for {set(fits) - set(placed)}"
    ready = {}
    for key, names in by_key(family, placed).items():
        pieces = [family.reshape.out(encoder, name, tensors[name]) for name in names]
        joined = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        ready[prefix_key(family, chosen, names[0], key)] = joined
    for key, numbers in family.unused(encoder).items():
        ready[prefix_key(family, chosen, f"{MAIN}.", key)] = torch.tensor(numbers)
    write_tensors(fresh / "model.safetensors", ready)
    parts, came = parts_of(fits), copied.get("architectures")
    # The class that a folder came with, if it holds parts of these.
    known = family.classes if chosen in family.classes else ()
    name = next((c.name for c in known if [c.name] == came and c.parts <= parts), chosen.name)
    if [name] != came:
        copied = {key: value for key, value in copied.items() if key not in OF_SCORES}
    config = {
        **copied, **hf_config(family, encoder, vocabulary, chosen), "architectures": [name],
        "transformers_version": TRANSFORMERS, **as_it_came(family, copied),
    }  # fmt: skip
    if "summary_type" in chosen.settings:
        config["summary_type"] = place_of_cls(vocabulary)
    (fresh / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    if chosen.name == gliner.CLASS:
        spans = exported_task(resolved, chosen.parts)
        assert isinstance(spans, Spans), "it is a class of spans"
        assert not isinstance(vocabulary, Wordless), "spans are of words"
        gliner.write_spans(fresh, spans, config, vocabulary)
    save_tokenizer(vocabulary, fresh, resolved)
    notes = list[str]()
    if left:
        write_tensors(fresh / BESIDE, left)
        heads = ", ".join(sorted(parts_of(left)))
        notes.append(f"{chosen.name} cannot hold {heads}: written to {BESIDE}, for bertc alone")
    if "pooler" in chosen.parts - parts:
        notes.append(f"{chosen.name} draws a pooler when it is loaded: the model has none")
    if chosen.name.endswith("ForTokenClassification") and isinstance(resolved.vocabulary, ByteBpe):
        notes.append(JOINED)
    if family.model_type in UNASKED:
        notes.append(TYPED)
    lacks = family.classes[-1].parts == {"pooler"} and "pooler" not in parts
    return Exported(fresh, family.model_type, name, tuple(notes), lacks)
