"""The plan of prepared text, which all its workers share, and files with their digest."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from bertc.base.diagnostics import DataError, UsageError, listed
from bertc.base.storage.place import FolderAt
from bertc.text.cache.store import fingerprint

PLAN_FILE = "plan.json"
CORPUS_FILE = "corpus.json"
TOKENIZER = "tokenizer"
HELD_OUT = "heldout"
"""The folder with the held-out text of all parts, and the token counts of training text."""
VERSION = 1
NAME_DIGITS = 5
LARGEST_FILE_BYTES = 1 << 30
SHARED = ("source", "vocab", "tokenizer", "holdout", "clean", "rows", "parts", "version")
"""Settings of a plan that decide the content of parts, as messages name them."""


@dataclass(frozen=True)
class PreparationPlan:
    """The settings of a preparation that every worker shares, written once.

    ``tokenizer`` is the digest of the vocabulary, empty before there is one, ``vocab`` how it is
    learned, empty of one that is there. ``source`` is the identity of the text, ``rows`` what their
    counts follow from. The part of each name has its share of the text, whose identity is in
    ``inputs``. ``read`` says for people what these are, and ``program`` reads the text.
    """

    source: str
    tokenizer: str
    dtype: str
    separator: int
    holdout: float
    read: Mapping[str, Any]
    parts: tuple[str, ...]
    version: int = VERSION
    rows: tuple[str, ...] = ()
    clean: Mapping[str, Any] = field(default_factory=dict)
    vocab: str = ""
    program: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()

    @cached_property
    def fingerprint(self) -> str:
        """Digest of all that decides the content of parts, those changed at the finish included."""
        return fingerprint([getattr(self, name) for name in SHARED])

    def digest_of(self, name: str) -> str:
        """Digest of what decides the content of a part as it is made: its input, the settings."""
        return self._digests.get(name, self.fingerprint)

    @cached_property
    def _digests(self) -> dict[str, str]:
        shared = [getattr(self, name) for name in SHARED if name not in ("source", "parts")]
        shared.append(len(self.parts) == 1)  # it holds out its own end
        pairs = zip(self.parts, self.inputs, strict=False)  # plans made before have no inputs
        return {name: fingerprint(content, *shared) for name, content in pairs}

    def words(self, name: str) -> str:
        """A setting in words for people."""
        return str(self.read.get(name) or getattr(self, name))

    def remedy(self, address: str, names: Sequence[str]) -> str:
        """The help by which parts that are missing or damaged at an address are made."""
        finish = f"bertc prepare --to {address} --finish"
        if [*names] == [HELD_OUT]:
            return f"{finish} makes it again"
        command = self.read.get("command") or "bertc prepare SPEC"
        number = self.parts.index(names[0]) + 1 if names[0] in self.parts else 1
        share, makes = f" --part {number}/{len(self.parts)}", "makes it"
        if len(names) > 1:
            share, makes = "", "makes those alone"
        return f"{command} --to {address}{share} {makes}; then {finish}"


def read_plan(place: FolderAt) -> PreparationPlan | None:
    """The plan of a preparation, None if none was begun."""
    fields = json_at(place, PLAN_FILE)
    return None if fields is None else plan_from(place, fields)


def write_plan(place: FolderAt, plan: PreparationPlan) -> PreparationPlan:
    """Put the plan, or return the one that is there; refuse a place of other content."""
    fields = json_at(place, PLAN_FILE, damaged={})
    names = place.names() if fields is None else set()
    if names and PLAN_FILE not in names:  # else another worker put it meanwhile
        help = f"a folder for this text alone: --to {place.address.rstrip('/')}/corpus"
        raise UsageError(f"{place.address} holds other files: {listed(sorted(names))}", help)
    if names:
        fields = json_at(place, PLAN_FILE, damaged={})
    known = plan_from(place, fields) if fields else None
    differing = _differences(known, plan) if known else {}
    if differing and not any(
        name[0].isdigit() and not name.endswith(".lock") for name in place.names()
    ):  # the first preparation failed
        place.remove(TOKENIZER)
        known = None
    elif differing:
        differences = "; ".join(f"{name}: {how}" for name, how in differing.items())
        help = "prepare into another --to, or with the spec, text and tokenizer of the first"
        raise DataError(f"{place.address} holds another preparation: {differences}", help)
    if known is None or (plan.tokenizer and not known.tokenizer):
        place.write(PLAN_FILE, add_digest(asdict(plan)))
        return plan
    return known


def _differences(known: PreparationPlan, plan: PreparationPlan) -> dict[str, str]:
    differing = {}
    for name in SHARED:
        before, now = getattr(known, name), getattr(plan, name)
        if before == now or name == "parts" or (name == "tokenizer" and not (before and now)):
            continue  # parts follow from the source
        words = [known.words(name), plan.words(name)]
        form = "{} there, {} here" if words[0] != words[1] else "{}, of another content"
        differing[name] = form.format(*words)
    return differing


def plan_from(place: FolderAt, fields: Mapping[str, Any]) -> PreparationPlan:
    """The plan of these fields of a manifest."""
    if fields.get("version") != VERSION:
        message = f"{place.address} is of version {fields.get('version')!r} of prepared text"
        raise DataError(message, f"this bertc reads version {VERSION}: prepare the text again")
    tuples = {name: tuple(fields.get(name, ())) for name in ("parts", "rows", "inputs")}
    return PreparationPlan(**{**fields, **tuples})


def add_digest(fields: Mapping[str, Any]) -> bytes:
    """The content of a file of fields, with their digest."""
    return json.dumps({**fields, "digest": fingerprint(fields)}, indent=1).encode()


def json_at(
    place: FolderAt, name: str, damaged: dict[str, Any] | None = None
) -> dict[str, Any] | None:
    """The fields of a file, ``damaged`` if it is that; None if it is not there."""
    fields: dict[str, Any] | None = None

    def is_whole(raw: bytes) -> bool:
        nonlocal fields
        fields = damaged if (read := _fields(raw)) is None else read
        return fields is not None

    raw = place.read(name, LARGEST_FILE_BYTES, is_whole)
    if place.folder and raw is not None and not is_whole(raw):
        help = f"remove it; bertc prepare with its spec and --to {place.address} writes it again"
        raise DataError(f"{place.address}/{name} is damaged", help)
    return fields


def _fields(raw: bytes) -> dict[str, Any] | None:
    """The fields of a file without their digest, None if that is of others."""
    try:
        fields = json.loads(raw)
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    return fields if fields.pop("digest", None) == fingerprint(fields) else None
