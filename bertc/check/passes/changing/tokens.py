"""Vocabularies made from that of ``init``: their sizes, and what cannot be made."""

from typing import assert_never

from bertc.base.diagnostics import DataError, Diagnostic, Diagnostics, MissingInputError
from bertc.base.storage.plain_file import no_file
from bertc.check.passes.settings.stages import with_derived
from bertc.ir.changing.growth import FromOther, Mean
from bertc.ir.fixes import fix
from bertc.ir.program.complete import Complete
from bertc.ir.program.written import Given
from bertc.ir.vocabulary import Extended, TokenizerFile, Trimmed


def changed_tokens(
    program: Complete, vocab: Extended | Trimmed, theirs: TokenizerFile, diagnostics: Diagnostics
) -> Complete:
    """Fill in the size of a vocabulary that is made from ``theirs``, and how init's rows follow.

    ``vocab=extend(init, 2k)`` of BERT's 30,522 tokens, of which 994 are unused, has 31,528.
    """
    from bertc.text.vocab.changed import staying, unused  # numpy, which no other spec needs here
    from bertc.text.vocabularies import base_of

    origin, init = program.origins["vocab"], program.init
    vocab = vocab.model_copy(update={"path": theirs.path})
    base = base_of(vocab)
    match vocab:
        case Extended():
            words = _words(program, vocab, diagnostics)
            size = max(theirs.size, base.size + max(0, words - len(unused(base))))
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
    return with_derived(program, settings)


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
