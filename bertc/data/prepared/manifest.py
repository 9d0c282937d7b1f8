"""The manifest of prepared text: its plan, its parts, and the whole when all are there."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from bertc.base.diagnostics import DataError, MissingInputError
from bertc.base.storage.place import FolderAt
from bertc.data.cache.store import MANIFEST_FILE, Facts, fingerprint, intact, unsealed
from bertc.data.rows.tokens import SPLITS

PLAN_FILE = "plan.json"
CORPUS_FILE = "corpus.json"
TOKENIZER = "tokenizer"
HELD_OUT = "heldout"
"""The folder with the held-out text of all parts, and the token counts of training text."""
VERSION = 1
LARGEST_FILE_BYTES = 1 << 30
COUNTED = ("tokens", "sentences", "documents")


@dataclass(frozen=True)
class PreparationPlan:
    """The settings of a preparation that every worker shares, written once.

    ``tokenizer`` is the digest of the vocabulary, ``source`` the identity of the text, and
    ``read`` says for people how it is read. The part of each name has its share of the text.
    """

    source: str
    tokenizer: str
    dtype: str
    separator: int
    holdout: float
    read: Mapping[str, Any]
    parts: tuple[str, ...]
    version: int = VERSION

    @property
    def fingerprint(self) -> str:
        """Digest of all that decides the content; ``read`` does not."""
        return fingerprint({**asdict(self), "read": {}})


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
        totals = {
            split: {c: sum(part.facts[split][c] for part in self.parts) for c in COUNTED}
            for split in SPLITS
        }
        return {"name": str(self.plan.read.get("text", "")), "content": self.digest, **totals}


def read_plan(place: FolderAt) -> PreparationPlan | None:
    """The plan of a preparation, None if none was begun."""
    if (fields := _json(place, PLAN_FILE)) is None:
        return None
    return _plan(place, fields)


def write_plan(place: FolderAt, plan: PreparationPlan) -> None:
    """Put the plan, unless another one is there."""
    known = read_plan(place)
    if known is None:
        place.write(PLAN_FILE, _digested(asdict(plan)))
    elif known.fingerprint != plan.fingerprint:
        names = ("source", "tokenizer", "dtype", "separator", "holdout", "parts", "version")
        differing = [name for name in names if getattr(known, name) != getattr(plan, name)]
        raise DataError(
            f"{place.address} holds another preparation: {', '.join(differing)} differ",
            "prepare into another --to, or with the spec, text and tokenizer of the first",
        )


def part_at(place: FolderAt, name: str) -> PreparedPart | None:
    """A part that is whole, else None: in a folder by its content, in a store by its sizes."""
    if place.folder and intact(place.folder / name) is None:
        return None
    raw = place.read(f"{name}/{MANIFEST_FILE}", LARGEST_FILE_BYTES)
    manifest = unsealed(raw.decode("utf-8", "replace")) if raw else None
    if raw is None or manifest is None:
        return None
    sizes = place.sizes(name)
    if any(sizes.get(file) != size for file, (size, _) in manifest["files"].items()):
        return None
    return PreparedPart(name, hashlib.sha256(raw).hexdigest(), manifest["facts"])


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
    return PreparedText(plan, tuple(parts), heldout, fingerprint(fields))


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
                f"bertc prepare SPEC --to {place.address} makes it",
            )
        raise MissingInputError(
            f"the text at {place.address} is not prepared to its end",
            f"bertc prepare --to {place.address} --status lists what is missing, "
            "--finish ends it when nothing is",
        )
    digest = fields.pop("digest")
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
    return PreparationPlan(**{**known, "parts": tuple(fields["parts"])})


def _json(place: FolderAt, name: str) -> dict[str, Any] | None:
    fields: dict[str, Any] | None = {}

    def is_whole(raw: bytes) -> bool:
        nonlocal fields
        fields = _fields(raw)
        return fields is not None

    raw = place.read(name, LARGEST_FILE_BYTES, is_whole)
    if raw is not None and place.folder:
        is_whole(raw)
    if fields is None:
        raise DataError(
            f"{place.address}/{name} is damaged",
            f"remove it; bertc prepare with its spec and --to {place.address} writes it again",
        )
    return fields or None


def _fields(raw: bytes) -> dict[str, Any] | None:
    """The fields of a file if they have their digest, else None."""
    try:
        fields = json.loads(raw)
    except ValueError:
        return None
    digested = {name: value for name, value in fields.items() if name != "digest"}
    return fields if fields.get("digest") == fingerprint(digested) else None
