"""Repair of an empty split: the training and held-out parts both get text."""

from pathlib import Path

import numpy as np

from bertc.data.rows.tokens import TOKEN_FILES, DType, Tokens, open_tokens

MAX_LAST_DOCUMENT_FRACTION = 0.1
"""The last document is held out whole up to this fraction of all tokens."""


def ensure_both_parts(
    folder: Path, dtype: DType, separator: int, holdout: float, paired: bool = False
) -> None:
    """Hold out the last document, or the last sentences of a long one, if nothing is."""
    if not len(open_tokens(folder, "train", dtype).ids):
        for name in TOKEN_FILES:
            spare = folder / f"spare.{name}"
            (folder / f"train.{name}").rename(spare)
            (folder / f"heldout.{name}").rename(folder / f"train.{name}")
            spare.rename(folder / f"heldout.{name}")
    if len(open_tokens(folder, "heldout", dtype).ids):
        return
    train = open_tokens(folder, "train", dtype)
    cut = int(train.documents[-2]) if paired else _cut(train, holdout)
    at = int(train.sentences[cut])
    inside_document = cut not in train.documents
    documents = train.documents[train.documents < cut]
    (folder / "heldout.ids").write_bytes(train.ids[at:].tobytes())
    (folder / "heldout.sentences").write_bytes((train.sentences[cut:] - at).tobytes())
    later = train.documents[train.documents > cut] - cut
    (folder / "heldout.documents").write_bytes(np.concatenate(([0], later)).tobytes())
    starts = np.append(train.sentences[:cut], at + inside_document)
    (folder / "train.sentences").write_bytes(starts.tobytes())
    (folder / "train.documents").write_bytes(np.append(documents, cut).tobytes())
    with (folder / "train.ids").open("r+b") as ids:
        ids.seek(at * np.dtype(dtype).itemsize)
        if inside_document:
            ids.write(dtype(separator).tobytes())
        ids.truncate(ids.tell())


def _cut(train: Tokens, holdout: float) -> int:
    last = int(train.documents[-2])
    total, begins = len(train.ids), int(train.sentences[last])
    if last and total - begins <= MAX_LAST_DOCUMENT_FRACTION * total:
        return last
    sentences = len(train.sentences) - 1
    first_held_out = int(np.searchsorted(train.sentences, total * (1 - holdout)))
    return min(max(first_held_out, last + 1 if last + 1 < sentences else last, 1), sentences - 1)
