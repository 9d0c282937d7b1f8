"""Held-out text and changes of tokenised text: documents that go, what it then holds."""

import contextlib
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertc.base.diagnostics import DataError
from bertc.text.cache.store import Facts
from bertc.text.rows.tokens import SPLITS, TOKEN_FILES, DType, Tokens, mapped, open_tokens

MAX_LAST_DOCUMENT_FRACTION = 0.1
"""The last document is held out whole up to this fraction of all tokens."""
COUNTED_TOKENS = 1 << 19
COUNTS = ("tokens", "sentences", "documents")
MAX_HELD_OUT_BYTES = 64 << 20
"""Token ids that are held out of many parts together; the first ones give them."""
PER_TOKEN = "words"
"""Words, as white space separates them, for each token of a text; 0 of ids without text."""
Rewriting = Callable[[Path, DType], int]
"""A change of the files in a folder, which returns the number of copies that it removes."""


def rewrite(folder: Path, facts: Facts, dtype: DType, change: Rewriting) -> dict[str, Any]:
    """Change the files of a part; return its facts, counted again."""
    copies = change(folder, dtype)
    before = np.fromfile(folder / "train.counts", np.int64)
    write_counts(folder, dtype, len(before), before == 0)  # special tokens
    removed = dict(facts.get("removed", {}))
    if copies:
        removed["unique"] = removed.get("unique", 0) + copies
    facts = {**facts, "removed": removed} if removed else facts
    return {**facts, **split_facts(folder, dtype)}


def write_counts(folder: Path, dtype: DType, size: int, uncounted: Any) -> None:
    """Write counts (v,) of each token of the training text, 0 of those ``uncounted``."""
    counts, ids = np.zeros(size, dtype=np.int64), open_tokens(folder, "train", dtype).ids
    for start in range(0, len(ids), COUNTED_TOKENS):
        counts += np.bincount(ids[start : start + COUNTED_TOKENS], minlength=size)
    counts[uncounted] = 0
    (folder / "train.counts").write_bytes(counts.tobytes())


def split_facts(folder: Path, dtype: DType) -> dict[str, dict[str, int]]:
    """Counts of tokens, sentences and documents of both parts of a text."""
    facts = {}
    for part in SPLITS:
        tokens = open_tokens(folder, part, dtype)
        sentences, documents = len(tokens.sentences) - 1, len(tokens.documents) - 1
        facts[part] = dict(zip(COUNTS, (tokens.count, sentences, documents), strict=True))
    return facts


def together(name: str, content: str, parts: Sequence[Facts]) -> dict[str, Any]:
    """The facts of a text from those of its parts."""
    facts: dict[str, Any] = {"name": name, "content": content}
    removed = Counter[str]()
    for part in parts:
        removed.update(part.get("removed", {}))
    if removed:
        facts["removed"] = dict(sorted(removed.items()))
    for split in SPLITS:
        facts[split] = {count: sum(part[split][count] for part in parts) for count in COUNTS}
    tokens = [sum(part[split]["tokens"] for split in SPLITS) for part in parts]
    counted = zip(parts, tokens, strict=True)
    if words := [part[PER_TOKEN] * count for part, count in counted if PER_TOKEN in part]:
        facts[PER_TOKEN] = sum(words) / sum(tokens)
    return facts


def without(folder: Path, dtype: DType, gone: NDArray[np.uint64]) -> int:
    """Take the documents with these keys out of both parts of a text; return their number."""
    removed = 0
    for part in SPLITS:
        keys = mapped(folder / f"{part}.hashes", np.uint64)
        stays = ~np.isin(keys, gone)
        if stays.all():
            continue
        removed += len(keys) - int(stays.sum())
        tokens = open_tokens(folder, part, dtype)
        in_document, in_sentence = np.diff(tokens.documents), np.diff(tokens.sentences)
        sentences = np.repeat(stays, in_document)
        for name, values in (
            ("ids", tokens.ids[np.repeat(sentences, in_sentence)]),
            ("sentences", np.append(0, np.cumsum(in_sentence[sentences]))),
            ("documents", np.append(0, np.cumsum(in_document[stays]))),
            ("hashes", keys[stays]),
        ):
            (folder / "aside").write_bytes(values.tobytes())  # the old file is mapped
            (folder / "aside").rename(folder / f"{part}.{name}")
    return removed


