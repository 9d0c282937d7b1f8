"""Size of an existing vocabulary, read from its files."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bertc.diagnostics import (
    BertcError,
    DataError,
    Diagnostics,
    MissingInputError,
    Span,
    UnsafeError,
)
from bertc.ir.changing.growth import TEACHER, FromOther, FromTokens
from bertc.ir.program.teacher import FromSpec
from bertc.ir.program.written import Given, OriginKind, Program
from bertc.ir.vocabulary import TokenizerFile
from bertc.storage.paths import check_path, is_folder, user_path
from bertc.tokenizer_files.by_transformers import FILE_NAMES
from bertc.tokenizer_files.reading import (
    read_tokenizer,
    settings_in,
    tokenizer_folder,
    vocabulary_size,
)

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
        except (DataError, UnsafeError) as error:
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
        read = read_tokenizer(user_path(given.value.path), given.value.lower)
        size = vocabulary_size(read)
    except (DataError, MissingInputError, UnsafeError) as error:
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
        with suppress(DataError, UnsafeError):  # told where its weights are read
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


def vocabulary_of_init(run: Path) -> TokenizerFile:
    """The vocabulary of a run or a model folder, of as many tokens as its table has rows.

    A folder without one is reported where it is needed.

    Raises:
        DataError: it is of a class that bertc does not read, or its files are damaged.
    """
    folder = tokenizer_folder(run)
    program = settings_in(run / "resolved.json").get("vocabulary")
    config = settings_in(run / "config.json").get("vocab_size")
    size = (isinstance(program, dict) and program.get("size")) or config or 0
    lower = True
    with suppress(MissingInputError):
        lower = read_tokenizer(folder).lower
    return TokenizerFile(path=str(folder), lower=lower, size=size)
