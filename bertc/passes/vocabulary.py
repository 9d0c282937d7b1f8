"""Size of an existing vocabulary, read from its files."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bertc.diagnostics import BertcError, DataError, Diagnostics, MissingInputError, Span
from bertc.ir.changing.growth import TEACHER, FromOther, FromTokens
from bertc.ir.program.teacher import FromSpec
from bertc.ir.program.written import Given, OriginKind, Program
from bertc.ir.vocabulary import TokenizerFile
from bertc.storage.paths import check_path, is_folder, user_path
from bertc.storage.plain_file import read_bytes, read_text
from bertc.tokenizer_files.classes import FILE_NAMES, LARGEST_FILE_BYTES
from bertc.tokenizer_files.facts import TokenizerFacts, read_facts
from bertc.tokenizer_files.sentencepiece import (
    UNIGRAM_MODEL,
    SentencePieceModel,
    read_sentencepiece,
)
from bertc.tokenizer_files.special_words import read_object

WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode's White_Space."""
EARLIER_FIRST: tuple[OriginKind, ...] = ("default", "derived", "extends", "written", "set")


def vocabulary(program: Program, diagnostics: Diagnostics) -> Program:
    """Read the unset size of ``vocab=tokenizer("...")`` from its files.

    ``vocab="bert/vocab.txt"`` becomes ``vocab=tokenizer("bert/vocab.txt", size=30522)``; a run
    stands for the tokenizer in it. A run with ``init`` uses that vocabulary unless another is
    written, one with a teacher that of the teacher. ``extends modernbert-base  init="runs/mine"``
    learns none either.
    """
    given, init = program.settings["vocab"], program.settings["init"]
    begins = isinstance(init.value, FromOther | FromTokens) and init.value.path != TEACHER
    if given.origin.kind == "default" and not begins:
        taught = (stage.settings.get("teacher") for stage in program.stages)
        teachers = (program.settings["teacher"], *(each for each in taught if each))
        given = next(filter(None, map(_of_teacher, teachers)), given)
        program = program.with_settings({"vocab": given})
    if begins and _gives_way(given, init):
        if not is_folder(init.value.path):
            nowhere_to_begin(init.value, init.origin.span, diagnostics)
            return program
        origin = replace(init.origin, kind="derived", source="the vocabulary of init")
        try:
            given = Given(vocabulary_of_init(Path(init.value.path)), origin)
        except DataError as error:
            return _unreadable(program, error, init, diagnostics)
        program = program.with_settings({"vocab": given})
    if not isinstance(given.value, TokenizerFile):
        return program
    folder = tokenizer_folder(user_path(given.value.path))
    if folder != user_path(given.value.path):
        value = given.value.model_copy(update={"path": str(folder)})
        given = Given(value, given.origin)
        program = program.with_settings({"vocab": given})
    if given.value.size:
        return program
    try:
        size = vocabulary_size(read_facts(user_path(given.value.path)))
    except (DataError, MissingInputError) as error:
        return _unreadable(program, error, given, diagnostics)
    value = given.value.model_copy(update={"size": size})
    return program.with_settings({"vocab": Given(value, given.origin)})


def _gives_way(vocab: Given, init: Given) -> bool:
    """True for a default, and for one to learn of the spec that ``init`` extends or is set on."""
    earlier, later = (EARLIER_FIRST.index(given.origin.kind) for given in (vocab, init))
    learned = not isinstance(vocab.value, TokenizerFile)
    return vocab.origin.kind == "default" or (learned and earlier < later)


def _of_teacher(given: Given) -> Given | None:
    """The vocabulary of the first teacher of whom more than the name is known."""
    origin = replace(given.origin, kind="derived", source="the vocabulary of the teacher")
    for teacher in given.value:
        if teacher.shape is None:
            continue
        if isinstance(teacher.source, FromSpec):
            return Given(teacher.shape.vocabulary, origin)
        with suppress(DataError):  # told where its weights are read
            return Given(vocabulary_of_init(Path(teacher.source.path)), origin)
    return None


def _unreadable(
    program: Program, error: BertcError, given: Given, diagnostics: Diagnostics
) -> Program:
    diagnostics.error(
        "E212",
        f"the vocabulary cannot be read: {error.message}",
        given.origin.span,
        help=error.help or f"name one of {', '.join(FILE_NAMES)}, or a folder with one",
    )
    return program


