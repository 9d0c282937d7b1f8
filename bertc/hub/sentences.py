"""Folders of sentence-transformers: all layouts are read, that of 2.0 to 5 is written. No torch."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import DataError
from bertc.base.storage import durable
from bertc.base.storage.paths import is_file, is_taken
from bertc.base.storage.plain_file import parse_json, read_bytes, read_json, shown
from bertc.hub import token_vectors as late
from bertc.hub.folders import ENCODER, MODULES, RESOLVED, SENTENCES, SETTINGS, read_network
from bertc.ir.base import Node
from bertc.ir.changing.growth import TEACHER, FromOther
from bertc.ir.learning import Embed, Term, TextKind
from bertc.ir.learning.pooling import OneVector, Pooling, SparseVectors, TokenVectors
from bertc.ir.learning.vector_task import usual_ways
from bertc.ir.network.body import Body
from bertc.ir.program import Resolved
from bertc.text.tokenizers.reading import network_folder, tokenizer_folder

LONGEST_TEXT = 1 << 14
"""Maximum tokens of a text if positions set no limit."""
OF_TASKS = ("pooling", "dense", "normalise", "longest", "prompt")
"""Arguments of a task that embeds."""
_MOST_BYTES, _UNLIMITED = 2**20, 10**6
_KINDS = ("Transformer", "Pooling", "Normalize")
_MAPPED = tuple((*_KINDS[:2], *("Dense",) * number, "Normalize") for number in range(1, 5))
_CHAINS = (_KINDS, *_MAPPED, *late.CHAINS, *late.SPARSE_CHAINS)
_PACKAGE = "sentence_transformers"
_PACKAGES = (_PACKAGE, "pylate")
MODES: dict[OneVector, str] = {
    "mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens", "last": "lasttoken",
}  # fmt: skip
"""Their names of poolings, of those that ``bertc embed`` has."""
_OLD_MODE = "pooling_mode_"
_WITHOUT_POOLER = {"add_pooling_layer": False}
_NOTHING: tuple[Any, ...] = (None, False, "", [], {})
_OF_STATES = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
_POOLING = {"include_prompt": (True,)}
_ENCODER = {
    "*": _NOTHING,
    "transformer_task": (*_NOTHING, "feature-extraction"),
    "module_output_name": (*_NOTHING, "token_embeddings"),
    "modality_config": (*_NOTHING, _OF_STATES),
    "model_args": (*_NOTHING, _WITHOUT_POOLER, {"add_pooling_layer": True}),
}
_SETTINGS = {"model_type": ("SentenceTransformer",), "truncate_dim": _NOTHING}
"""Values of settings that change nothing, ``*`` of others; each other value is refused by name."""


@dataclass(frozen=True)
class Sentences:
    """The way from a text to a vector.

    ``prompt`` precedes each text, ``prompts`` has others by name; ``longest`` is in tokens, 0: as
    positions allow. ``obstacle`` is what bertc cannot compute of ``came``, the files that said it.
    """

    pooling: Pooling = "mean"
    dense: tuple[int, ...] = ()
    normalise: bool = False
    longest: int = 0
    prompt: str = ""
    prompts: Mapping[str, str] = field(default_factory=dict)
    similarity: str = "cosine"
    obstacle: str = ""
    came: Mapping[str, bytes] = field(default_factory=dict)

    def change(self, **values: Any) -> "Sentences":
        """The same with other values; if they differ, new files say so."""
        new = replace(self, obstacle="", **values)
        return new if new == self else replace(new, came={})

    @property
    def is_sparse(self) -> bool:
        """True if vectors have a weight for each token of the vocabulary."""
        return isinstance(self.pooling, SparseVectors)

    def prompt_for(self, kind: TextKind) -> str:
        """The prompt of a query or a document, as in ``encode_query`` and its twin."""
        names = ("query",) if kind == "query" else ("document", "passage", "corpus")
        return next((self.prompts[name] for name in names if name in self.prompts), self.prompt)

    def refuse_obstacle(self, folder: Path) -> None:
        """Refuse to make vectors that would not be the folder's."""
        if self.obstacle:
            message = f"{folder}: its vectors have {self.obstacle}, which bertc does not compute"
            remedy = "pooling=mean takes the states of its encoder alone; so does --pooling mean"
            raise DataError(message, help=remedy)

    def complete(self, term: Term, folder: Path) -> Term:
        """A term whose task embeds, with unwritten arguments as here; any other as it is."""
        task, written = term.objective, term.objective.model_fields_set
        if not isinstance(task, Embed) or (self.obstacle and "pooling" in written):
            return term
        self.refuse_obstacle(folder)
        unfit = {"query_prompt", "passage_prompt"} if "prompt" in written else set()
        if "pooling" in written and not isinstance(task.pooling, str):
            unfit |= {"dense", "normalise", "similarity"}  # those of one dense vector
        open_ = {n: value for n, value in self.ways.items() if n not in written | unfit}
        return term.model_copy(update={"objective": task.model_copy(update=open_)})

    @property
    def ways(self) -> dict[str, Any]:
        """Arguments of a task that embeds so; prompts by kind where none is the default."""
        ways = {name: getattr(self, name) for name in OF_TASKS}
        ways |= usual_ways(self.pooling)
        if not self.prompt:
            ways["query_prompt"] = self.prompt_for("query")
            ways["passage_prompt"] = self.prompt_for("document")
        return ways

    @property
    def note(self) -> str:
        """A remark on how a folder makes vectors."""
        if self.obstacle:
            return f"its vectors have {self.obstacle}: the encoder is imported without them"
        return f"vectors as its sentence-transformers files say: {self}"

    def __str__(self) -> str:
        if isinstance(self.pooling, TokenVectors):
            return f"vectors of {self.pooling.width} numbers for each token, compared by MaxSim"
        if self.is_sparse:
            return "a weight for each token of the vocabulary, by the masked-LM head"
        maps = f", maps to {' and '.join(map(str, self.dense))}" if self.dense else ""
        return f"pooling {self.pooling}{maps}" + (", normalised" if self.normalise else "")


