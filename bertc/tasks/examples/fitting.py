"""Token ids of texts, cut so that they fit in a row."""

from collections.abc import Iterator, Sequence

from tokenizers import Encoding

from bertc.base.storage.foreign import as_data_error
from bertc.tasks.examples.task_rows import RowBuilder
from bertc.text.rows.pairs import overhang
from bertc.text.vocab.vocabulary import FAILS, Vocabulary

TEXTS_AT_ONCE = 4096
"""Texts in a batch of the tokenizer."""


def fitted(
    first: list[int], second: list[int] | None, rows: RowBuilder
) -> tuple[list[int], list[int] | None]:
    """Truncate a text, or a pair token by token from the longer text (BERT), to fit in a row."""
    if second is None:
        return cut(first, rows.max_tokens(1), rows), None
    a, b = len(first), len(second)
    from_a, from_b = overhang(a, b, rows.max_tokens(2))
    return cut(first, a - from_a, rows), cut(second, b - from_b, rows)


def cut(ids: list[int], count: int, rows: RowBuilder) -> list[int]:
    """The first ``count`` tokens, or the last where the tokenizer truncates on the left."""
    count = min(len(ids), max(0, count))
    at_end = rows.vocabulary.passed_on.get("truncation_side") == "left"
    return ids[len(ids) - count :] if at_end else ids[:count]


def encodings_of(
    vocabulary: Vocabulary, texts: Sequence[str | list[str]], **how: bool
) -> Iterator[Encoding]:
    """The encodings of texts without special tokens; ``is_pretokenized``: of lists of words."""
    for at in range(0, len(texts), TEXTS_AT_ONCE):
        with as_data_error(*FAILS):
            encodings = vocabulary.tokenizer.encode_batch(
                texts[at : at + TEXTS_AT_ONCE], add_special_tokens=False, **how
            )
        yield from encodings


def ids_of(vocabulary: Vocabulary, texts: Sequence[str]) -> list[list[int]]:
    """The token ids of texts, without special ones; equal texts are encoded once."""
    unique = list(dict.fromkeys(texts))
    ids_by_text: dict[str, list[int]] = {}
    for at in range(0, len(unique), TEXTS_AT_ONCE):
        part = unique[at : at + TEXTS_AT_ONCE]
        with as_data_error(*FAILS):
            encodings = vocabulary.tokenizer.encode_batch_fast(part, add_special_tokens=False)
        ids_by_text.update(zip(part, (encoding.ids for encoding in encodings), strict=True))
    return [ids_by_text[text] for text in texts]
