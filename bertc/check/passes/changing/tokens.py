"""Vocabularies made from that of ``init``: their sizes, and what cannot be made."""

from typing import TYPE_CHECKING, assert_never

from bertc.base.diagnostics import DataError, Diagnostic, Diagnostics, MissingInputError, several
from bertc.base.storage.paths import user_path
from bertc.base.storage.plain_file import no_file
from bertc.check.passes.settings.fixes import fix_argument
from bertc.check.passes.settings.stages import settled
from bertc.data.tokenizers.reading import read_tokenizer, vocabulary_size
from bertc.ir.changing.growth import FromOther, Mean
from bertc.ir.data import Prepared
from bertc.ir.program.complete import Complete
from bertc.ir.program.written import Given
from bertc.ir.vocabulary import Extended, TokenizerFile, Trimmed

if TYPE_CHECKING:
    from bertc.data.vocab.vocabulary import Vocabulary


def changed_tokens(
    program: Complete,
    vocab: Extended | Trimmed,
    theirs: TokenizerFile,
    diagnostics: Diagnostics,
) -> Complete:
    """Fill in the size of a vocabulary that is made from ``theirs``, and how init's rows follow.

    ``vocab=extend(init, 2k)`` of BERT's 30,522 tokens, of which 994 are unused, has 31,528.
    """
    from bertc.data.vocabularies import base_of  # numpy, which no other spec needs here

    origin, init = program.origins["vocab"], program.init
    size = theirs.size or vocabulary_size(read_tokenizer(user_path(theirs.path)))
    vocab = vocab.model_copy(update={"path": theirs.path})
    _of_text(program, vocab, diagnostics)
    match vocab:
        case Extended():
            size = max(size, _extended_size(program, vocab, base_of(vocab), diagnostics))
            vocab = vocab.model_copy(update={"size": size})
        case Trimmed(tokens=0):
            vocab = vocab.model_copy(update={"size": size})
            diagnostics.remark(
                Diagnostic(
                    "R122",
                    f"the text decides how many of {size:,} tokens stay: sizes are upper bounds",
                    origin.span,
                    help="trim(init, 16k) keeps as many",
                )
            )
        case Trimmed(tokens=tokens):
            vocab = vocab.model_copy(update={"size": tokens})
            _require_room(program, vocab, base_of(vocab), diagnostics)
        case unreachable:
            assert_never(unreachable)
    settings = {"vocab": Given(vocab, origin)}
    if isinstance(init, FromOther) and init.same_tokens:
        carried = init.model_copy(update={"embeddings": Mean()})
        settings["init"] = Given(carried, program.origins["init"])
    return settled(program, settings)


def _of_text(program: Complete, vocab: Extended | Trimmed, diagnostics: Diagnostics) -> None:
    """Report text that no words can be taken from; remark on text that is not named."""
    origin = program.origins["vocab"]
    if isinstance(vocab, Extended) and isinstance(vocab.words, str):
        return
    for stage in program.stages:
        for prepared in (s.corpus for s in stage.data if isinstance(s.corpus, Prepared)):
            diagnostics.error(
                "E411",
                f"{prepared.path} was prepared with a tokenizer, which cannot be changed any more",
                origin.span,
                label="its text is not there to read",
                help=f"give vocab={vocab.kind}(...) to bertc prepare; a run of its text has "
                f'vocab="{prepared.path}/tokenizer" and init=run(..., embeddings=mean)',
            )
            return
    if all(stage.origins["data"].kind == "default" for stage in program.stages):
        diagnostics.remark(
            Diagnostic(
                "R121",
                "the vocabulary follows the docstrings of all installed packages, as no data is "
                "named",
                origin.span,
                help='name its texts, as in data=files("mine/*.txt")',
            )
        )


def _extended_size(
    program: Complete, vocab: Extended, base: "Vocabulary", diagnostics: Diagnostics
) -> int:
    """The number of tokens with the words that are added, in place of unused ones first."""
    from bertc.data.vocab.changed import unused
    from bertc.data.vocabularies import words_of

    origin, number = program.origins["vocab"], vocab.words
    if isinstance(number, str):
        place = origin.parts.get(("words",), origin.span)
        try:
            if missing := no_file(number):
                raise MissingInputError(*missing)
            words, known = words_of(vocab, base)
        except (DataError, MissingInputError) as error:
            diagnostics.error("E411", error.message, place, help=error.help)
            return base.size
        if known:
            message = f"{several(known, 'word')} of {number} are tokens already, {len(words):,} not"
            diagnostics.remark(Diagnostic("R123", message, place))
        number = len(words)
    return base.size + number - min(number, len(unused(base)))


def _require_room(
    program: Complete, vocab: Trimmed, base: "Vocabulary", diagnostics: Diagnostics
) -> None:
    """Report a size that special tokens do not fit in, or larger than the vocabulary."""
    from bertc.data.vocab.changed import staying

    origin, least = program.origins["vocab"], staying(base)
    if least <= vocab.size <= base.size:
        return
    nearest = min(max(vocab.size, least), base.size)
    diagnostics.error(
        "E412",
        f"of {base.size:,} tokens {vocab.size:,} cannot stay",
        origin.parts.get(("tokens",), origin.span),
        label=f"special tokens and bytes are {least:,} of them",
        help=f"vocab=trim(init, {nearest})",
        fix=fix_argument(origin, (), "tokens", str(nearest)),
    )
