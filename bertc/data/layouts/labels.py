"""Labels and tags of a task, collected from its examples."""

from collections.abc import Sequence

from bertc.base.diagnostics import DataError
from bertc.data.layouts.example import Example, LabelledExample, TaggedExample
from bertc.data.sources.cells import finite, swapped
from bertc.ir.data import Hf
from bertc.ir.learning.answer import names_spans
from bertc.ir.learning.custom_task import AnyTask, Classify, Tag
from bertc.ir.learning.task import Tagging

MAX_LABELS = 10_000
"""Most labels of a task: more are names or texts, and would take minutes to check."""


def found_labels(task: AnyTask, examples: Sequence[Example]) -> tuple[str, ...]:
    """The labels of the examples, sorted, numbers by value; empty for tasks with fixed labels.

    Tags of spans follow ``O`` by kind, ``B-`` before ``I-``. Each ``B-`` has its ``I-``, even if
    the examples have none (CoNLL-2003's chunks: ``I-PRT`` is in testa only).
    """
    if not isinstance(task, Classify | Tagging | Tag):
        return ()
    names: set[str] = set()
    for example in examples:
        match example:
            case LabelledExample(label=str(label)):
                names.add(label)
            case TaggedExample(tags=tags):
                names.update(tags)
            case _:
                pass
    source = task.data if isinstance(task, Tagging) else task.train
    where = f"hf({source.name!r})" if isinstance(source, Hf) else source
    if len(names) > MAX_LABELS:
        texts = {example.texts for example in examples if isinstance(example, LabelledExample)}
        help = "name another column; regress learns numbers"
        if isinstance(task, Classify) and len(texts) < len(names):
            help = swapped(task.text, task.label)
        raise DataError(
            f"{where}: {len(names):,} labels in {len(examples):,} examples, at most "
            f"{MAX_LABELS:,} are supported",
            help,
        )
    if len(names) < 2:
        have = f"only the label {next(iter(names))!r}" if names else "no labels"
        raise DataError(f"{where}: {have} in all {len(examples):,} examples", "two or more labels")
    if names_spans(tuple(names)):
        names |= {"I-" + name[2:] for name in names if name.startswith("B-")}
        return tuple(sorted(names, key=lambda tag: (tag != "O", tag[2:], tag)))
    if None not in map(finite, names):
        return tuple(sorted(names, key=lambda name: (finite(name) or 0.0, name)))
    return tuple(sorted(names))
