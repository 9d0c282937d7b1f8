"""Folders of the gliner package, of models that score spans of words by their ends (markerV0)."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import ValidationError

from bertc.base.diagnostics import DataError
from bertc.base.storage.paths import is_file, is_taken
from bertc.base.storage.plain_file import read_json, shown
from bertc.hub.families.family import HfClass
from bertc.hub.folders import RESOLVED, read_network
from bertc.hub.token_vectors import refusal
from bertc.ir.learning import Spans, Term
from bertc.ir.learning.task import NAME_PATTERN
from bertc.ir.terms.task_head import MOST_NAMES
from bertc.text.vocab.vocabulary import Vocabulary

CLASS, SPANS_FILE, MAX_BYTES = "GLiNER", "gliner_config.json", 2**20
_PREFIX, _SPANS = "token_rep_layer.bert_layer.model", "span_rep_layer.span_rep_layer"
_MAPS = {
    "start": f"{_SPANS}.project_start", "end": f"{_SPANS}.project_end",
    "span": f"{_SPANS}.out_project", "names": "prompt_rep_layer",
}  # fmt: skip
_NAMED = {
    "narrow": "token_rep_layer.projection",
    **{
        f"{m}.{of}": f"{key}.{n}"
        for m, key in _MAPS.items()
        for of, n in (("inner", 0), ("outer", 3))
    },
    **{
        f"recurrence.{way}.{read}.{leaf}": f"rnn.lstm.{leaf}_{kind}_l0{end}"
        for way, end in (("right", ""), ("left", "_reverse"))
        for read, kind in (("input", "ih"), ("state", "hh"))
        for leaf in ("weight", "bias")
    },
}
_ONLY: Mapping[str, tuple[Any, ...]] = {
    "span_mode": ("markerV0",), "subtoken_pooling": ("first",), "num_rnn_layers": (1,),
    "has_rnn": (True,), "fuse_layers": (False,), "embed_ent_token": (True,),
    "post_fusion_schema": ("", None), "span_encoder_config": (None,), "labels_encoder": (None,),
    "words_splitter_type": ("whitespace",), "precomputed_prompts_mode": (None, False),
    "labels_decoder": (None,), "relations_layer": (None,),
}  # fmt: skip
"""Values that bertc computes; each other value is refused by name."""
_FIELDS = {
    "widest": "max_width", "units": "hidden_size", "marker": "ent_token",
    "separator": "sep_token", "dropout": "dropout", "labels": "labels", "name": "name",
}  # fmt: skip


def class_of(*parts: str) -> HfClass:
    """The class with its names of a head, the first of its parts."""
    named = {f"heads.{parts[0]}.{ours}": key for ours, key in _NAMED.items()}
    return HfClass(CLASS, frozenset(parts), named, prefix=_PREFIX)


def spans_in(file: Path) -> Spans:
    """The task of a folder, for a user's own files."""
    raw = read_json(file, MAX_BYTES)
    if refused := refusal(raw, _ONLY):
        help = "span_mode=markerV0 with one BiLSTM and the first piece of a word is what bertc has"
        raise DataError(f"{file}: {refused}", help)
    known = {ours: raw[name] for ours, name in _FIELDS.items() if raw.get(name) is not None}
    if not re.fullmatch(NAME_PATTERN, str(known.get("name"))):  # as "span level gliner" is none
        known.pop("name", None)
    try:
        return Spans.model_validate(known)
    except ValidationError as error:
        name = _FIELDS[str(error.errors()[0]["loc"][0])]
        raise DataError(f"{file}: {name} = {shown(raw[name])}", "as gliner writes it") from None


def complete_spans(term: Term, folder: Path) -> Term:
    """A term that finds spans, with unwritten sizes and tokens of a run's or a folder's."""
    task, known = term.objective, list[Any]()
    if is_taken(folder / RESOLVED):
        known += [t for t in read_network(folder).stages[-1].tasks if isinstance(t, Spans)]
    elif is_file(folder / SPANS_FILE):
        known.append(spans_in(folder / SPANS_FILE))
    if not isinstance(task, Spans) or not known:
        return term
    names = {"widest", "units", "marker", "separator"} - task.model_fields_set
    ready = task.model_copy(update={name: getattr(known[0], name) for name in sorted(names)})
    return term.model_copy(update={"objective": ready})


def write_spans(folder: Path, task: Spans, encoder: Mapping[str, Any], tokens: Vocabulary) -> None:
    """Write what GLiNER.from_pretrained reads next to the weights, but for the tokenizer."""
    roles = {"marker": tokens.mask, "separator": tokens.sep}
    said = {role: getattr(task, role) or tokens.token(number) for role, number in roles.items()}
    settings = {
        **{name: only[0] for name, only in _ONLY.items() if only[0] is not None},
        **{name: getattr(task, ours) for ours, name in _FIELDS.items()},
        **{_FIELDS[role]: token for role, token in said.items()},
        "model_name": encoder["model_type"], "encoder_config": encoder, "max_types": MOST_NAMES,
        "vocab_size": encoder["vocab_size"],
        "class_token_index": tokens.tokenizer.token_to_id(said["marker"]),
    }  # fmt: skip
    (folder / SPANS_FILE).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


@contextmanager
def in_layout(folder: Path) -> Iterator[Path]:
    """The same folder, aside with the file of settings that transformers has, if it has none."""
    if not is_file(folder / SPANS_FILE) or is_file(folder / "config.json"):
        yield folder
        return
    raw, _ = read_json(folder / SPANS_FILE, MAX_BYTES), spans_in(folder / SPANS_FILE)
    if not isinstance(encoder := raw.get("encoder_config"), dict):
        named = shown(raw.get("model_name"))
        help = f"put config.json of {named} next to it, with its vocab_size"
        raise DataError(f"{folder / SPANS_FILE} has no encoder_config", help)
    size = raw.get("vocab_size", -1)
    known = {**encoder, **({"vocab_size": size} if size > 0 else {}), "architectures": [CLASS]}
    with TemporaryDirectory() as aside:
        (inner := Path(aside) / folder.absolute().name).mkdir()
        for path in folder.absolute().iterdir():
            (inner / path.name).symlink_to(path)
        (inner / "config.json").write_text(json.dumps(known), encoding="utf-8")
        yield inner
