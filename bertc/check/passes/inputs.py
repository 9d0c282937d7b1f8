"""The files that a spec names: whether they are there, are text, and the size of a vocabulary."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import starmap
from pathlib import Path

from bertc.base.diagnostics import DataError, Diagnostics, MissingInputError, Span, UnsafeError
from bertc.base.storage.files import NO_TEXT, files_anywhere, no_text, suffix
from bertc.base.storage.paths import cache_folder, check_path, is_folder, is_taken, user_path
from bertc.base.storage.plain_file import no_file, no_folder, no_match
from bertc.check.passes.changing.beginning import changed_tokens
from bertc.check.passes.settings import set_values
from bertc.hub.published import or_hub
from bertc.ir.changing.growth import TEACHER, FromOther, vector_file
from bertc.ir.data import Prepared, file_names
from bertc.ir.learning.augmentation import ReplacedCopies
from bertc.ir.learning.objective import FromFolder, FromSpec, Shape, Teacher
from bertc.ir.learning.vector_task import Mined
from bertc.ir.program import Complete
from bertc.ir.vocabulary import Extended, Fixed, Listed, TokenizerFile, Trimmed, Vocabulary
from bertc.ir.written import Given, Origin, OriginKind
from bertc.text.tokenizers import reading
from bertc.text.tokenizers.by_transformers import FILE_NAMES, checked_size

EARLIER_FIRST: tuple[OriginKind, ...] = ("default", "derived", "extends", "written", "set")


def vocabulary(program: Complete, diagnostics: Diagnostics) -> Complete:
    """Read the unset size of ``vocab=tokenizer("...")`` from its files.

    ``vocab="bert/vocab.txt"`` becomes ``vocab=tokenizer("bert/vocab.txt", size=30522)``. A run
    with ``init`` uses that vocabulary unless another is written, one with a teacher the teacher's.
    """
    setting, init = Given(program.vocab, program.origins["vocab"]), _network_of(program)
    origin = program.origins["init"]
    if setting.origin.kind == "default" and not init:
        taught = [(program.teacher, program.origins["teacher"])]
        taught += [(s.teacher, s.own["teacher"]) for s in program.stages if "teacher" in s.own]
        setting = next(filter(None, starmap(_of_teacher, taught)), setting)
        program = set_values(program, {"vocab": setting})
    if init and _gives_way(setting, origin):
        if not is_folder(init.path):
            nowhere_to_begin(init, origin.span, diagnostics)
            return program
        derived = replace(origin, kind="derived", source="the vocabulary of init")
        try:
            setting = Given(vocabulary_of_init(Path(init.path)), derived)
        except (DataError, UnsafeError) as error:
            return _unreadable(program, error, origin, diagnostics)
        program = set_values(program, {"vocab": setting})
    else:
        for stage in program.stages:
            origin = stage.origins["data"]
            texts = [s.corpus.path for s in stage.data if isinstance(s.corpus, Prepared)]
            if texts and _gives_way(setting, origin):
                try:
                    setting = _of_text(texts[0], origin)
                except (DataError, MissingInputError) as error:
                    diagnostics.error("E307", error.message, origin.span, help=error.help)
                    return program
                program = set_values(program, {"vocab": setting})
    vocab = program.vocab
    if not isinstance(vocab, TokenizerFile):
        return _of_another(program, diagnostics)
    folder = reading.tokenizer_folder(user_path(vocab.path))
    if folder != user_path(vocab.path):
        vocab = vocab.model_copy(update={"path": str(folder)})
    if not vocab.size:
        try:
            read = reading.read_tokenizer(user_path(vocab.path), vocab.lower)
            ids = read.tokenizer.get_vocab(with_added_tokens=True)
            vocab = vocab.model_copy(update={"size": checked_size(ids, str(read.file))})
        except (DataError, MissingInputError, UnsafeError) as error:
            _unreadable(program, error, setting.origin, diagnostics)
    return set_values(program, {"vocab": Given(vocab, setting.origin)})


def _network_of(program: Complete) -> FromOther | None:
    """The ``init`` of a run that begins with another network than its teacher."""
    init = program.init
    return init if isinstance(init, FromOther) and init.path != TEACHER else None


def _of_another(program: Complete, diagnostics: Diagnostics) -> Complete:
    """Settle a vocabulary of a list, or from that of ``init``; others are learned later."""
    vocab, init, origin = program.vocab, _network_of(program), program.origins["vocab"]
    if not isinstance(vocab, Extended | Trimmed | Listed):
        return program
    of_init = vocab.path == "init" and not isinstance(vocab, Listed)
    if of_init and not init:
        message = f"vocab={vocab.kind}(init) changes the vocabulary of init, and there is none"
        help = 'name a run or a model folder, as in init="runs/bert"'
        diagnostics.error("E410", message, origin.span, help=help)
        return program
    try:
        if isinstance(vocab, Listed):
            from bertc.text.vocab.fixed import fixed_vocabulary  # numpy, as in changed_tokens

            counted = vocab.model_copy(update={"size": fixed_vocabulary(vocab).size})
            return set_values(program, {"vocab": Given(counted, origin)})
        base = TokenizerFile(path=str(reading.tokenizer_folder(user_path(vocab.path))))
        if of_init and init:
            if not is_folder(init.path):
                nowhere_to_begin(init, program.span("init"), diagnostics)
                return program
            base = vocabulary_of_init(Path(init.path))
        return changed_tokens(program, vocab, base, diagnostics)
    except (DataError, MissingInputError, UnsafeError) as error:
        return _unreadable(program, error, origin, diagnostics)


def _gives_way(vocab: Given, init: Origin) -> bool:
    """True for a default, and for one to learn of the spec that ``init`` extends or is set on."""
    earlier, later = (EARLIER_FIRST.index(origin.kind) for origin in (vocab.origin, init))
    learned = not isinstance(vocab.value, TokenizerFile | Extended | Trimmed)
    return vocab.origin.kind == "default" or (learned and earlier < later)


def _of_text(address: str, data: Origin) -> Given:
    """The tokenizer that text is prepared with."""
    from bertc.text.prepared.opening import tokenizer_at

    origin = replace(data, kind="derived", source="the tokenizer of the prepared text")
    return Given(TokenizerFile(path=str(tokenizer_at(address, cache_folder()))), origin)


def _of_teacher(teachers: Sequence[Teacher], named: Origin) -> Given | None:
    """The vocabulary of the first teacher of whom more than the name is known."""
    origin = replace(named, kind="derived", source="the vocabulary of the teacher")
    for teacher in teachers:
        match teacher.source:
            case FromSpec(shape=Shape(vocabulary=vocabulary)):
                return Given(vocabulary, origin)
            case FromFolder(path=path, shape=Shape()):
                with suppress(DataError, UnsafeError):  # told where its weights are read
                    return Given(vocabulary_of_init(Path(path)), origin)
    return None


def _unreadable(
    program: Complete,
    error: DataError | MissingInputError | UnsafeError,
    origin: Origin,
    diagnostics: Diagnostics,
) -> Complete:
    named = program.vocab.path if isinstance(program.vocab, TokenizerFile) else ""
    help = error.help or f"name one of {', '.join(FILE_NAMES)}, or a folder with one"
    message = f"the vocabulary cannot be read: {error.message}"
    diagnostics.error("E212", message, origin.span, help=or_hub(help, named))
    return program


def nowhere_to_begin(init: FromOther, span: Span | None, diagnostics: Diagnostics) -> None:
    """Report an ``init`` that is no folder, or one without a network."""
    message = f"init: there is no run or model folder {init.path}"
    help = "it has no resolved.json of a run, and no config.json of a model"
    if not is_folder(init.path):
        help = or_hub(check_path(init.path), init.path)
    diagnostics.error("E265", message, span, help=help)


def vocabulary_of_init(run: Path) -> TokenizerFile:
    """The vocabulary of a run or a model folder, of as many tokens as its table has rows."""
    folder = reading.tokenizer_folder(run)
    config = reading.settings_in(reading.network_folder(run) / "config.json")
    match reading.settings_in(run / "resolved.json"):
        case {"stages": [*_, {"encoder": {"vocab_size": size}}]}:
            pass
        case _:
            size = config.get("vocab_size") or 0
    lower = True
    with suppress(MissingInputError):
        lower = reading.read_tokenizer(folder).lower
    return TokenizerFile(path=str(folder), lower=lower, size=size)


def missing_inputs(program: Complete, diagnostics: Diagnostics) -> None:
    """Report missing files, those whose names say they are no text, and a missing init."""
    init, known = program.init, {diagnostic.code for diagnostic in diagnostics.found}
    if (begins := _network_of(program)) and "E265" not in known:
        there = user_path(begins.path)
        configured = is_taken(reading.network_folder(there) / "config.json")
        if not configured and not is_taken(there / "resolved.json"):
            nowhere_to_begin(begins, program.span("init"), diagnostics)

    def report(missing: tuple[str, str] | None, span: Span | None) -> None:
        if missing:
            diagnostics.error("E307", missing[0], span, help=missing[1])

    if name := vector_file(init):
        report(no_file(name), program.span("init"))
    for stage in program.stages:
        for source in stage.augment:
            if isinstance(source.copies, ReplacedCopies):
                report(no_folder(source.copies.model), stage.span("augment"))
                if source.copies.vectors:
                    report(no_file(source.copies.vectors), stage.span("augment"))
        for node in (getattr(task, "negatives", None) for task in stage.tasks):
            if isinstance(node, Mined):
                report(no_folder(node.run), stage.span("objective"))
    for stage in program.stages:
        origin = stage.origins["data"]
        for index, share in enumerate(stage.data):
            span = origin.parts.get((index, "corpus", "path"), origin.span)
            try:
                if isinstance(share.corpus, Prepared) and not known & {"E212", "E307"}:
                    _require_prepared(share.corpus, program.vocab)
            except (DataError, MissingInputError, UnsafeError) as error:
                diagnostics.error("E307", error.message, span, help=error.help)
            for name, argument in file_names(share.corpus):
                span = origin.parts.get((index, "corpus", argument), origin.span)
                try:
                    paths = list(files_anywhere(name))
                except MissingInputError as error:  # of a store
                    diagnostics.error("E307", error.message, span, help=error.help)
                    continue
                if not paths:
                    report(no_match(name), span)
                elif unreadable := next((path for path in paths if suffix(path) in NO_TEXT), None):
                    message, help = no_text(unreadable)
                    diagnostics.error("E308", message, span, help=help)


def _require_prepared(text: Prepared, vocab: Vocabulary) -> None:
    """Refuse prepared text that is not there, not whole, or of another tokenizer."""
    from bertc.base.storage.place import FolderAt
    from bertc.text.prepared import opening
    from bertc.text.shards import spelling
    from bertc.text.vocab.fixed import known_vocabulary

    corpus = opening.read_corpus(place := FolderAt(text.path))
    opening.refuse_missing_parts(place, corpus)
    # Tokens cannot give one that is learned.
    digest = spelling(known_vocabulary(vocab)) if isinstance(vocab, TokenizerFile | Fixed) else ""
    opening.refuse_other_tokenizer(text, corpus, digest)
