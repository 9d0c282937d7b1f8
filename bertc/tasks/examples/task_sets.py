"""The tasks of a stage, read from their files and encoded, with their labels."""

import hashlib
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from bertc.base.diagnostics import DataError, listed
from bertc.base.storage.paths import is_file
from bertc.ir.data import Hf
from bertc.ir.learning import Answer, AnyTask, Classify, NamedSpans, Spans, Tag, Tags, label_names
from bertc.ir.learning.answer import PLAIN_LOSS, BalancedLoss, Score, Several, names_spans
from bertc.ir.learning.task import Glue, Tagging
from bertc.ir.program import Stage
from bertc.tasks.examples.copies import Copier
from bertc.tasks.examples.encode import encode
from bertc.tasks.examples.named_rows import names_asked
from bertc.tasks.examples.related_rows import in_pairs
from bertc.tasks.examples.task import TaskData, TaskSet
from bertc.tasks.examples.task_rows import notes_on_cuts, notes_on_shared
from bertc.tasks.layouts.example import Examples, TaggedExample, TextExample, asked, gold
from bertc.tasks.layouts.parts import dev_parts, part_examples, part_named
from bertc.text.batches.order import permute
from bertc.text.cache.store import Progress
from bertc.text.sources.cells import finite, swapped
from bertc.text.sources.files import file_identity
from bertc.text.vocab.vocabulary import Vocabulary

MAX_LABELS, MANY_LABELS = 10_000, 100
"""Most labels of a task, which else are names or texts; many have two examples or are row ids."""
RARE, FAR_LABEL = 0.05, 20.0
"""The share of the examples below which a label is rare; a number too far for a head."""
SAMPLE_EXAMPLES = 1000
"""Examples from which the mean length is estimated."""


def found_labels(task: AnyTask, examples: Examples) -> tuple[str, ...]:
    """The labels of the examples, sorted, numbers by value; empty for tasks with fixed labels.

    Tags of spans follow ``O`` by kind, ``B-`` before ``I-``. Each ``B-`` has its ``I-``, even if
    the examples have none (CoNLL-2003's chunks: ``I-PRT`` is in testa only).
    """
    if isinstance(task, Spans):
        if asked_for := names_asked(task.judged, examples):
            return asked_for
        raise DataError(f"{task.train}: no spans in all {len(examples):,} examples", "B-, I- tags")
    if not isinstance(task, Classify | Tagging | Tag):
        return ()
    counts = class_counts(examples)
    names = {*counts}
    source = task.data if isinstance(task, Tagging) else task.train
    where = f"hf({source.name!r})" if isinstance(source, Hf) else source
    ids = len(names) >= MANY_LABELS and counts.total() < 2 * len(names)
    if ids or len(names) > MAX_LABELS:
        texts = {example.texts for example in examples if isinstance(example, TextExample)}
        help = "name another column; regress learns numbers"
        if isinstance(task, Classify) and len(texts) < len(names):
            help = swapped(task.text, task.columns[0])
        why = "as ids of rows are" if ids else f"at most {MAX_LABELS:,} are supported"
        many = f"{len(names):,} labels in {len(examples):,} examples"
        raise DataError(f"{where}: {many}, {why}", help)
    if len(names) < 2:
        have = f"only the label {next(iter(names))!r}" if names else "no labels"
        raise DataError(f"{where}: {have} in all {len(examples):,} examples", "two or more labels")
    if names_spans(tuple(names)):
        names |= {"I-" + name[2:] for name in names if name.startswith("B-")}
        return tuple(sorted(names, key=lambda tag: (tag != "O", tag[2:], tag)))
    if None not in map(finite, names):
        return tuple(sorted(names, key=lambda name: (finite(name) or 0.0, name)))
    return tuple(sorted(names))


def draw_learned_examples(task: AnyTask, examples: Examples) -> Examples:
    """The training examples that a task learns: pairs in both orders, or a sample, as it says."""
    if isinstance(task, Glue) and task.both_orders:
        pairs = [example for example in examples if isinstance(example, TextExample)]
        swapped = (replace(e, key=f"{e.key}, swapped", texts=e.texts[::-1]) for e in pairs)
        examples = [*examples, *swapped]
    if task.examples > len(examples):
        message = f"{task.title} has {len(examples):,} training examples, not {task.examples:,}"
        raise DataError(message, "without examples=... all are counted; fewer are drawn from them")
    return _drawn(examples, task.examples, "examples", task.title)


