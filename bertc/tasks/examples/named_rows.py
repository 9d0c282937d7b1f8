"""Rows of words with the names of spans in front of them, in training drawn anew for each step."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from bertc.base.diagnostics import DataError, several
from bertc.ir.address import key
from bertc.ir.learning import Spans
from bertc.ir.terms.task_head import MOST_NAMES
from bertc.tasks.examples.task_rows import MATCHED, RowBuilder, TaskRows, encodings_of, ids_of
from bertc.tasks.layouts.example import Examples, TaggedExample
from bertc.tasks.metrics.metrics import spans
from bertc.text.vocab.vocabulary import Vocabulary


def names_asked(task: Spans, examples: Examples) -> tuple[str, ...]:
    """The names in front of rows: in training those learned, else of the spans of the examples."""
    if task.negatives:
        return task.answer.names
    tagged = (example.tags for example in examples if isinstance(example, TaggedExample))
    return tuple(sorted({name for tags in tagged for name, *_ in spans(tags)})) or task.labels


def first_tokens(
    vocabulary: Vocabulary, sentences: Sequence[Sequence[str]]
) -> Iterator[tuple[list[int], NDArray[np.int64]]]:
    """The token ids of words, and the first token of each; -1 of one that has none."""
    # A space before a word is part of its tokens in byte-level vocabularies.
    first, after = ids_of(vocabulary, ["a", " a"])
    spaced = first != after
    texts = [
        [f" {word}" if spaced and place else word for place, word in enumerate(words)]
        for words in sentences
    ]
    encodings = encodings_of(vocabulary.tokenizer.encode_batch, texts, is_pretokenized=True)
    for words, encoding in zip(sentences, encodings, strict=True):
        of_word = np.array(encoding.word_ids, dtype=np.int64)
        firsts = np.flatnonzero(np.diff(of_word, prepend=-1))
        # A word without any token, such as a lone accent, has no state to predict from.
        places = np.full(len(words), -1, dtype=np.int64)
        places[of_word[firsts]] = firsts
        yield encoding.ids, places


def read_spans(task: Spans, examples: Examples, rows: RowBuilder) -> TaskRows:
    """Rows of sentences; the target of a word counts names and widths of spans from it on, from 1.

    Those to train on are drawn for step 0, and ``again`` for others.
    """
    vocabulary, before = rows.vocabulary, len(rows.template.before[0])
    names = {name: number for number, name in enumerate(names_asked(task, examples))}
    sentences = [example for example in examples if isinstance(example, TaggedExample)]
    marker = _token(task.marker, vocabulary.mask, vocabulary, "marker")
    separator = _token(task.separator, vocabulary.sep, vocabulary, "separator")
    alone = first_tokens(vocabulary, [(name,) for name in names])
    prompts = [[marker, *ids] for ids, _ in alone]
    room = _room(task, prompts, sentences, rows)
    tokens = [*first_tokens(vocabulary, [example.words for example in sentences])]

    def lay_out(units: Iterable[int], seed: int, step: int) -> TaskRows:
        laid = rows.fresh()
        for unit in units:
            (ids, places), tags = tokens[unit], sentences[unit].tags
            there = (places >= 0) & (places < room)
            marked = {(names[name], *at) for name, *at in spans(tags) if name in names}
            drawn = [*names.values()]
            if task.negatives:
                random = Random(key(seed, "names", task.title, step, unit))
                drawn = _draw(task, {name for name, *_ in marked}, len(names), random)
            marks = [MATCHED * (not n) for name in drawn for n in range(len(prompts[name]))]
            prompt = [token for name in drawn for token in prompts[name]]
            laid.add(unit, ([*prompt, separator, *ids[:room]], None), ())
            after = laid.template.specials(1) - before + 1 + len(ids[:room])
            laid.uses.append(np.array([0] * before + marks + [0] * after, np.uint8))
            targets = np.full(len(places), 0 if tags else -1)
            for name, first, last in marked:
                if name in drawn and last - first < task.widest and there[[first, last]].all():
                    targets[first] = 1 + drawn.index(name) * task.widest + last - first
            laid.words.append(np.where(there, places + before + len(prompt) + 1, -1))
            laid.tags.append(targets)
        return laid.finish()

    cut = sum(len(ids) > room for ids, _ in tokens)
    unread = sum(int(((at < 0) | (at >= room)).sum()) for _, at in tokens)
    laid, again = lay_out(range(len(tokens)), 0, 0), lay_out if task.negatives else None
    return replace(laid, num_cut=cut, num_unread=unread, again=again)


def _room(
    task: Spans, prompts: list[list[int]], sentences: list[TaggedExample], rows: RowBuilder
) -> int:
    """Tokens that words may take next to the names of any row."""
    if not prompts:
        raise DataError(f"{task.title}: no labels to find", 'name some: --labels "person, drug"')
    most = len(prompts)
    if task.negatives:
        learned = max(len({name for name, *_ in spans(e.tags)}) for e in sentences)
        most = min(learned + task.negatives, MOST_NAMES, most)
    taken = sum(sorted(map(len, prompts))[-most:]) + 1
    if (room := rows.max_tokens(1) - taken) < 1:
        what = f"{taken} tokens of {several(most, 'label')}"
        message = f"{task.title}: rows of {rows.seq} have no room for words after {what}"
        raise DataError(message, f"seq={rows.seq + 1 - room} or more, or fewer labels")
    return room


def _draw(task: Spans, right: set[int], count: int, random: Random) -> list[int]:
    """The names of a row and some others, in any order."""
    others = sorted({*range(count)} - right)
    number = min(len(others), random.randint(not right, task.negatives))
    names = [*sorted(right), *random.sample(others, number)][:MOST_NAMES]
    return random.sample(names, len(names))


def _token(written: str, usual: int, vocabulary: Vocabulary, role: str) -> int:
    number = vocabulary.tokenizer.token_to_id(written) if written else usual
    if number is None or number < 0:
        message = f"the vocabulary has no token {role}={written!r} of spans"
        raise DataError(message, f"{role}= the name of a special token")
    return int(number)
