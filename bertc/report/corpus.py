"""The text or the examples of a run: lengths, unknown tokens, copies, labels."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertc.data import PreparedCorpus, Vocabulary, encode, vocabulary_of
from bertc.data.layouts import training_examples
from bertc.data.layouts.example import LabelledExample
from bertc.diagnostics import DataError
from bertc.ir.learning.custom_task import AnyTask
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.report.markup import Content, element, in_picture, note_below, table_of
from bertc.report.page import Picture
from bertc.report.plotly_js import COLOURS, figure, picture_title, trace
from bertc.report.prepared import SENTENCES, prepared_text, sentences

EXAMPLES = 20_000
"""Examples of a task that are looked at, at most."""
BINS, MOST_LABELS = 40, 40


def corpus_section(resolved: Resolved, run: Path, cache: Path) -> Sequence[Content | Picture]:
    """The text of a run from the cache, and the training examples of its tasks.

    Raises:
        MissingInputError: if the text is not in the cache, or files of a task are gone.
        DataError: if they cannot be read, or there is nothing.
    """
    body: list[Content | Picture] = []
    if corpus := prepared_text(resolved, run, cache):
        body += _of_text(corpus)
    stage = resolved.stages[-1]
    for task in stage.tasks:
        vocabulary = vocabulary_of(run, stage.encoder.vocab_size)
        body += _of_task(task, stage, vocabulary)
    if not body:
        raise DataError("the run names no text")
    return body


def _of_text(corpus: PreparedCorpus) -> Sequence[Content | Picture]:
    rows, pictures = [], []
    unknown = corpus.vocabulary.unk
    for text in corpus.texts:
        read = list(sentences(text.train, SENTENCES))
        lengths = [len(ids) for ids in read]
        facts = text.facts["train"]
        rows.append(
            (
                str(text.facts["name"]),
                f"{facts['tokens']:,}",
                f"{facts['sentences']:,}",
                f"{facts['documents']:,}",
                f"{text.heldout.count:,}",
                _share(sum(ids.count(unknown) for ids in read), sum(lengths)),
                _share(_copies(map(tuple, read)), len(read)),
            )
        )
        name = in_picture(Path(str(text.facts["name"])).name)
        pictures.append(_histogram(lengths, f"Tokens a sentence: {name}"))
        documents = np.diff(text.train.sentences[text.train.documents[: SENTENCES + 1]]) - 1
        pictures.append(_histogram(documents.tolist(), f"Tokens a document: {name}"))
    head = ("text", "tokens", "sentences", "documents", "held out", "unknown", "copies")
    remark = (
        f"Tokens that the vocabulary does not know, and sentences that stand in the text before: "
        f"of at most {SENTENCES:,} sentences of each text, from all over it."
    )
    return (table_of(head, rows), *_languages(corpus), note_below(remark), *pictures)


def _languages(corpus: PreparedCorpus) -> Sequence[Content]:
    """The share of each language in the rows that are read first, where there are several."""
    names = corpus.resolved.languages
    if len(names) < 2:
        return ()
    stage = corpus.resolved.stages[-1]
    data = corpus.stages[-1]
    drawn: Counter[int] = Counter()
    for step in range(max(1, 2000 // stage.batch)):
        batch: Any = data.train(step)
        drawn.update(batch.languages.reshape(-1).tolist())
    total = sum(drawn.values())
    rows = ((names[n] if n < len(names) else "", _share(k, total)) for n, k in drawn.most_common())
    return (table_of(("language", "share of the rows"), rows),)


def _of_task(task: AnyTask, stage: Stage, vocabulary: Vocabulary) -> Sequence[Content | Picture]:
    examples = training_examples(task)
    sample = examples[:: -(-len(examples) // EXAMPLES)]
    rows = encode(task, sample, vocabulary, stage.seq, stage.encoder.kinds_of_segments)
    ids = rows.token_ids
    texts = (each.texts for each in sample if isinstance(each, LabelledExample))
    facts: list[Sequence[Content]] = [
        ("training examples", f"{len(examples):,}"),
        ("cut to the length of a row", _share(rows.num_cut, len(sample))),
        ("unknown tokens", _share(int((ids == vocabulary.unk).sum()), len(ids))),
        ("copies of another example", _share(_copies(texts), len(sample))),
    ]
    body: list[Content | Picture] = [element("h3", task.title), table_of(("", ""), facts)]
    body.append(_histogram(rows.lengths.tolist(), f"Tokens a row: {in_picture(task.title)}"))
    labels = Counter(e.label for e in sample if isinstance(e, LabelledExample) and e.label)
    if 1 < len(labels) <= MOST_LABELS:
        bars = trace(
            "bar",
            x=[in_picture(label) for label, _ in labels.most_common()],
            y=[count for _, count in labels.most_common()],
            marker={"color": COLOURS[1]},
        )
        made = figure([bars], title=picture_title("Labels"), xaxis={"type": "category"})
        body.append(Picture(made))
    if len(sample) < len(examples):
        body.append(note_below(f"Of a sample of {len(sample):,} examples."))
    return body


def _copies(texts: Iterable[object]) -> int:
    """The number of these that were there before."""
    hashes = [hash(text) for text in texts]
    return len(hashes) - len({*hashes})


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2%}" if whole else ""


def _histogram(lengths: Sequence[int], title: str) -> Picture:
    """Bars of how many texts are how long; those beyond the last percent are one bar."""
    far = max(1, int(np.quantile(lengths, 0.99))) if lengths else 1
    width = max(1, -(-far // BINS))
    counts, edges = np.histogram(
        np.minimum(lengths, far), bins=np.arange(0, far + 2 * width, width)
    )
    bars = trace(
        "bar",
        x=edges[:-1].tolist(),
        y=counts.tolist(),
        width=width,
        offset=0,
        marker={"color": COLOURS[0]},
        hovertemplate="%{x} to %{customdata}: %{y:,}<extra></extra>",
        customdata=(edges[1:] - 1).tolist(),
    )
    made = figure(
        [bars], title=picture_title(title), height=240, xaxis={"title": {"text": "tokens"}}
    )
    return Picture(made)