def vectors_of(folder: Path, resolved: Resolved | None) -> Sentences | None:
    """The way a run or model folder makes vectors, as it learned to or came; None if unknown."""
    places = (folder / SENTENCES, folder)
    place = next((path for path in places if is_file(path / MODULES)), None)
    came = _read(place, tokenizer_folder(folder)) if place else None
    stages = resolved.stages if resolved else ()
    learned = [(task, s) for s in stages for task in s.tasks if isinstance(task, Embed)]
    if not learned:
        return came
    (task, stage), came = learned[-1], came or Sentences()
    ways: dict[str, Any] = {name: getattr(task, name) for name in OF_TASKS}
    ways |= {} if stage.encoder.room else {"longest": task.longest or stage.seq}
    of_kinds = came.prompt_for("query"), came.prompt_for("document")
    if of_kinds != (task.prompt_of(0), task.prompt_of(1)) and (
        task.query_prompt or task.passage_prompt
    ):  # none of them precedes a text of unknown kind
        both = {"query": task.prompt_of(0), "document": task.prompt_of(1)}
        ways |= {"prompt": "", "prompts": {**came.prompts, **both}}
    ways |= {} if task.similarity == "cosine" else {"similarity": task.similarity}
    return came.change(**ways)


def vectors_of_init(init: Node) -> Sentences | None:
    """The way the network that a run begins with makes vectors; None if it has none."""
    if not isinstance(init, FromOther) or init.path == TEACHER:
        return None
    folder = Path(init.path)
    return vectors_of(folder, read_network(folder) if is_taken(folder / RESOLVED) else None)


