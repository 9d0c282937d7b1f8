"""The frozen networks of a stage, with their weights."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from bertc.base.diagnostics import DataError, UsageError
from bertc.hub.networks import add_tables
from bertc.ir.learning import Task, alike
from bertc.ir.learning.objective import FromFolder, FromSpec, Teacher
from bertc.ir.program import Network, Resolved, Stage, frozen_weights
from bertc.machine.process_group import ALONE, ProcessGroup
from bertc.model.model import Frozen, Model, drawn
from bertc.run.models.loading import read_model, weights_digest
from bertc.text.vocab.vocabulary import Vocabulary, vocabulary_of


def digests(resolved: Resolved) -> dict[str, str]:
    """sha256 of the weights of every teacher at work, by its folder."""
    paths = dict.fromkeys(path for _, path in _folders_at_work(resolved))
    return {path: weights_digest(Path(path)) for path in paths}


def require_same_tokens(resolved: Resolved, vocabulary: Vocabulary) -> None:
    """Refuse teachers at work that read other tokens than the run."""
    for network, path in _folders_at_work(resolved):
        refuse_other_tokens("its teacher", Path(path), vocabulary, network.body.vocab_size)


def refuse_other_tokens(source: str, folder: Path, vocabulary: Vocabulary, rows: int) -> None:
    """Refuse a source whose token table has other tokens in its rows."""
    other_words = vocabulary_of(folder, rows)
    tables = ([read.token(i) for i in range(read.size)] for read in (other_words, vocabulary))
    for number, (other_token, token) in enumerate(zip_longest(*tables)):
        if other_token == token:
            continue
        raise DataError(
            f"the vocabulary of {folder} has {other_words.size:,} tokens and this run's "
            f"{vocabulary.size:,}; token {number} is {other_token!r} there and {token!r} here",
            help=f"leave vocab out, and the run reads with the vocabulary of {source}"
            + (", or init=run(..., embeddings=mean) for other tokens" if source == "init" else ""),
        )


def _folders_at_work(resolved: Resolved) -> Iterator[tuple[Network, str]]:
    for stage in resolved.stages:
        for network, teacher in _at_work(stage):
            if isinstance(teacher.source, FromFolder):
                yield network, teacher.source.path


def require_weights(resolved: Resolved) -> None:
    """Refuse a teacher of which the spec says the shape alone."""
    for stage in resolved.stages:
        for _, teacher in _at_work(stage):
            if isinstance(teacher.source, FromSpec):
                raise UsageError(
                    f"the teacher is the shape of {teacher.source.spec!r}, without weights",
                    help='--set teacher="runs/bert", a run, an imported model or a Hugging Face '
                    "folder",
                )


def frozen_networks(stage: Stage, model: Model, ranks: ProcessGroup = ALONE) -> tuple[Frozen, ...]:
    """The frozen networks at work in a stage, whole on each process; the first one reads them.

    They are on the device of the model that learns, and compute in its dtype.
    """
    networks, seed = [], model.resolved.run.seed
    for network, teacher in _at_work(stage):
        frozen = drawn(network, seed) if isinstance(teacher.source, FromSpec) else Frozen(network)
        with ranks.raise_on_all():
            if ranks.is_main and isinstance(teacher.source, FromFolder):
                _load(frozen, Path(teacher.source.path), stage.tasks)
        ranks.share_tensors(dict(frozen.named_parameters()))
        frozen.compute_dtype = model.compute_dtype
        networks.append(frozen.to(next(model.parameters()).device))
    return tuple(networks)


def _at_work(stage: Stage) -> list[tuple[Network, Teacher]]:
    networks = (candidate for candidate in stage.networks() if not candidate.learned)
    known = (teacher for teacher in stage.teacher if teacher.shape)
    return list(zip(networks, known, strict=False))


def _load(frozen: Frozen, folder: Path, tasks: Sequence[Task]) -> None:
    resolved, tensors = read_model(folder)
    tensors = add_tables(resolved, tensors)
    body = frozen.network.body
    # A configuration alone does not tell of a pooler, and no term reads one that it left out.
    encoder = resolved.encoder
    if (encoder if body.pooler else encoder.model_copy(update={"pooler": False})) != body:
        message = f"the network in {folder} is not the one that this run was made for"
        raise DataError(message, "name a teacher that is finished, and stays as it is")
    names = (weight.name for weight in frozen_weights(frozen.network))
    places = {name: _there(name, resolved, tasks) for name in names}
    lacking = {name.split(".")[1] for name, source in places.items() if source not in tensors}
    if lacking:
        raise DataError(
            f"the teacher {folder} has no weights of {' or '.join(sorted(lacking))}, whose scores "
            "are asked for",
            help="a teacher that has learned it, or terms that ask for states alone",
        )
    frozen.load_state_dict({name: tensors[source] for name, source in places.items()})


def _there(name: str, resolved: Resolved, tasks: Sequence[Task]) -> str:
    """The name of a weight in the teacher's folder, where the head of a task may be called else."""
    first, part, *rest = name.split(".")
    task = next((task for task in tasks if task.head_name == part), None)
    learned = resolved.terms()
    if first != "heads" or task is None or any(t.objective.head_name == part for t in learned):
        return name
    for term in learned:
        if isinstance(term.objective, Task) and alike(term.objective.answer, task.answer):
            return ".".join((first, term.objective.head_name, *rest))
    return name
