"""Held-out text: the documents that are, and that of many parts, joined."""

import contextlib
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bertc.text.rows.tokens import TOKEN_FILES, Tokens

MAX_HELD_OUT_BYTES = 64 << 20
"""Token ids that are held out of many parts together; the first ones give them."""


def part_of_document(text: bytes, holdout: float) -> str:
    """The part of a document, by the hash of the first piece of its text."""
    digest = hashlib.blake2b(text, digest_size=8, person=b"holdout").digest()
    return "heldout" if int.from_bytes(digest, "little") < holdout * 2**64 else "train"


def held_out_remark(facts: Mapping[str, Any], holdout: float) -> str:
    """A line about a text of which far less is held out than its share; empty of another."""
    held = facts["heldout"]["tokens"]
    total = held + facts["train"]["tokens"]
    remark = (
        f"{held:,} of {total:,} tokens are held out, far below holdout={holdout:g}, and losses on "
        "them say little: documents are held out whole, by their hash; a larger holdout picks more"
    )
    return remark if 0 < held < holdout * total / 10 else ""


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
