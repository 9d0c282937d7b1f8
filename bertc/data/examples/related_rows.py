"""Rows of texts that are compared: to embed, to search, and with a query to rank."""

from collections.abc import Sequence

from bertc.data.examples.fitting import fitted, ids_of
from bertc.data.examples.task_rows import RowBuilder
from bertc.data.layouts.example import ChoiceExample, Example, SearchExample, TextExample
from bertc.ir.learning.custom_task import AnyTask
from bertc.ir.learning.vector_task import Embed, Rerank


def related(task: Embed, examples: Sequence[Example], rows: RowBuilder) -> None:
    """Add a row for each text; a text alone has two, which differ by dropout."""
    related = [e for e in examples if isinstance(e, TextExample)]
    max_tokens = rows.max_tokens(1)
    every = [task.prompt_of(nth) + text for e in related for nth, text in enumerate(e.texts)]
    ids = iter(ids_of(rows.vocabulary, every))
    for number, example in enumerate(related):
        texts = [next(ids) for _ in example.texts]
        rows.num_cut += any(len(tokens) > max_tokens for tokens in texts)
        texts = texts if len(texts) > 1 else texts * 2
        told = example.answer
        if isinstance(told, tuple):  # a score for each text but the first
            targets = (float(told[0]), *map(float, told))
        else:
            targets = (float("nan") if told is None else float(told),) * len(texts)
        for tokens, target in zip(texts, targets, strict=True):
            rows.add(number, fitted(tokens, None, rows), (target,))


def searched(task: Embed, examples: Sequence[Example], rows: RowBuilder) -> None:
    """Add a row for each query and each document of a search."""
    searched = [e for e in examples if isinstance(e, SearchExample)]
    every = [task.prompt_of(e.relevant is None) + e.text for e in searched]
    for number, tokens in enumerate(ids_of(rows.vocabulary, every)):
        rows.num_cut += len(tokens) > rows.max_tokens(1)
        rows.add(number, fitted(tokens, None, rows), (float("nan"),))


def lists(task: Rerank, examples: Sequence[Example], rows: RowBuilder) -> None:
    """Add a row of the query with each of its passages, of which the first answers it."""
    lists = [e for e in examples if isinstance(e, ChoiceExample)]
    ids = iter(ids_of(rows.vocabulary, [t for e in lists for t in (e.question, *e.choices)]))
    for number, example in enumerate(lists):
        query, *passages = [next(ids) for _ in range(1 + len(example.choices))]
        pairs = [fitted(query, passage, rows) for passage in passages]
        rows.num_cut += pairs != [(query, passage) for passage in passages]
        for pair in pairs:
            rows.add(number, pair, (0.0,))


def in_pairs(task: AnyTask, examples: Sequence[Example]) -> Sequence[Example]:
    """Lists of passages as pairs of the query with each, the positive with a label of 1."""
    lists = [example for example in examples if isinstance(example, ChoiceExample)]
    if not (isinstance(task, Rerank) and lists):
        return examples
    pairs: dict[tuple[str, str], TextExample] = {}
    for nth in range(max(len(example.choices) for example in lists)):  # positives first
        for example in lists:
            if nth < len(example.choices):
                texts = example.question, example.choices[nth]
                pairs.setdefault(texts, TextExample(example.key, texts, float(nth == 0)))
    return [*pairs.values()]
