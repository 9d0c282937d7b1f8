"""Encoding of a task's examples: templates, truncation, windows, positions of answers."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from bertc.base.diagnostics import DataError
from bertc.base.storage.plain_file import shown
from bertc.ir.learning import Embed, Race, Rerank, Squad, Tagging
from bertc.ir.learning.answer import Answer, Score, Several, label_names
from bertc.ir.learning.custom_task import AnyTask, Choose, Classify, Read, Regress, Spans, Tag
from bertc.tasks.examples.named_rows import first_tokens, read_spans
from bertc.tasks.examples.related_rows import lists, related, searched
from bertc.tasks.examples.task_rows import RowBuilder, TaskRows, encodings_of, fitted, ids_of
from bertc.tasks.layouts import example as kinds
from bertc.text.vocab.vocabulary import Vocabulary


def encode(
    task: AnyTask,
    examples: kinds.Examples,
    vocabulary: Vocabulary,
    seq: int,
    segments: int,
    causal: bool = False,
) -> TaskRows:
    """Encode examples in rows of at most ``seq`` tokens and ``segments`` token types.

    In a ``causal`` network the last token stands for its row.
    """
    if isinstance(task, Embed) and task.longest and not task.answer.by_token:
        seq = min(seq, task.longest)
    rows = RowBuilder(vocabulary, seq, segments, spans=task.answer.kind == "span", causal=causal)
    if not examples:
        return rows.finish()
    match examples[0]:
        case kinds.TextExample() if isinstance(task, Embed):
            related(task, examples, rows)
        case kinds.SearchExample():
            assert isinstance(task, Embed), "a search is by vectors"
            searched(task, examples, rows)
        case kinds.TextExample():
            _texts(task, examples, rows)
        case kinds.ChoiceExample() if isinstance(task, Rerank):
            lists(task, examples, rows)
        case kinds.ChoiceExample():
            _choices(task, examples, rows)
        case kinds.TaggedExample() if isinstance(task, Spans):
            return read_spans(task, examples, rows)
        case kinds.TaggedExample():
            _tagged(task, examples, rows)
        case kinds.QuestionExample():
            _windows(task, examples, rows)
        case unreachable:
            assert_never(unreachable)
    return rows.finish()


def _texts(task: AnyTask, examples: kinds.Examples, rows: RowBuilder) -> None:
    """Add single texts and pairs; long pairs lose tokens of the longer text."""
    stride = task.stride if isinstance(task, Classify | Regress) else 0
    numbers = {name: i for i, name in enumerate(label_names(task.answer))}
    texts = [e for e in examples if isinstance(e, kinds.TextExample)]
    firsts = ids_of(rows.vocabulary, [e.texts[0] for e in texts])
    seconds = iter(ids_of(rows.vocabulary, [e.texts[1] for e in texts if len(e.texts) > 1]))
    for number, (example, first) in enumerate(zip(texts, firsts, strict=True)):
        second = next(seconds) if len(example.texts) > 1 else None
        pairs = _rows_of(first, second, stride, rows)
        rows.num_windowed += len(pairs) > 1
        rows.num_cut += len(pairs) == 1 and pairs[0] != (first, second)
        for pair in pairs:
            rows.add(number, pair, _target(task.answer, example, numbers))


def _rows_of(
    first: list[int], second: list[int] | None, stride: int, rows: RowBuilder
) -> list[tuple[list[int], list[int] | None]]:
    """A text or pair cut to a row; with ``stride`` windows of the longer text, with the other."""
    room = rows.max_tokens(1 if second is None else 2)
    if not stride or len(first) + len(second or ()) <= room:
        return [fitted(first, second, rows)]
    if second is None:
        return [(first[start:end], None) for start, end in windows(len(first), room, stride)]
    long, short = (first, second) if len(first) > len(second) else (second, first)
    short = short[: room // 2]
    parts = [long[start:end] for start, end in windows(len(long), room - len(short), stride)]
    return [(part, short) if len(first) > len(second) else (short, part) for part in parts]


def _target(
    answer: Answer, example: kinds.TextExample, numbers: Mapping[str, int]
) -> tuple[float, ...]:
    """The number of a label, 1 or 0 for each of several, or the scores."""
    match example.answer:
        case None:
            width = answer.width if isinstance(answer, Several | Score) else 1
            return (float("nan") if isinstance(answer, Score) else -1.0,) * width
        case str(label):
            return (float(numbers[label]),)
        case tuple(labels) if isinstance(answer, Several):
            return tuple(float(name in labels) for name in answer.names)
        case tuple(scores):
            return tuple(map(float, scores))
        case score:
            return (float(score),)


def _choices(task: AnyTask, examples: kinds.Examples, rows: RowBuilder) -> None:
    """Add a row for each choice, with a passage in the gap (``_``) of its question or behind it."""
    assert isinstance(task, Race | Choose), "choices need a task of choices"
    for number, example in enumerate(examples):
        assert isinstance(example, kinds.ChoiceExample), "examples of a task are of one kind"
        answer_index = -1.0 if example.answer is None else float(example.answer)
        question, choices = example.question, example.choices
        if example.passage:
            with_gap = question if "_" in question else f"{question} _"
            choices = tuple(with_gap.replace("_", choice, 1) for choice in choices)
        passage, *choice_ids = ids_of(rows.vocabulary, [example.passage or question, *choices])
        shortened = question_shortened = False
        for place in range(task.answer.most):
            exists = place < len(choice_ids)
            choice = choice_ids[place if exists else 0]
            if example.passage:
                question_shortened |= len(choice) > task.question
                end = task.keeps == "end"
                choice = choice[-task.question :] if end else choice[: task.question]
            pair = (passage, choice) if task.first == "passage" else (choice, passage)
            cut_pair = fitted(*pair, rows)
            shortened |= cut_pair != pair
            rows.add(number, cut_pair, (answer_index,), exists=exists)
        rows.num_cut += shortened
        rows.num_questions_cut += question_shortened


def _tagged(task: AnyTask, examples: kinds.Examples, rows: RowBuilder) -> None:
    """Add sentences, tokenised word by word; a word's first token predicts its tag."""
    assert isinstance(task, Tag | Tagging)
    numbers = {name: i for i, name in enumerate(task.answer.names)}
    max_tokens = rows.max_tokens(1)
    sentences = [e for e in examples if isinstance(e, kinds.TaggedExample)]
    tokenised = first_tokens(rows.vocabulary, [example.words for example in sentences])
    for number, (example, (ids, places)) in enumerate(zip(sentences, tokenised, strict=True)):
        tags = [numbers[tag] for tag in example.tags] or [-1] * len(example.words)
        bounds = [(0, min(len(ids), max_tokens))]
        if task.stride and len(ids) > max_tokens:
            bounds = [*windows(len(ids), max_tokens, task.stride, places[places >= 0])]
        rows.num_windowed += len(bounds) > 1
        rows.num_cut += bounds[-1][1] < len(ids)
        read = np.flatnonzero((places >= 0) & (places < bounds[-1][1]))
        rows.num_unread += len(places) - len(read)
        places = places[: read[-1] + 1] if len(read) else places[:0]  # no row reads the rest
        # A window scores the words with more context in it than in its neighbours. A word without
        # tokens goes with the word before it.
        middles = [(after + end) // 2 for (_, end), (after, _) in pairwise(bounds)]
        ends = np.searchsorted(np.maximum.accumulate(places), middles).tolist()
        words = [slice(begin, end) for begin, end in pairwise([0, *ends, len(places)])]
        for (start, end), scored in zip(bounds, words, strict=True):
            rows.add(number, (ids[start:end], None), ())
            firsts = places[scored]
            shifted = firsts - start + len(rows.template.before[0])
            rows.words.append(np.where(firsts >= 0, shifted, -1))
            rows.tags.append(np.asarray(tags[: len(places)], dtype=np.int64)[scored])


def _windows(task: AnyTask, examples: kinds.Examples, rows: RowBuilder) -> None:
    """Add rows of the question, cut, with windows over all of the passage."""
    assert isinstance(task, Squad | Read)
    with_question = [e for e in examples if isinstance(e, kinds.QuestionExample)]
    passages = list(dict.fromkeys(e.passage for e in with_question))
    encodings = encodings_of(rows.vocabulary.tokenizer.encode_batch, passages)
    tokens = {
        passage: (np.array(encoding.ids, np.int32), np.array(encoding.offsets, np.int32))
        for passage, encoding in zip(passages, encodings, strict=True)
    }
    questions = ids_of(rows.vocabulary, [e.question for e in with_question])
    room, longest = rows.max_tokens(2), max(questions, key=len)
    if (size := min(len(longest), task.question)) >= room:
        text = shown(with_question[questions.index(longest)].question)
        raise DataError(
            f"{task.title}: rows of {rows.seq} have no room for text after {size} tokens of {text}",
            f"question={room - 1} cuts questions, seq={rows.seq - room + size + 1} has room",
        )
    for number, (example, question) in enumerate(zip(with_question, questions, strict=True)):
        ids, offsets = tokens[example.passage][0], tokens[example.passage][1].reshape(-1, 2)
        question_ids = question[: task.question]
        rows.num_questions_cut += len(question) > len(question_ids)
        window = room - len(question_ids)
        bounds = [*windows(len(ids), window, task.stride)]
        rows.num_windowed += len(bounds) > 1
        rows.num_narrow += len(bounds) > 1 and window < len(question_ids)
        first, last = _answer_tokens(example, offsets)
        prefix = len(rows.template.before[0]) + len(question_ids) + len(rows.template.between[0])
        around = [np.full((n, 2), -1, np.int32) for n in (prefix, len(rows.template.behind[0]))]
        answer_read = False
        for start, end in bounds:
            inside = start <= first and last < end and first >= 0
            answer_read |= inside
            target = (prefix + first - start, prefix + last - start) if inside else (0, 0)
            characters = np.concatenate([around[0], offsets[start:end], around[1]])
            pair = question_ids, ids[start:end].tolist()
            rows.add(number, pair, target, characters, first=start)
        rows.num_unread += bool(example.answers) and not answer_read


def _answer_tokens(example: kinds.QuestionExample, offsets: NDArray[np.int32]) -> tuple[int, int]:
    if not example.answers:
        return -1, -1
    text, begin = example.answers[0]
    first = int(np.searchsorted(offsets[:, 1], begin, side="right"))
    last = int(np.searchsorted(offsets[:, 0], begin + len(text), side="left")) - 1
    return (first, last) if first <= last < len(offsets) else (-1, -1)


def windows(
    count: int, window: int, stride: int, words: NDArray[np.int64] | None = None
) -> Iterator[tuple[int, int]]:
    """First token and end of each window over ``count`` tokens, which begins every ``stride``.

    With the first tokens of ``words`` a window begins with a word, unless one is as long as it.
    """
    start = 0
    while (end := start + window) < count:
        yield start, end
        later = start + min(window, stride)
        word = later if words is None else int(words[np.searchsorted(words, later, "right") - 1])
        start = word if word > start else later
    yield start, count
