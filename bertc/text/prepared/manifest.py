"""The manifest of prepared text: its plan, its parts, and the whole when all are there."""

import hashlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bertc.base.diagnostics import MissingInputError
from bertc.base.storage import durable
from bertc.base.storage.place import FolderAt
from bertc.text.cache import store
from bertc.text.prepared.plan import (
    CORPUS_FILE,
    LARGEST_FILE_BYTES,
    PreparationPlan,
    add_digest,
    json_at,
    plan_from,
    read_plan,
)
from bertc.text.rows.index import ROW
from bertc.text.rows.rewriting import together
from bertc.text.rows.tokens import SPLITS


@dataclass(frozen=True)
class PreparedPart:
    """A finished part: the digest of its manifest, and its facts."""

    name: str
    sha256: str
    facts: store.Facts = field(repr=False)


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


def part_at(
    place: FolderAt,
    name: str,
    plan: PreparationPlan | None = None,
    checked_bytes: int | None = None,
) -> PreparedPart | None:
    """A part that is whole, else None: in a folder by its content, in a store by its sizes.

    With a ``plan`` it is one of that preparation. Files above ``checked_bytes`` go by size;
    with it those of a store are read, whatever their size.
    """
    in_folder = store.CHECKED_BYTES if checked_bytes is None else checked_bytes
    if place.folder and store.intact(place.folder / name, in_folder) is None:
        return None
    raw = place.read(f"{name}/{store.MANIFEST_FILE}", LARGEST_FILE_BYTES, lambda _: True)
    manifest = store.unseal(raw.decode("utf-8", "replace")) if raw else None
    if raw is None or manifest is None:
        return None
    sizes = place.sizes(name)
    if any(sizes.get(file) != size for file, (size, _) in manifest["files"].items()):
        return None
    if plan and manifest["facts"].get("plan") not in (plan.fingerprint, plan.digest_of(name)):
        return None
    if checked_bytes and not place.folder and not _as_written(place, name, manifest["files"]):
        return None
    return PreparedPart(name, hashlib.sha256(raw).hexdigest(), manifest["facts"])


def _as_written(place: FolderAt, name: str, files: Mapping[str, tuple[int, str]]) -> bool:
    """True if the files of a part in a store have their digests; they are read."""
    with tempfile.TemporaryDirectory(prefix="bertc-") as aside:
        for file, (_, digest) in files.items():
            place.get(f"{name}/{file}", copy := Path(aside) / "copy")
            if durable.digest(copy) != digest:
                return False
    return True


def bytes_of(part: PreparedPart, dtype: str) -> int:
    """The size of the tokens of a part, of the starts of its sentences and documents, of rows."""
    of_text = {"tokens": np.dtype(dtype).itemsize, "sentences": 8, "documents": 8}
    of_rows = {"rows": ROW.itemsize, "examples": 8, "packs": 8}
    counted = [(part.facts.get(split, {}), of_text) for split in SPLITS]
    counted += [(counts, of_rows) for counts in part.facts.get("rows", {}).values()]
    return sum(c.get(name, 0) * width for c, widths in counted for name, width in widths.items())


def write_corpus(
    place: FolderAt, plan: PreparationPlan, parts: Sequence[PreparedPart], heldout: PreparedPart
) -> PreparedText:
    """Put the manifest of text whose parts are all there."""
    fields = {
        "plan": asdict(plan),
        "parts": [asdict(part) for part in parts],
        "heldout": asdict(heldout),
    }
    place.write(CORPUS_FILE, add_digest(fields))
    return PreparedText(plan, tuple(parts), heldout, store.fingerprint(fields))


def read_corpus(place: FolderAt) -> PreparedText:
    """The manifest of prepared text, read once while it stays as it is."""
    return _corpus(place.address, place.state(CORPUS_FILE))


@lru_cache(4)
def _corpus(address: str, _: str) -> PreparedText:
    place = FolderAt(address)
    fields = json_at(place, CORPUS_FILE)
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
    digest = fields.pop("digest")
    parts = tuple(PreparedPart(**part) for part in fields["parts"])
    return PreparedText(
        plan_from(place, fields["plan"]), parts, PreparedPart(**fields["heldout"]), digest
    )


def put_folder(
    at: FolderAt, name: str, fill: Callable[[Path], store.Facts], anew: bool = False
) -> None:
    """Make a folder of the place: aside and renamed, or in a store its manifest last."""
    if at.folder:
        store.obtain(at.folder / name, fill, store.Silent(), anew=anew, keyed=False)
        return
    with tempfile.TemporaryDirectory(prefix="bertc-") as aside:
        folder = Path(aside)
        store.seal(folder, fill(folder))
        at.put(folder, name, store.MANIFEST_FILE)