def draw_scored_sample(task: AnyTask, part: str, examples: Examples, most: int = 0) -> Examples:
    """The examples of a part to score on: ``most``, else as many dev ones as the task sets."""
    dev_limit = task.dev_examples if part.startswith("dev") else 0
    some = in_pairs(task, _drawn(asked(examples), most or dev_limit, "judged", task.title, part))
    return [*some, *examples[len(asked(examples)) :]]


def _drawn(examples: Examples, most: int, *address: str) -> Examples:
    """A keyed sample of ``most`` examples in their order, the same for all seeds; all for 0."""
    if not 0 < most < len(examples):
        return examples
    return [examples[i] for i in np.sort(permute(np.arange(most), len(examples), 0, *address))]


def mean_length(task: AnyTask, vocabulary: Vocabulary, seq: int, segments: int) -> float:
    """The mean length of a training row in tokens, over a sample of the examples."""
    examples = draw_learned_examples(task, part_examples(task))
    sample = examples[:: max(1, len(examples) // SAMPLE_EXAMPLES)]
    return float(encode(task, sample, vocabulary, seq, segments).lengths.mean())


def read_tasks(
    stage: Stage,
    vocabulary: Vocabulary,
    seed: int,
    copier: Copier,
    progress: Progress,
    known: dict[Hashable, TaskSet],
) -> TaskData:
    """Read and encode the tasks of a stage, unless ``known`` from earlier ones."""
    sets, encoder = [], stage.encoder
    for task in stage.tasks:
        kinds = encoder.kinds_of_segments, encoder.causal
        key = task, stage.seq, stage.augment, kinds, _one_per_row(stage)
        if key not in known:
            known[key] = _read_task(task, stage, vocabulary, copier, progress)
        task_set = known[key]
        if stage.batch > task_set.units:
            times = stage.batch / task_set.units
            progress.note(
                f"{task.title}: batch = {stage.batch:,} is {times:.1f} times the "
                f"{task_set.units:,} training examples"
            )
        sets.append(task_set)
    return TaskData(vocabulary, seed, stage.batch, stage.seq, tuple(sets), stage.smoothing, 0)


def _one_per_row(stage: Stage) -> bool:
    """True if a network or head of the stage reads one example at a time, or pools a row."""
    bodies = [network.body for network in stage.networks()]
    pools = any(body.pooled.of_rows or not body.packs for body in bodies)
    return pools or any(task.recurrent or isinstance(task, Spans) for task in stage.tasks)


def _read_task(
    task: AnyTask, stage: Stage, vocabulary: Vocabulary, copier: Copier, progress: Progress
) -> TaskSet:
    progress.begin(f"reading {task.title}", 0, "rows")
    trained = part_examples(task)
    learned = draw_learned_examples(task, trained)
    all_parts = {part: part_examples(task, part) for part in dev_parts(task)}
    progress.end()
    learned = copier.with_negatives(task, learned)
    copies = copier.copies(task.title, learned, stage.augment)
    progress.begin(f"encoding {task.title}", 0, "rows")
    parts = {part: draw_scored_sample(task, part, examples) for part, examples in all_parts.items()}
    how = vocabulary, stage.seq, stage.encoder.kinds_of_segments, stage.encoder.causal
    learned_rows = encode(task, [*learned, *copies], *how)
    encoded = {part: (some, encode(task.judged, some, *how)) for part, some in parts.items()}
    task_set = TaskSet(task, learned_rows, encoded, _one_per_row(stage))
    progress.end()
    count = len(learned) + len(copies)
    notes = [] if parts else ["no dev part: no scores will be reported"]
    notes += notes_on_shared(trained, all_parts)
    notes += notes_on_cuts(task, task_set.train, count, "training ", stage.seq)
    for name, (scored, rows) in task_set.parts.items():
        if (count := len(asked(scored))) < (most := len(asked(all_parts[name]))):
            notes.append(f"scored on {count:,} of {most:,} {name} examples (dev_examples)")
        notes += notes_on_cuts(task, rows, len(scored), f"{name} ", stage.seq)
    for note in (*notes, *notes_on_classes(task, learned)):
        progress.note(f"{task.title}: {note}")
    return task_set


def notes_on_classes(task: AnyTask, learned: Examples) -> list[str]:
    """Remarks on labels that are alike, rare, or numbers that a head hardly reaches."""
    if isinstance(task.answer, Score) and not task.answer.logistic:
        largest = np.abs(np.array([gold(example) for example in learned], dtype=float)).max()
        far = f"labels go to {largest:,.6g}, and a head begins near 0: scale them to some -5 to 5"
        return [far] * bool(largest > FAR_LABEL)
    names, counts = label_names(task.answer), class_counts(learned)
    folded = Counter(map(str.casefold, names))
    alike = [name for name in names if folded[name.casefold()] > 1]
    notes = [f"the labels {listed(alike)} differ in capitals alone"] if alike else []
    if task.class_loss != PLAIN_LOSS or isinstance(task.answer, Tags | NamedSpans) or not names:
        return notes
    total = len(learned) if isinstance(task.answer, Several) else counts.total()
    rarest = min(names, key=lambda name: counts[name])
    if counts[rarest] >= RARE * total:
        return notes
    way = "loss=balanced weighs labels by how rare they are"
    if finite(rarest) is not None and None in map(finite, names):
        way = "it is a number among texts: correct these rows, or is it a label?"
    return [
        *notes,
        f"unbalanced: {rarest!r} is {counts[rarest]:,} of {total:,} training examples "
        f"({counts[rarest] / total:.1%}); {way}",
    ]


def task_digest(data: TaskData) -> str:
    """sha256 of all training and scored rows."""
    total = hashlib.sha256()
    for task_set in data.sets:
        for rows in (task_set.train, *(rows for _, rows in task_set.parts.values())):
            texts = (rows.token_ids, rows.segment_ids, rows.begins)
            for array in (*texts, rows.targets, rows.words, rows.tags):
                total.update(hashlib.sha256(array.tobytes()).digest())
    return total.hexdigest()


def training_facts(task: AnyTask) -> tuple[int, tuple[str, ...], tuple[float, ...]]:
    """The number of training examples, their labels unless the task names them, and the weights.

    These balance the labels of a task that has ``loss=balanced``.
    """
    source = part_named(task, "train").source
    if isinstance(source, Path) and is_file(source):
        return _read(task, file_identity(source))
    return _read(task, object())


@lru_cache(maxsize=64)
def _read(task: AnyTask, identity: object) -> tuple[int, tuple[str, ...], tuple[float, ...]]:
    examples = part_examples(task)
    labels = () if getattr(task, "names", ()) else found_labels(task, examples)
    learned = draw_learned_examples(task, examples)
    weights: tuple[float, ...] = ()
    if isinstance(task.class_loss, BalancedLoss):
        names = labels or label_names(task.answer)
        counts = class_counts(learned)
        weights = balancing(task.answer, [counts[name] for name in names], len(learned))
    return len(learned), labels, weights


def class_counts(examples: Examples) -> Counter[str]:
    """The number of examples, or words, of each label."""
    counts = Counter[str]()
    for example in examples:
        match example:
            case TextExample(answer=str(label)):
                counts[label] += 1
            case TextExample(answer=tuple(several)) | TaggedExample(tags=several):
                counts.update(map(str, several))
    return counts


def balancing(answer: Answer, counts: Sequence[int], examples: int) -> tuple[float, ...]:
    """The weights of classes that balance them (scikit-learn, ``class_weight="balanced"``).

    Of several labels at once examples without a label by those with it (torch, ``pos_weight``).
    """
    if isinstance(answer, Several):
        return tuple(max(1, examples - count) / max(1, count) for count in counts)
    return tuple(sum(counts) / (len(counts) * max(1, count)) for count in counts)
