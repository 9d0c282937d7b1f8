"""Files of words and their tags in columns, known by their content."""

import re
from pathlib import Path

from bertc.base.storage import plain_file
from bertc.base.storage.paths import FORMATS, PACKED, suffix

SAMPLE_BYTES = 1 << 16
"""Bytes at the beginning of a file that are looked at."""
FEWEST_WORDS = 4
"""Lines with a word that a file needs to be recognised."""

_SPAN_TAG = re.compile(r"O|[BIESLU]-\S+")
"""Tags of spans: IOB, BIO, BIOES and BILOU."""


def has_tagged_words(path: Path) -> bool:
    """True if every line of the file's beginning is empty, or a word with its tags.

    Columns are parted by tabs, in CoNLL-U with comments between; or by spaces, if the last one has
    tags of spans. Compressed files and tables with another ending are not looked at.
    """
    if path.suffix in PACKED or suffix(path) in FORMATS:
        return False
    with plain_file.opened(path) as file:
        sample = file.read(SAMPLE_BYTES)
    if len(sample) == SAMPLE_BYTES:
        sample = sample.rpartition(b"\n")[0]
    lines = sample.decode("utf-8", errors="replace").split("\n")
    rows = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if len(rows) < FEWEST_WORDS or not any(not line.strip() for line in lines[:-1]):
        return False
    tabs = "\t" in rows[0]
    columns = [row.split("\t" if tabs else None) for row in rows]
    width, tags = len(columns[0]), [fields[-1] for fields in columns]
    if width < 2 or any(len(fields) != width for fields in columns):
        return False
    if all(map(_SPAN_TAG.fullmatch, tags)):
        return True
    one_word_each = all(len(field.split()) == 1 for fields in columns for field in fields)
    return tabs and one_word_each and 2 * len(set(tags)) <= len(tags)


def is_tagged_file(path: Path) -> bool:
    """True by the ending of its name, or by what it holds."""
    return suffix(path) in (".conll", ".conllu", ".iob", ".iob2", ".bio") or has_tagged_words(path)
