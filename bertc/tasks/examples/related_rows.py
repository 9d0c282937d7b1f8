"""Rows of texts that are compared: to embed, to search, and with a query to rank."""

import string
from operator import itemgetter

import numpy as np

from bertc.base.diagnostics import DataError
from bertc.ir.learning import AnyTask, Embed, Rerank, TokenVectors
from bertc.tasks.examples.task_rows import ATTENDED, MATCHED, RowBuilder, cut, fitted, ids_of
from bertc.tasks.layouts.example import ChoiceExample, Examples, SearchExample, TextExample


class _TextRows:
    """Rows of a text each; of vectors of tokens with a mark, filled up and with uses of tokens."""

    def __init__(self, task: Embed, rows: RowBuilder) -> None:
        self.rows, self.by_token, self.longest = rows, task.answer.by_token, task.longest
        self.token = rows.vocabulary.tokenizer.token_to_id
        self.skipped = {self.token(sign) for sign in string.punctuation}

    def add(self, number: int, tokens: list[int], target: float, *, query: bool) -> bool:
        """Add a row; True if the text was cut."""
        rows, late, mark, filled = self.rows, self.by_token, list[int](), list[int]()
        if late is None:
            text = fitted(tokens, None, rows)
        else:
            longest = late.query if query else self.longest or rows.seq
            room, mark = min(longest, rows.seq) - rows.template.specials(1), self._mark(late, query)
            text = [*mark, *cut(tokens, room - len(mark), rows)], None
            if query and late.fill != "none":
                filled = [rows.vocabulary.mask] * (room - len(text[0]))
            skipped = set() if query or late.skip == "none" else self.skipped
            before, after = (len(ids) for ids, _ in (rows.template.before, rows.template.after))
            uses = [ATTENDED | MATCHED * (token not in skipped) for token in text[0]]
            uses = [ATTENDED | MATCHED] * before + uses + [ATTENDED | MATCHED] * after
            uses += [MATCHED | ATTENDED * (late.fill == "attended")] * len(filled)
            rows.uses.append(np.array(uses, dtype=np.uint8))
        rows.add(number, text, (target,), filled=filled)
        return len(text[0]) < len(mark) + len(tokens)

    def _mark(self, late: TokenVectors, query: bool) -> list[int]:
        """The token before a query or a passage, if there is one."""
        name = "query_mark" if query else "passage_mark"
        if not (mark := getattr(late, name)):
            return []
        if (token := self.token(mark)) is None:
            message = f"the vocabulary has no token {mark!r}, which {name} puts before texts"
            help = f"{name}=... with a token that it has, as [unused0] in BERT's, or leave it out"
            raise DataError(message, help)
        return [token]


def related(task: Embed, examples: Examples, rows: RowBuilder) -> None:
    """Add a row for each text; a text alone has two, which differ by dropout."""
    related, text_rows = [e for e in examples if isinstance(e, TextExample)], _TextRows(task, rows)
    prompted = [task.prompt_of(nth) + text for e in related for nth, text in enumerate(e.texts)]
    ids = iter(ids_of(rows.vocabulary, prompted))
    for number, example in enumerate(related):
        texts = [next(ids) for _ in example.texts]
        texts = texts if len(texts) > 1 else texts * 2
        score = example.answer
        if isinstance(score, tuple):  # one for each text but the first
            targets = (float(score[0]), *map(float, score))
        else:
            targets = (float("nan") if score is None else float(score),) * len(texts)
        cut_ones = [
            text_rows.add(number, tokens, target, query=nth == 0)
            for nth, (tokens, target) in enumerate(zip(texts, targets, strict=True))
        ]
        rows.num_cut += any(cut_ones)


def searched(task: Embed, examples: Examples, rows: RowBuilder) -> None:
    """Add a row for each query and each document of a search."""
    searched = [e for e in examples if isinstance(e, SearchExample)]
    text_rows = _TextRows(task, rows)
    prompted = [task.prompt_of(e.relevant is None) + e.text for e in searched]
    for number, tokens in enumerate(ids_of(rows.vocabulary, prompted)):
        query = searched[number].relevant is not None
        rows.num_cut += text_rows.add(number, tokens, float("nan"), query=query)


def lists(task: Rerank, examples: Examples, rows: RowBuilder) -> None:
    """Add a row of the query with each of its passages, of which the first answers it."""
    lists = [e for e in examples if isinstance(e, ChoiceExample)]
    ids = iter(ids_of(rows.vocabulary, [t for e in lists for t in (e.question, *e.choices)]))
    for number, example in enumerate(lists):
        query, *passages = [next(ids) for _ in range(1 + len(example.choices))]
        pairs = [fitted(query, passage, rows) for passage in passages]
        rows.num_cut += pairs != [(query, passage) for passage in passages]
        for pair in pairs:
            rows.add(number, pair, (0.0,))


def in_pairs(task: AnyTask, examples: Examples) -> Examples:
    """Lists of passages as pairs of the query with each, the positive with a label of 1."""
    lists = [example for example in examples if isinstance(example, ChoiceExample)]
    if not (isinstance(task, Rerank) and lists):
        return examples
    numbered = [(nth, e, text) for e in lists for nth, text in enumerate(e.choices)]
    pairs: dict[tuple[str, str], TextExample] = {}
    for nth, example, text in sorted(numbered, key=itemgetter(0)):  # positives first
        texts = example.question, text
        pairs.setdefault(texts, TextExample(example.key, texts, float(nth == 0)))
    return [*pairs.values()]