def nowhere_to_begin(
    init: FromOther | FromTokens, span: Span | None, diagnostics: Diagnostics
) -> None:
    """Report an ``init`` that is no folder."""
    message = f"init: there is no run or model folder {init.path}"
    diagnostics.error("E265", message, span, help=check_path(init.path))


def tokenizer_folder(run: Path) -> Path:
    """A run keeps its tokenizer in a folder of its own, a model folder beside its weights."""
    return run / "tokenizer" if is_folder(run / "tokenizer") else run


def vocabulary_of_init(run: Path) -> TokenizerFile:
    """The vocabulary of a run or a model folder, of as many tokens as its table has rows.

    A folder without one is reported where it is needed.

    Raises:
        DataError: it is of a class that bertc does not read, or its files are damaged.
    """
    folder = tokenizer_folder(run)
    program = read_object(run / "resolved.json").get("vocabulary")
    config = read_object(run / "config.json").get("vocab_size")
    size = (isinstance(program, dict) and program.get("size")) or config or 0
    lower = True
    with suppress(MissingInputError):
        lower = read_facts(folder).lower
    return TokenizerFile(path=str(folder), lower=lower, size=size)


def vocabulary_size(facts: TokenizerFacts) -> int:
    """The number of token ids, those of added tokens too.

    Raises:
        MissingInputError, DataError: if the file is no vocabulary.
    """
    known = dict(_tokens(facts.file))
    added = (*facts.added.values(), *facts.named.values(), *(facts.extra or ()))
    new = {word.content for word in added} - known.keys()
    return 1 + max(known.values(), default=-1) + len(new)


def _tokens(file: Path) -> Iterable[tuple[str, int]]:
    """The tokens of a vocabulary file itself, each with its id."""
    match file.suffix:
        case ".txt":
            return word_list(file).items()
        case ".json":
            return _json_tokens(file)
        case ".model":
            pieces = sentencepiece_model(file).pieces
            return ((piece, number) for number, (piece, _) in enumerate(pieces))
    raise DataError(
        f"{file}: a {file.suffix or 'file without ending'} is no vocabulary",
        f"bertc reads {', '.join(FILE_NAMES)}",
    )


def _json_tokens(file: Path) -> Iterable[tuple[str, int]]:
    content = read_object(file)
    try:
        pieces = content if file.name == "vocab.json" else content["model"]["vocab"]
        tokens = (
            [(str(piece), number) for number, (piece, _) in enumerate(pieces)]
            if isinstance(pieces, list)
            else [(token, int(number)) for token, number in pieces.items()]
        )
        if file.name == "vocab.json":
            return tokens
        return [*tokens, *((t["content"], int(t["id"])) for t in content.get("added_tokens") or ())]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError(f"{file}: it has no model.vocab") from None


def word_list(file: Path) -> dict[str, int]:
    """The tokens of a vocab.txt, a line each: lines end with a line feed and nothing else.

    White space at the end of a line is no part of its token, as the tokenizers library has it.

    Raises:
        MissingInputError: if the file cannot be read.
        DataError: if it is no list of tokens.
    """
    lines = read_text(file, LARGEST_FILE_BYTES).split("\n")
    tokens = [line.rstrip(WHITE_SPACE) for line in lines]
    while tokens and not tokens[-1]:
        tokens.pop()
    ids = {token: number for number, token in enumerate(tokens)}
    if repeated := len([token for token in tokens if token]) - len(ids.keys() - {""}):
        raise DataError(
            f"{file}: {repeated} tokens stand twice or more", "copy it again from its source"
        )
    return ids


def sentencepiece_model(file: Path) -> SentencePieceModel:
    """The unigram model of a spiece.model.

    Raises:
        MissingInputError: if the file cannot be read.
        DataError: if it is none.
    """
    try:
        model = read_sentencepiece(read_bytes(file, LARGEST_FILE_BYTES))
    except ValueError:
        raise DataError(f"{file}: not a SentencePiece model") from None
    if model.kind != UNIGRAM_MODEL or not model.pieces:
        raise DataError(
            f"{file}: not a unigram model", "bertc reads unigram models of SentencePiece"
        )
    return model
