"""Existing vocabularies, from a tokenizer's files or the folder of a run or model."""

from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from bertc.data.vocab.made import make_tokenizer
from bertc.data.vocab.vocabulary import Vocabulary, from_tokenizer, put_around
from bertc.diagnostics import DataError
from bertc.ir.vocabulary import TokenizerFile
from bertc.passes.vocabulary import tokenizer_folder
from bertc.storage.paths import is_file, user_path
from bertc.storage.plain_file import read_bytes
from bertc.tokenizer_files.classes import LARGEST_FILE_BYTES
from bertc.tokenizer_files.facts import read_facts


def differing_token(
    theirs: Vocabulary, ours: Vocabulary
) -> tuple[int, str | None, str | None] | None:
    """The first number that is another token in each, and these; None stands for no token."""
    pairs = ([read.token(i) for i in range(read.size)] for read in (theirs, ours))
    differing = (
        (number, first, second)
        for number, (first, second) in enumerate(zip_longest(*pairs))
        if first != second
    )
    return next(differing, None)


def vocabulary_of(run: Path, rows: int) -> Vocabulary:
    """The vocabulary of a run or model folder whose token table has ``rows`` rows.

    Raises:
        MissingInputError, DataError: as ``load_vocabulary``.
    """
    return load_vocabulary(TokenizerFile(path=str(tokenizer_folder(run))), rows)


def load_vocabulary(node: TokenizerFile, rows: int = 0) -> Vocabulary:
    """Read a tokenizer's files; ``rows`` is the size of the token table, 0 if unknown.

    Raises:
        MissingInputError: they are not there.
        DataError: they cannot be read as their class reads them; a token has no row in the table.
    """
    facts = read_facts(user_path(node.path))
    if not node.lower and "do_lower_case" in facts.options:
        facts = replace(facts, options={**facts.options, "do_lower_case": False})
    tokenizer = make_tokenizer(facts)
    named = {role: word.content for role, word in facts.named.items()}
    spiece = facts.file.with_name("spiece.model")
    files = {spiece.name: read_bytes(spiece, LARGEST_FILE_BYTES)} if is_file(spiece) else {}
    vocabulary = from_tokenizer(
        tokenizer, str(facts.file), named, facts.passed_on, extra_files=files
    )
    if rows and vocabulary.size > rows:
        raise DataError(
            f"{facts.file} has {vocabulary.size:,} tokens, the model only {rows:,}: token "
            f"{vocabulary.token(rows)!r} has no row",
            "leave the size of the vocabulary out, so that it is read from the file; of a model "
            "folder take all files from one source",
        )
    if tokenizer.post_processor is None:  # a tokenizer.json without a template
        put_around(tokenizer, vocabulary.cls, vocabulary.sep)
    return vocabulary
