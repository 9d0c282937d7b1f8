"""Prepared text: its manifest, and its shards, here or copied when they are first read."""

import hashlib
import os
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from bertc.base.diagnostics import DataError, MissingInputError, listed, several
from bertc.base.storage import durable
from bertc.base.storage.paths import working_folder
from bertc.base.storage.place import WRONG, FolderAt
from bertc.cost.units import bytes_text
from bertc.ir.data import Prepared, Share
from bertc.text.cache import store
from bertc.text.cache.store import copied
from bertc.text.prepared import plan as plans
from bertc.text.prepared.plan import PreparationPlan, read_plan
from bertc.text.rows.index import ROW
from bertc.text.rows.rewriting import held_out_remark, together
from bertc.text.rows.tokens import SPLITS, Tokens, open_tokens
from bertc.text.shards import Shard, Tokenised


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
    raw = place.read(f"{name}/{store.MANIFEST_FILE}", plans.LARGEST_FILE_BYTES, lambda _: True)
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
    fields = {"plan": asdict(plan), "parts": [*map(asdict, parts)], "heldout": asdict(heldout)}
    place.write(plans.CORPUS_FILE, plans.add_digest(fields))
    return PreparedText(plan, tuple(parts), heldout, store.fingerprint(fields))


def read_corpus(place: FolderAt) -> PreparedText:
    """The manifest of prepared text, read once while it stays as it is."""
    return _corpus(place.address, place.state(plans.CORPUS_FILE))


@lru_cache(4)
def _corpus(address: str, _: str) -> PreparedText:
    place = FolderAt(address)
    fields = plans.json_at(place, plans.CORPUS_FILE)
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
    parts = tuple(PreparedPart(**part) for part in fields["parts"])
    plan, heldout = plans.plan_from(place, fields["plan"]), PreparedPart(**fields["heldout"])
    return PreparedText(plan, parts, heldout, store.fingerprint(fields))


def put_folder(
    place: FolderAt, name: str, fill: Callable[[Path], store.Facts], anew: bool = False
) -> None:
    """Make a folder of the place: aside and renamed, or in a store its manifest last."""
    if place.folder:
        store.obtain(place.folder / name, fill, store.Silent(), anew=anew, keyed=False)
        return
    with tempfile.TemporaryDirectory(prefix="bertc-") as aside:
        folder = Path(aside)
        store.seal(folder, fill(folder))
        for path in sorted(folder.iterdir(), key=lambda path: path.name == store.MANIFEST_FILE):
            place.write(f"{name}/{path.name}", path)


def open_prepared(
    text: Prepared, tokenizer: str, cache: Path, progress: store.Progress
) -> Tokenised:
    """The shards of prepared text; ``tokenizer`` is the digest of the run's."""
    place = FolderAt(text.path)
    corpus = read_corpus(place)
    refuse_other_tokenizer(text, corpus, tokenizer)
    dtype = np.dtype(corpus.plan.dtype).type

    def located(part: PreparedPart, progress: store.Progress) -> tuple[Path, int | None]:
        if place.folder:
            return place.folder / _there(place, part.name, part.sha256).name, None
        folder, expected_bytes = cache / "shards" / part.sha256, bytes_of(part, corpus.plan.dtype)
        copy = partial(copy_part, place, part)
        return folder, copied(folder, copy, progress, expected_bytes, text.cache)

    def opened(part: PreparedPart, split: str) -> Tokens:
        folder, lock = located(part, store.Silent())
        tokens = open_tokens(folder, split, dtype)
        if lock is not None:  # it may go when nobody has its tokens
            weakref.finalize(tokens.ids, os.close, lock)
        return tokens

    if remark := held_out_remark(corpus.facts, corpus.plan.holdout):
        progress.note(f"{text.path}: {remark}")
    slow = place.folder is None
    largest = max((bytes_of(part, corpus.plan.dtype) for part in corpus.parts), default=0)
    if slow and 0 < text.cache < largest:
        less = f"cache={bytes_text(text.cache)} is less than a part of {bytes_text(largest)}"
        progress.note(f"{text.path}: {less}; the parts of two windows stay all the same")
    train = tuple(
        Shard(p.sha256, "train", partial(opened, p, "train"), p.facts["rows"], slow)
        for p in corpus.parts
        if p.facts["train"]["tokens"]
    )
    heldout = Shard(corpus.heldout.sha256, "heldout", partial(opened, corpus.heldout, "heldout"))
    folder, lock = located(corpus.heldout, progress)
    counts = np.fromfile(folder / "train.counts", np.int64)
    if lock is not None:
        os.close(lock)
    return Tokenised(corpus.facts, train, (heldout,), counts)


