"""Checks of what a run begins with: layers of another network or the teacher, word vectors."""

from typing import assert_never

from bertc.base.diagnostics import DataError, Diagnostic, Diagnostics, MissingInputError
from bertc.base.storage.paths import is_file, user_path
from bertc.base.storage.plain_file import no_file
from bertc.check.passes.settings import Checker, set_values
from bertc.ir.changing.growth import TEACHER, FromLayers, FromOther, FromVectors, Mean, vector_file
from bertc.ir.fixes import call_text, fix, note
from bertc.ir.learning.objective import NoTeacher
from bertc.ir.network.table import AdaptiveTable
from bertc.ir.program import Complete, Given
from bertc.ir.vocabulary import Extended, TokenizerFile, Trimmed


def begins(program: Complete, diagnostics: Diagnostics) -> None:
    """Report layers of another network that cannot be those of the first stage.

    ``layers=3 init=layers("bert", [0, 1])`` is E268: two layers do not make three.
    """
    init, first = program.init, program.stages[0]
    check = Checker(first, diagnostics)
    if not isinstance(init, FromOther):
        return
    if not init.same_tokens and isinstance(first.table, AdaptiveTable):
        message = "rows of a table in clusters cannot be carried to other tokens"
        also = ("table", f"table = {first.table.kind}(...)")
        check.report("E413", message, "vocab", also=also, help="leave vocab out: init has its own")
    named = ('"runs/bert"', "first") if isinstance(init, FromLayers) else ('"runs/bert"',)
    if init.path == TEACHER and isinstance(first.teacher[0].source, NoTeacher):
        message = f"init takes {init.kind} of the teacher, and there is none"
        help = f"name a run or a model folder, as in init={call_text(init.kind, *named)}"
        check.report("E267", message, "init", help=help)
    elif isinstance(init, FromLayers) and (problem := init.misfit(init.depth, first.layers)):
        fitting = init.instead(init.depth, first.layers)
        path = TEACHER if init.path == TEACHER else f'"{init.path}"'
        as_deep = f"init={call_text('layers', path, fitting)}"
        also = ("layers", f"layers = {first.layers}")
        help = as_deep if fitting else f"layers={init.depth or len(init.layers)}"
        check.report("E268", problem, "init", also=also, help=help)


def vectors(program: Complete, diagnostics: Diagnostics) -> None:
    """Report word vectors that are no vectors, or of another width than the token table."""
    init, span = program.init, program.span("init")
    name = vector_file(init)
    if not name or not is_file(user_path(name)):
        return
    # It loads numpy, which no other spec needs here.
    from bertc.text.vocab.token_rows import vectors_width

    try:
        width = vectors_width(name)
    except DataError as error:
        diagnostics.error("E401", error.message, span, help=error.help)
        return
    if isinstance(init, FromVectors) and width != program.embedding:
        message = (
            f"{init.path} has {width:,} numbers for a word, and the token table "
            f"{program.embedding:,}"
        )
        notes = note("embedding is set here", program.span("embedding"))
        diagnostics.error("E400", message, span, notes=notes, help=f"embedding={width}")


def changed_tokens(
    program: Complete, vocab: Extended | Trimmed, original: TokenizerFile, diagnostics: Diagnostics
) -> Complete:
    """Fill in the size of a vocabulary that is made from ``theirs``, and how init's rows follow.

    ``vocab=extend(init, 2k)`` of BERT's 30,522 tokens, of which 994 are unused, has 31,528.
    """
    from bertc.text.vocab.changed import staying, unused  # numpy, which no other spec needs here
    from bertc.text.vocabularies import base_of

    origin, init = program.origins["vocab"], program.init
    vocab = vocab.model_copy(update={"path": original.path})
    base = base_of(vocab)
    match vocab:
        case Extended():
            words = _words(program, vocab, diagnostics)
            size = max(original.size, base.size + max(0, words - len(unused(base))))
        case Trimmed(tokens=0):
            size = base.size
        case Trimmed(tokens=size):
            least = staying(base)
            if not least <= size <= base.size:
                fitting = f"trim(init, {base.size})" if size > base.size else "trim(init)"
                diagnostics.error(
                    "E412",
                    f"of {base.size:,} tokens {size:,} cannot stay",
                    origin.parts.get(("tokens",), origin.span),
                    label=f"special tokens and bytes are {least:,} of them",
                    help=f"vocab={fitting}",
                    fix=None if vocab.multiple > 1 else fix(origin, f"vocab={fitting}"),
                )
        case unreachable:
            assert_never(unreachable)
    settings = {"vocab": Given(vocab.model_copy(update={"size": size}), origin)}
    if isinstance(init, FromOther) and init.same_tokens:
        carried = init.model_copy(update={"embeddings": Mean()})
        settings["init"] = Given(carried, program.origins["init"])
    return set_values(program, settings)


def _words(program: Complete, vocab: Extended, diagnostics: Diagnostics) -> int:
    """The number of words to add; those of a file that are tokens already do not count."""
    from bertc.text.vocabularies import words_of

    if isinstance(vocab.words, int):
        return vocab.words
    origin = program.origins["vocab"]
    place = origin.parts.get(("words",), origin.span)
    try:
        if missing := no_file(vocab.words):
            raise MissingInputError(*missing)
        words, known = words_of(vocab)
    except (DataError, MissingInputError) as error:
        diagnostics.error("E411", error.message, place, help=error.help)
        return 0
    if known:
        message = f"{len(words):,} words of {vocab.words} are added; tokens already: {known:,}"
        diagnostics.remark(Diagnostic("R123", message, place))
    return len(words)
