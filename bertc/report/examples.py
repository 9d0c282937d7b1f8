"""Answers of a trained model: masks of held-out text, hard examples, a confusion matrix."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bertc.data import Vocabulary, vocabulary_of
from bertc.data.layouts import scored_examples, scored_parts
from bertc.data.layouts.example import Example
from bertc.diagnostics import DataError
from bertc.evaluation.task_lookup import nothing_to_judge_by
from bertc.inference.fill_mask import MASK, filled
from bertc.inference.filled import Candidate, Filled
from bertc.inference.predict import answered
from bertc.interop.loading import load
from bertc.ir.learning.answer import Labels
from bertc.ir.learning.custom_task import AnyTask
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.nn import Model
from bertc.report.markup import Content, Html, element, in_picture, note_below
from bertc.report.page import Picture
from bertc.report.plotly_js import COLOUR_SCALE, figure, labels_axis, picture_title, trace
from bertc.report.prepared import prepared_text, sentences
from bertc.tasks.gold import AnswerValue, gold

SECONDS, AT_ONCE, MOST_ASKED = 20.0, 64, 2048
"""Time for answers, and examples of a task that are asked at once and in all."""
TOP, SHORTEST, LONGEST_SHOWN = 5, 8, 48
"""Candidates shown for a mask; tokens of sentences that masks are put into."""
MOST_LABELS, MOST_SHOWN = 30, 600
"""Labels of a confusion matrix, and characters shown of an example."""


def examples_section(
    resolved: Resolved, run: Path, cache: Path, count: int
) -> Sequence[Content | Picture]:
    """Answers of the trained model, to dev examples of its task or to masks in held-out text.

    Raises:
        MissingInputError: if there is no model, or no text or examples to ask it about.
        DataError: if files are damaged, or no objective of the model predicts tokens.
    """
    model = load(run).eval()
    stage = resolved.stages[-1]
    vocabulary = vocabulary_of(run, stage.encoder.vocab_size)
    if stage.tasks:
        return [
            part for task in stage.tasks for part in _of_task(model, stage, task, vocabulary, count)
        ]
    return _of_text(model, resolved, run, vocabulary, cache, count)


def first_text(resolved: Resolved, run: Path, cache: Path) -> tuple[str, str]:
    """The first held-out sentence or scored example with words, and its second text or "".

    Raises:
        MissingInputError, DataError: as ``examples_section``.
    """
    stage = resolved.stages[-1]
    for task in stage.tasks:
        if parts := scored_parts(task):
            example = scored_examples(task, next(iter(parts.values())))[0]
            texts = list(_texts(example))
            return texts[0], texts[1] if len(texts) > 1 else ""
    vocabulary = vocabulary_of(run, stage.encoder.vocab_size)
    if corpus := prepared_text(resolved, run, cache):
        for text in corpus.texts:
            for ids in sentences(text.heldout, MOST_ASKED):
                if len(ids) >= SHORTEST:
                    return _decoded(vocabulary, ids), ""
    raise DataError("there is no text to look at")


def _of_text(
    model: Model, resolved: Resolved, run: Path, vocabulary: Vocabulary, cache: Path, count: int
) -> Sequence[Content]:
    corpus = prepared_text(resolved, run, cache)
    assert corpus is not None, "its stages are of text"
    read = (ids for text in corpus.texts for ids in sentences(text.heldout, 40 * count))
    asked = (each for ids in read if (each := _masked(ids, vocabulary, _ends(resolved))))
    until, shown = time.monotonic() + SECONDS, list[Content]()
    for text, right in islice(asked, count):
        shown.append(_filled(filled(model, vocabulary, text, TOP), right))
        if time.monotonic() > until:
            break
    if not shown:
        raise DataError("the held-out text has no sentence to put a mask into")
    return (
        element("div", shown, class_="examples"),
        note_below("Of held-out text. Green: the token that stands there."),
    )


def _ends(resolved: Resolved) -> bool:
    """True if the model predicts what follows a text and no masks in it."""
    kinds = {term.objective.fills for term in resolved.stages[-1].objective}
    return "end" in kinds and "masks" not in kinds


def _masked(ids: list[int], vocabulary: Vocabulary, ends: bool) -> tuple[str, str] | None:
    """A sentence with a mask in the place of one word of one token, and that token."""
    if not SHORTEST <= len(ids) <= LONGEST_SHOWN:
        return None
    starts = vocabulary.word_start
    places = [
        at
        for at in range(len(ids) // 2, len(ids) - 1)
        if starts[ids[at]] and starts[ids[at + 1]] and not vocabulary.special[ids[at]]
        and any(letter.isalpha() for letter in _decoded(vocabulary, ids[at : at + 1]))
    ]  # fmt: skip
    if not places:
        return None
    at = places[0]
    before, right = _decoded(vocabulary, ids[:at]), _decoded(vocabulary, ids[at : at + 1])
    after = "" if ends else f" {_decoded(vocabulary, ids[at + 1 :])}"
    return f"{before} {MASK}{after}", right


def _decoded(vocabulary: Vocabulary, ids: list[int]) -> str:
    return str(vocabulary.tokenizer.decode(ids, skip_special_tokens=False)).strip()


def _filled(said: Filled, right: str) -> Html:
    """A text with its mask, and the candidates as bars."""
    before, _, after = said.text.partition(MASK)
    candidates = said.masks[0] if said.masks else ()
    verdicts = (
        element("span", f"{each.token} ", title=f"replaced: {each.replaced:.1%}",
                style=f"opacity: {0.45 + 0.55 * each.replaced:.2f}")
        for each in said.verdicts
    )  # fmt: skip
    return element(
        "div",
        before, element("mark", right), after,
        _bars(candidates, right) if candidates else None,
        element("p", "As it reads it, what it thinks replaced darker: ", verdicts, class_="note")
        if said.verdicts else None,
        class_="example",
    )  # fmt: skip


def _bars(candidates: Sequence[Candidate], right: str) -> Html:
    cells: list[Content] = []
    for each in candidates:
        hit = each.token == right
        cells.append(element("span", each.token, class_="right" if hit else None))
        share = f"{100 * each.probability:.1f}"
        cells.append(
            element("span", f"{share}%", class_="bar", style=f"background-size: {share}% 100%")
        )
    return element("div", cells, class_="bars")


@dataclass(frozen=True)
class _Answer:
    """An example with what was said of it, and the probability of its gold answer or of that."""

    example: Example
    said: AnswerValue
    gold: AnswerValue
    chances: tuple[float, ...]
    of_gold: float


def _of_task(
    model: Model, stage: Stage, task: AnyTask, vocabulary: Vocabulary, count: int
) -> Sequence[Content | Picture]:
    parts = scored_parts(task)
    if not parts:
        raise nothing_to_judge_by(task)
    part, source = next(iter(parts.items()))
    every = scored_examples(task, source)
    sample = every[:: -(-len(every) // MOST_ASKED)]
    answers = list(_answers(model, stage, task, vocabulary, sample))
    body: list[Content | Picture] = [element("h3", f"{task.title}, {part}")]
    if isinstance(task.answer, Labels) and 1 < len(task.answer.names) <= MOST_LABELS:
        body.append(_confusion(answers, task.answer.names))
    wrong = sorted((a for a in answers if a.said != a.gold), key=lambda answer: answer.of_gold)
    body.append(element("h3", "Hard examples"))
    body.append(element("div", map(_hard, wrong[:count]), class_="examples"))
    body.append(
        note_below(
            f"Of {len(answers):,} of {len(every):,} examples, {len(wrong):,} were answered "
            "otherwise; first those whose right answer seemed least likely."
        )
    )
    return body


def _answers(
    model: Model, stage: Stage, task: AnyTask, vocabulary: Vocabulary, examples: list[Example]
) -> Iterator[_Answer]:
    """Answers to examples in their order, as many as there is time for."""
    until = time.monotonic() + SECONDS
    for first in range(0, len(examples), AT_ONCE):
        asked = examples[first : first + AT_ONCE]
        found = answered(model, stage, task, asked, vocabulary).answers
        for number, (example, said) in enumerate(zip(asked, found.given, strict=True)):
            chances = found.probabilities[number] if found.probabilities else ()
            right = gold(example)
            yield _Answer(example, said, right, chances, _chance(task, right, chances))
        if time.monotonic() > until:
            return


def _chance(task: AnyTask, right: AnswerValue, chances: tuple[float, ...]) -> float:
    if isinstance(task.answer, Labels):
        return chances[task.answer.names.index(str(right))]
    if isinstance(right, int) and right < len(chances):
        return chances[right]
    return 0.0


def _confusion(answers: Sequence[_Answer], names: Sequence[str]) -> Picture:
    counts = [
        [sum(a.gold == right and a.said == said for a in answers) for said in names]
        for right in names
    ]
    labels = [in_picture(name) for name in names]
    square = trace(
        "heatmap", z=counts, x=labels, y=labels, colorscale=COLOUR_SCALE, texttemplate="%{z}",
        xgap=2, ygap=2, showscale=False, hovertemplate="%{y}, answered %{x}: %{z}<extra></extra>",
    )  # fmt: skip
    made = figure(
        [square],
        title=picture_title("Right label, by the label that was answered"),
        height=220 + 24 * len(names),
        xaxis=labels_axis(labels, title={"text": "answered"}),
        yaxis=labels_axis(labels, title={"text": "right"}, autorange="reversed"),
    )
    return Picture(made)


def _hard(answer: _Answer) -> Html:
    chance = max(answer.chances, default=0.0)
    sure = f" ({chance:.1%})" if chance and isinstance(answer.said, str | int) else ""
    return element(
        "div",
        *(element("p", text) for text in _texts(answer.example)),
        element("p", element("span", f"right: {_value(answer.gold)}", class_="good")),
        element("p", element("span", f"answered: {_value(answer.said)}{sure}", class_="bad")),
        class_="example",
    )


def _value(value: AnswerValue) -> str:
    text = " ".join(value) if isinstance(value, tuple) else str(value)
    return text[:MOST_SHOWN] or "no answer"


def _texts(example: Example) -> Iterator[str]:
    """The texts of an example, whatever its kind."""
    for name, value in vars(example).items():
        if name in ("key", "label", "score", "answer", "answers", "tags", "has_answer"):
            continue
        texts = value if name in ("texts", "choices") else [value]
        for text in [" ".join(value)] if name == "words" else texts:
            if text:
                yield str(text)[:MOST_SHOWN]