def refuse_other_tokenizer(text: Prepared, corpus: PreparedText, tokenizer: str) -> None:
    """Refuse text that is prepared with another tokenizer than that of this digest."""
    if corpus.plan.tokenizer != tokenizer:
        raise DataError(
            f"the text at {text.path} is prepared with another tokenizer than the run's",
            "a run without vocab has that of its first prepared text: leave vocab out, or prepare "
            'this one of a mixture again with vocab="FIRST/tokenizer"; with an init of others, '
            f'vocab="{text.path}/tokenizer" init=run(..., embeddings=mean)',
        )


def refuse_missing_parts(place: FolderAt, corpus: PreparedText) -> None:
    """Refuse text some of whose parts are gone, by the names in its place."""
    names = place.names()
    if gone := [part.name for part in (*corpus.parts, corpus.heldout) if part.name not in names]:
        message = f"{place.address} lacks {several(len(gone), 'part')}: {listed(gone)}"
        raise MissingInputError(message, corpus.plan.remedy(place.address, gone))


def anchor_at(shares: tuple[Share, ...]) -> tuple[Share, ...]:
    """Shares whose prepared text is named from the root where it is on this machine."""

    def named(share: Share) -> Share:
        corpus = share.corpus
        if not isinstance(corpus, Prepared) or not (folder := FolderAt(corpus.path).folder):
            return share
        path = {"path": os.path.normpath(working_folder() / folder)}
        return share.model_copy(update={"corpus": corpus.model_copy(update=path)})

    return tuple(map(named, shares))


def tokenizer_at(address: str, cache: Path) -> Path:
    """The folder of the tokenizer that text is prepared with, copied here from a store."""
    place = FolderAt(address)
    corpus = read_corpus(place)
    if place.folder:
        return place.folder / _there(place, plans.TOKENIZER).name
    folder = cache / "tokenizers" / store.fingerprint(address, corpus.plan.fingerprint)
    part = partial(_there, place, plans.TOKENIZER)
    store.obtain(folder, lambda to: copy_part(place, part(), to), store.Silent())
    return folder


def _there(place: FolderAt, name: str, sha256: str = "") -> PreparedPart:
    """A part that is whole, of that digest if it is known."""
    part = part_at(place, name)
    if part is None or sha256 not in ("", part.sha256):
        help = f"bertc prepare with its spec and --to {place.address} makes it again"
        raise DataError(f"{place.address}/{name} is damaged, gone or of another text", help)
    return part


def copy_part(place: FolderAt, part: PreparedPart, folder: Path) -> store.Facts:
    """Copy the files of a part but its manifest, all of one state; return its facts."""
    raw = place.read(
        f"{part.name}/{store.MANIFEST_FILE}",
        plans.LARGEST_FILE_BYTES,
        lambda raw: hashlib.sha256(raw).hexdigest() == part.sha256,
    )
    manifest = store.unseal(raw.decode()) if raw else None
    if manifest is None:
        help = f"bertc prepare --to {place.address} --finish writes its manifest again"
        raise DataError(f"{place.address}/{part.name} is gone or was made anew", help)
    for name, (_, digest) in manifest["files"].items():
        try:
            place.get(f"{part.name}/{name}", folder / name, digest)
        except MissingInputError as error:
            if WRONG in error.message and (plan := read_plan(place)):
                error.help = plan.remedy(place.address, [part.name])
            raise
    return dict(manifest["facts"])
