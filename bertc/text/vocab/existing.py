"""Existing vocabularies, from a tokenizer's files or the folder of a run or model."""

from itertools import zip_longest
from pathlib import Path

from tokenizers import Tokenizer

from bertc.base.diagnostics import DataError
from bertc.base.storage.foreign import as_data_error
from bertc.base.storage.paths import is_file, user_path
from bertc.base.storage.plain_file import read_bytes
from bertc.ir.vocabulary import TokenizerFile
from bertc.text.tokenizers.by_transformers import ANOTHER, LARGEST_FILE_BYTES, SENTENCEPIECE_FILES
from bertc.text.tokenizers.reading import read_tokenizer, tokenizer_folder
from bertc.text.vocab.vocabulary import Vocabulary, from_tokenizer


def differing_token(
    theirs: Vocabulary, ours: Vocabulary
) -> tuple[int, str | None, str | None] | None:
    """The first number that is another token in each, and these; None for no token."""
    pairs = ([read.token(i) for i in range(read.size)] for read in (theirs, ours))
    for number, (first, second) in enumerate(zip_longest(*pairs)):
        if first != second:
            return number, first, second
    return None


def vocabulary_of(run: Path, rows: int) -> Vocabulary:
    """The vocabulary of a run or model folder whose token table has ``rows`` rows."""
    return load_vocabulary(TokenizerFile(path=str(tokenizer_folder(run))), rows)


def load_vocabulary(node: TokenizerFile, rows: int = 0) -> Vocabulary:
    """Read a tokenizer's files; ``rows`` is the size of the token table, 0 if unknown."""
    read = read_tokenizer(user_path(node.path), node.lower)
    with as_data_error(f"{read.file}: not a tokenizer.json", ANOTHER):
        tokenizer = Tokenizer.from_str(read.written)
    models = [path for name in SENTENCEPIECE_FILES if is_file(path := read.file.with_name(name))]
    files = {path.name: read_bytes(path, LARGEST_FILE_BYTES) for path in models}
    vocabulary = from_tokenizer(
        tokenizer, str(read.file), read.named, read.passed_on, extra_files=files
    )
    if rows and vocabulary.size > rows:
        raise DataError(
            f"{read.file} has {vocabulary.size:,} tokens, the model only {rows:,}: token "
            f"{vocabulary.token(rows)!r} has no row",
            "leave the size of the vocabulary out, so that it is read from the file; of a model "
            "folder take all files from one source",
        )
    return vocabulary
