"""The manifest of prepared text: its plan, its parts, and the whole when all are there."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import count
from typing import Any

import numpy as np

from bertc.base.diagnostics import DataError, MissingInputError, UsageError, listed
from bertc.base.storage.place import FolderAt
from bertc.data.cache.store import (
    CHECKED_BYTES,
    MANIFEST_FILE,
    Facts,
    fingerprint,
    intact,
    unsealed,
)
from bertc.data.rows.rewriting import together
from bertc.data.rows.tokens import SPLITS

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
        anew = replace(self, parts=first_names(len(self.parts)))
        return fingerprint([getattr(anew, name) for name in SHARED])

    def digest_of(self, name: str) -> str:
        """Digest of what decides the content of a part as it is made: its input, the settings."""
        return self._digests.get(name, self.fingerprint)

    @cached_property
    def _digests(self) -> dict[str, str]:
        shared = [getattr(self, name) for name in SHARED if name not in ("source", "parts")]
        shared.append(len(self.parts) == 1)  # it holds out its own end
        pairs = zip(self.parts, self.inputs, strict=False)  # plans made before have no inputs
        return {name: fingerprint(of, *shared) for name, of in pairs}

    def words(self, name: str) -> str:
        """A setting in words for people."""
        return str(self.read.get(name) or getattr(self, name))


@dataclass(frozen=True)
class PreparedPart:
    """A finished part: the digest of its manifest, and its facts."""

    name: str
    sha256: str
    facts: Facts = field(repr=False)


@dataclass(frozen=True)
class PreparedText:
    """Prepared text that is whole."""

    plan: PreparationPlan
    parts: tuple[PreparedPart, ...]
    heldout: PreparedPart
    digest: str

    @property
    def facts(self) -> dict[str, Any]:
        """Name, content and counts, as of any text."""
        name = str(self.plan.read.get("text", ""))
        return together(name, self.digest, [part.facts for part in self.parts])


def read_plan(place: FolderAt) -> PreparationPlan | None:
    """The plan of a preparation, None if none was begun."""
    if (fields := _json(place, PLAN_FILE)) is None:
        return None
    return _plan(place, fields)


def write_plan(
    place: FolderAt,
    plan: PreparationPlan,
    update: Callable[[PreparationPlan, PreparationPlan], object] | None = None,
) -> PreparationPlan:
    """Put the plan, or return the one that is there, with its tokenizer.

    A place that holds other files or another preparation is refused, but for one of other text
    with ``update``, called with the old plan and the new one before anything changes: parts of the
    same input stay, the manifest goes until all are there.
    """
    fields = _json(place, PLAN_FILE, damaged={})
    others = place.names() if fields is None else set()
    if others and PLAN_FILE not in others:  # else another worker put it meanwhile
        raise UsageError(
            f"{place.address} holds other files: {listed(sorted(others))}",
            f"a folder for this text alone: --to {place.address.rstrip('/')}/corpus",
        )
    if others:
        fields = _json(place, PLAN_FILE, damaged={})
    known = _plan(place, fields) if fields else None
    differing = _differences(known, plan) if known else {}
    if known and update and {*differing} == {"source"}:
        plan, before = _updated(known, plan), known
        update(before, plan)
        for name in (CORPUS_FILE, *([] if known.tokenizer else [TOKENIZER])):
            place.remove(name)
        known = None
    elif differing:
        said = "; ".join(f"{name}: {how}" for name, how in differing.items())
        update_it = "; bertc prepare --update prepares what changed"
        raise DataError(
            f"{place.address} holds another preparation: {said}",
            "prepare into another --to, or with the spec, text and tokenizer of the first"
            + update_it * ({*differing} == {"source"}),
        )
    if known is None or (plan.tokenizer and not known.tokenizer):
        place.write(PLAN_FILE, _digested(asdict(plan)))
        return plan
    return known


def _updated(known: PreparationPlan, plan: PreparationPlan) -> PreparationPlan:
    """The plan with the tokenizer of one of other text, and its parts of the same input."""
    there = dict(zip(known.inputs, known.parts, strict=False))
    fresh = (part_name(number) for number in count(max(map(int, known.parts)) + 1))
    parts = tuple(there.pop(of, "") or next(fresh) for of in plan.inputs)
    settled = {name: getattr(known, name) for name in ("tokenizer", "dtype", "separator")}
    return replace(plan, parts=parts, **settled)


def part_name(number: int) -> str:
    """The name of a part: its number, or a new one where text was updated."""
    return f"{number:0{NAME_DIGITS}}"


def first_names(count: int) -> tuple[str, ...]:
    """The names of the parts of text that was never updated."""
    return tuple(map(part_name, range(count)))


def _differences(known: PreparationPlan, plan: PreparationPlan) -> dict[str, str]:
    differing = {}
    for name in SHARED:
        there, here = getattr(known, name), getattr(plan, name)
        if there == here or name == "parts" or (name == "tokenizer" and not (there and here)):
            continue  # parts follow from the source
        words = [known.words(name), plan.words(name)]
        said = "{} there, {} here" if words[0] != words[1] else "{}, of another content"
        differing[name] = said.format(*words)
    return differing


def part_at(
    place: FolderAt,
    name: str,
    plan: PreparationPlan | None = None,
    checked_bytes: int = CHECKED_BYTES,
) -> PreparedPart | None:
    """A part that is whole, else None: in a folder by its content, in a store by its sizes.

    With a ``plan`` it is one of that preparation. Files above ``checked_bytes`` go by size.
    """
    if place.folder and intact(place.folder / name, checked_bytes) is None:
        return None
    raw = place.read(f"{name}/{MANIFEST_FILE}", LARGEST_FILE_BYTES, lambda _: True)
    manifest = unsealed(raw.decode("utf-8", "replace")) if raw else None
    if raw is None or manifest is None:
        return None
    sizes = place.sizes(name)
    if any(sizes.get(file) != size for file, (size, _) in manifest["files"].items()):
        return None
    if plan and manifest["facts"].get("plan") not in (plan.fingerprint, plan.digest_of(name)):
        return None
    return PreparedPart(name, hashlib.sha256(raw).hexdigest(), manifest["facts"])


def bytes_of(part: PreparedPart, dtype: str) -> int:
    """The size of the tokens of a part, and of the starts of its sentences and documents."""
    widths = {"tokens": np.dtype(dtype).itemsize, "sentences": 8, "documents": 8}
    counts = [part.facts.get(split, {}) for split in SPLITS]
    return sum(count.get(name, 0) * width for count in counts for name, width in widths.items())


def write_corpus(
    place: FolderAt, plan: PreparationPlan, parts: Sequence[PreparedPart], heldout: PreparedPart
) -> PreparedText:
    """Put the manifest of text whose parts are all there."""
    fields = {
        "plan": asdict(plan),
        "parts": [asdict(part) for part in parts],
        "heldout": asdict(heldout),
    }
    place.write(CORPUS_FILE, _digested(fields))
    return PreparedText(plan, tuple(parts), heldout, _content(fields, fingerprint(fields)))


def _content(fields: dict[str, Any], digest: str) -> str:
    """The digest of a manifest as it was before updates named parts anew, by its own."""
    names = first_names(len(fields["parts"]))
    if tuple(fields["plan"]["parts"]) == names:
        return digest
    parts = [{**part, "name": name} for part, name in zip(fields["parts"], names, strict=True)]
    return fingerprint({**fields, "plan": {**fields["plan"], "parts": names}, "parts": parts})


def _digested(fields: Mapping[str, Any]) -> bytes:
    return json.dumps({**fields, "digest": fingerprint(fields)}, indent=1).encode()


def read_corpus(place: FolderAt) -> PreparedText:
    """The manifest of prepared text, read once while it stays as it is."""
    return _corpus(place.address, place.state(CORPUS_FILE))


@lru_cache(4)
def _corpus(address: str, _: str) -> PreparedText:
    place = FolderAt(address)
    fields = _json(place, CORPUS_FILE)
    if fields is None:
        if read_plan(place) is None:
            raise MissingInputError(
                f"there is no prepared text at {place.address}",
                f"bertc prepare SPEC --to {place.address} makes it; one that was moved is named "
                "by --set, also with --resume",
            )
        raise MissingInputError(
            f"the text at {place.address} is not prepared to its end",
            f"bertc prepare --to {place.address} --status lists what is missing, "
            "--finish ends it when nothing is",
        )
    digest = _content(fields, fields.pop("digest"))
    parts = tuple(PreparedPart(**part) for part in fields["parts"])
    return PreparedText(
        _plan(place, fields["plan"]), parts, PreparedPart(**fields["heldout"]), digest
    )


def _plan(place: FolderAt, fields: Mapping[str, Any]) -> PreparationPlan:
    if fields.get("version") != VERSION:
        raise DataError(
            f"{place.address} is of version {fields.get('version')!r} of prepared text",
            f"this bertc reads version {VERSION}: prepare the text again",
        )
    known = {name: value for name, value in fields.items() if name != "digest"}
    tuples = {name: tuple(fields.get(name, ())) for name in ("parts", "rows", "inputs")}
    return PreparationPlan(**{**known, **tuples})


def _json(
    place: FolderAt, name: str, damaged: dict[str, Any] | None = None
) -> dict[str, Any] | None:
    """The fields of a file, ``damaged`` if it is that; None if it is not there."""
    fields: dict[str, Any] | None = None

    def is_whole(raw: bytes) -> bool:
        nonlocal fields
        fields = _fields(raw)
        return fields is not None or damaged is not None

    raw = place.read(name, LARGEST_FILE_BYTES, is_whole)
    if raw is None:
        return None
    if place.folder:
        is_whole(raw)
    if fields is None and damaged is None:
        raise DataError(
            f"{place.address}/{name} is damaged",
            f"remove it; bertc prepare with its spec and --to {place.address} writes it again",
        )
    return damaged if fields is None else fields


def _fields(raw: bytes) -> dict[str, Any] | None:
    """The fields of a file if they have their digest, else None."""
    try:
        fields = json.loads(raw)
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    digested = {name: value for name, value in fields.items() if name != "digest"}
    return fields if fields.get("digest") == fingerprint(digested) else None