def write_sentences(sentences: Sentences, to: Path, encoder: Body, *, pooler: bool = True) -> None:
    """Write what ``SentenceTransformer`` reads; without ``pooler`` it makes its encoder so."""
    files = dict(sentences.came) or _files(sentences, encoder)
    if not (pooler or sentences.is_sparse):
        settings = parse_json(files.get(ENCODER, b"{}"), _MOST_BYTES)
        arguments = {**(settings.get("model_args") or {}), **_WITHOUT_POOLER}
        files[ENCODER] = _json({**settings, "model_args": arguments})
    for name, content in files.items():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        durable.replace(to / name, content)


def _files(sentences: Sentences, encoder: Body) -> dict[str, bytes]:
    prompts, prompt, default = dict(sentences.prompts), sentences.prompt, None
    if prompt:
        default = next((name for name, text in prompts.items() if text == prompt), "default")
        prompts[default] = prompt
    room = encoder.room or LONGEST_TEXT
    longest = min(sentences.longest or room, room)
    settings: dict[str, Any] = {"prompts": prompts, "default_prompt_name": default}
    pooling = sentences.pooling
    if isinstance(pooling, TokenVectors):
        places, kinds = ["", late.DENSE], [f"{_PACKAGE}.models.Transformer", late.CLASS]
        module, more = late.pylate_settings(pooling, longest, encoder)
        settings |= more
    elif sentences.is_sparse:
        places, module = ["", "1_SpladePooling"], dict(late.SPARSE_POOLING)
        kinds = [f"{_PACKAGE}.sparse_encoder.models.{kind}" for kind in late.SPARSE_CHAINS[0]]
        settings |= late.SPARSE_SETTINGS
    else:
        ends = ["Dense"] * len(sentences.dense) + ["Normalize"] * sentences.normalise
        places = ["", "1_Pooling", *(f"{n}_{kind}" for n, kind in enumerate(ends, 2))]
        kinds = [f"{_PACKAGE}.models.{kind}" for kind in (*_KINDS[:2], *ends)]
        modes = {f"{_OLD_MODE}{name}": kind == pooling for kind, name in MODES.items()}
        module = {"word_embedding_dimension": encoder.hidden, **modes}
        settings["similarity_fn_name"] = sentences.similarity
    maps = enumerate(pairwise((encoder.hidden, *sentences.dense)), 2)
    numbered = enumerate(zip(places, kinds, strict=True))
    modules = [{"idx": n, "name": str(n), "path": p, "type": k} for n, (p, k) in numbered]
    return {
        MODULES: _json(modules),
        f"{places[1]}/config.json": _json(module),
        **{f"{n}_Dense/config.json": _json(late.dense_settings(*both)) for n, both in maps},
        ENCODER: _json({"max_seq_length": longest, "do_lower_case": False}),
        SETTINGS: _json(settings),
    }


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def _read(folder: Path, tokenizer: Path) -> Sentences:
    """The ways of a folder's files, with the first of them that bertc cannot compute."""
    inner = network_folder(folder)
    content = read_bytes(folder / MODULES, _MOST_BYTES)
    if inner != folder:  # as it is written since 2.0, and by a run
        content = content.replace(f'"{inner.name}"'.encode(), b'""', 1)
    kinds, paths, no_modules = _modules(folder, content)
    configs = [f"{path}/config.json" for path in paths]
    places = {**{name: folder / name for name in (*configs, SETTINGS)}, ENCODER: inner / ENCODER}
    places = {name: path for name, path in places.items() if is_file(path)}
    came = {name: read_bytes(path, _MOST_BYTES) for name, path in places.items()}
    files = {name: read_json(path, _MOST_BYTES) for name, path in places.items()}
    encoder, settings = files.get(ENCODER, {}), files.get(SETTINGS, {})
    arguments = encoder.get("model_args")
    if isinstance(arguments, dict):  # but for kernels of attention, which compute the same
        arguments = {n: value for n, value in arguments.items() if n != "attn_implementation"}
    file = tokenizer / "tokenizer_config.json"
    words = read_json(file, _MOST_BYTES) if is_file(file) else {}
    lowered = {"do_lower_case": (*_NOTHING, words.get("do_lower_case") is True)}
    of_modules = {kind: files.get(name, {}) for kind, name in zip(kinds[1:], configs, strict=True)}
    sparse, of_tokens = kinds in late.SPARSE_CHAINS, kinds in late.CHAINS
    read = late.of_vocabulary if sparse else late.of_tokens if of_tokens else _of_one
    known = _ENCODER | lowered | (late.OF_LOGITS if sparse else {})
    obstacle, way, longest = read(settings, encoder, of_modules)
    maps = [files.get(f"{path}/config.json", {}) for path in paths if path.endswith("_Dense")]
    dense, refused = late.widths_of(maps if "Pooling" in kinds else ())
    prompts = settings.get("prompts") or {}
    texts = prompts.values() if isinstance(prompts, dict) else [0]
    are_texts = all(isinstance(text, str | None) for text in texts)
    obstacles = (
        no_modules,
        "no configuration of their pooling" * (not {*configs[:1]} <= files.keys()),
        obstacle or refused,
        late.refusal({**encoder, **dict.fromkeys(late.LENGTHS), "model_args": arguments}, known),
        "" if are_texts else f"prompts = {shown(prompts)}",
    )
    obstacle = next(filter(None, obstacles), "")
    named = {} if obstacle else {str(name): text or "" for name, text in prompts.items()}
    longest = longest or words.get("model_max_length") or 0
    of_one = settings.get("similarity_fn_name") if way in MODES else None
    return Sentences(
        pooling=way or "mean", normalise="Normalize" in kinds and way in MODES,
        dense=() if obstacle else dense,
        longest=longest if isinstance(longest, int) and 0 < longest < _UNLIMITED else 0,
        prompt=named.get(str(settings.get("default_prompt_name")), ""), prompts=named,
        similarity=str(usual_ways(way).get("similarity") or of_one or "cosine"),
        obstacle=obstacle, came={MODULES: content, **came},
    )  # fmt: skip