def holds_out(parts: Sequence[Facts]) -> int:
    """The last of the parts with two sentences, whose end is held out if no document is."""
    for number in reversed(range(len(parts))):
        if parts[number]["train"]["sentences"] > 1:
            return number
    raise too_little(str(parts[0]["name"]), "fewer than two sentences")


def too_little(name: str, content: str) -> DataError:
    """An error about text that cannot be in both parts."""
    return DataError(
        f"{name} holds {content}",
        "one is needed to train on and one to evaluate on; they end with . ! or ?, with "
        "sentences=lines wherever a line does; of FASTA each record is one: cut a long one in two",
    )


def hold_out_end(
    folder: Path, dtype: DType, separator: int, holdout: float, paired: bool = False
) -> int:
    """Hold out the last document, or the last sentences of a long one; none is removed."""
    if not len(open_tokens(folder, "train", dtype).ids):
        for name in TOKEN_FILES:
            spare = folder / f"spare.{name}"
            (folder / f"train.{name}").rename(spare)
            (folder / f"heldout.{name}").rename(folder / f"train.{name}")
            spare.rename(folder / f"heldout.{name}")
    if len(open_tokens(folder, "heldout", dtype).ids):
        return 0
    train = open_tokens(folder, "train", dtype)
    cut = int(train.documents[-2]) if paired else _cut(train, holdout)
    end = int(train.sentences[cut])
    inside_document = cut not in train.documents
    before = train.documents[train.documents < cut]
    after = train.documents[train.documents > cut]
    for name, values in (
        ("heldout.ids", train.ids[end:]),
        ("heldout.sentences", train.sentences[cut:] - end),
        ("heldout.documents", np.append(0, after - cut)),
        ("train.sentences", np.append(train.sentences[:cut], end + inside_document)),
        ("train.documents", np.append(before, cut)),
    ):
        (folder / name).write_bytes(values.tobytes())
    with (folder / "train.ids").open("r+b") as ids:
        ids.seek(end * np.dtype(dtype).itemsize)
        if inside_document:
            ids.write(dtype(separator).tobytes())
        ids.truncate(ids.tell())
    return 0


def _cut(train: Tokens, holdout: float) -> int:
    last = int(train.documents[-2])
    total, begins = len(train.ids), int(train.sentences[last])
    if last and total - begins <= MAX_LAST_DOCUMENT_FRACTION * total:
        return last
    sentences = len(train.sentences) - 1
    first_held_out = int(np.searchsorted(train.sentences, total * (1 - holdout)))
    return min(max(first_held_out, last + 1 if last + 1 < sentences else last, 1), sentences - 1)


def part_of_document(text: bytes, holdout: float) -> str:
    """The part of a document, by the hash of the first piece of its text."""
    digest = hashlib.blake2b(text, digest_size=8, person=b"holdout").digest()
    return "heldout" if int.from_bytes(digest, "little") < holdout * 2**64 else "train"


def held_out_remark(facts: Mapping[str, Any], holdout: float) -> str:
    """A line about a text of which far less is held out than its share; empty of another."""
    part = facts["heldout"]["tokens"]
    total = part + facts["train"]["tokens"]
    remark = (
        f"{part:,} of {total:,} tokens are held out, far below holdout={holdout:g}, and losses on "
        "them say little: documents are held out whole, by their hash; a larger holdout picks more"
    )
    return remark if 0 < part < holdout * total / 10 else ""


def join_held_out(folder: Path, parts: Iterable[Tokens]) -> dict[str, int]:
    """Write the held-out text of parts as one, from the first parts on; return its tokens."""
    tokens = sentences = size = count = 0
    with contextlib.ExitStack() as stack:
        paths = {name: folder / f"heldout.{name}" for name in TOKEN_FILES}
        files = {name: stack.enter_context(path.open("wb")) for name, path in paths.items()}
        for part in parts:
            files["ids"].write(part.ids.tobytes())
            # The last entry is an end, with which the next part begins.
            files["sentences"].write((part.sentences[:-1] + tokens).tobytes())
            files["documents"].write((part.documents[:-1] + sentences).tobytes())
            tokens, sentences = tokens + len(part.ids), sentences + len(part.sentences) - 1
            size, count = size + part.ids.nbytes, count + part.count
            if size >= MAX_HELD_OUT_BYTES:
                break
        files["sentences"].write(np.array([tokens], np.int64).tobytes())
        files["documents"].write(np.array([sentences], np.int64).tobytes())
    return {"tokens": count}