def _of_one(
    settings: Mapping[str, Any], encoder: Mapping[str, Any], modules: Mapping[str, Any]
) -> tuple[str, OneVector | None, Any]:
    """The obstacle to one vector a text, if any; the pooling and the longest text."""
    pooling = modules.get("Pooling", {})
    old = {f"{_OLD_MODE}{name}": kind for kind, name in MODES.items()}
    on = [old.get(name, name) for name in pooling if name.startswith(_OLD_MODE) and pooling[name]]
    mode = pooling.get("pooling_mode", on or ["mean"])
    modes = mode if isinstance(mode, list) else [mode]
    modes = ["last" if name == MODES["last"] else name for name in modes]
    known = next((kind for kind in MODES if modes == [kind]), None)
    unknown = "" if known else f"pooling {shown(modes if len(modes) != 1 else modes[0])}"
    obstacles = (late.refusal(pooling, _POOLING), unknown, late.refusal(settings, _SETTINGS))
    return next(filter(None, obstacles), ""), known, encoder.get("max_seq_length")


def _modules(folder: Path, content: bytes) -> tuple[tuple[str, ...], list[str], str]:
    """Kinds of modules, folders of those after the encoder, or the first that is another."""
    try:
        entries = parse_json(b'{"modules": ' + content + b"}", _MOST_BYTES)["modules"]
    except ValueError as error:
        raise DataError(f"{folder / MODULES} {error}", "copy it again from its source") from None
    kinds, paths = tuple[str, ...](), list[str]()
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        module = entry if isinstance(entry, dict) else {}
        kind, path = str(module.get("type")), str(module.get("path"))
        kinds = (*kinds, kind.rpartition(".")[2])
        begins = any(chain[: len(kinds)] == kinds for chain in _CHAINS)
        safe = path == f"{number}_Dense" if kinds[-1] == "Dense" else re.fullmatch(r"[\w-]+", path)
        safe = safe if number else not path
        known = kind.partition(".")[0] in _PACKAGES
        if not begins or not known or not safe:
            return (), [], f"a module {shown(kinds[-1] if known else kind)}"
        paths.append(path)
    return (kinds, paths[1:], "") if len(paths) > 1 else ((), [], "no module Pooling")
