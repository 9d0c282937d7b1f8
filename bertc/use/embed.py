"""``bertc embed``: vectors of the texts of files, written, or compared with that of one text.

``bertc export --static`` is a table of token vectors in place of a network, as model2vec makes it.
Each token is read alone, between special tokens. Its vector is turned to the principal axes of all,
of which the first ``WIDTH`` stay, and weighs less the more frequent the token is. A text has the
mean of its tokens' vectors (Tulkens & van Dongen 2024, model2vec/distill).

Axes: n tokens that have a vector, v vocabulary, b rows, s positions, e embedding.
"""

import glob
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from bertc.base.diagnostics import DataError, MissingColumnError, MissingInputError, UsageError
from bertc.base.storage import durable
from bertc.base.storage.paths import is_file, is_folder, user_path
from bertc.cost import units
from bertc.hub.folders import MODULES, SETTINGS, replacing
from bertc.hub.sentences import Sentences, vectors_of
from bertc.ir.learning import TOKENS_HEAD, Embed, TextKind
from bertc.ir.program.settings import RunPrecision
from bertc.learn.objectives import MicroBatch
from bertc.learn.objectives.softmax.similarities import pooled
from bertc.machine.display import choose
from bertc.model import Model
from bertc.run.evaluation.tasks import evaluate_files
from bertc.run.models.loading import load, place_on_device
from bertc.run.models.vectors import Embedded, TextRow, embed, in_batches, likeness
from bertc.tasks.examples.task_rows import fill_template, template_of
from bertc.tasks.layouts.related import read_texts
from bertc.tasks.layouts.table import DataPart, rows_of
from bertc.text.cache.store import Progress
from bertc.text.sources.files import has_columns, matching_files
from bertc.text.sources.sequences import has_sequences
from bertc.text.sources.source import lines, opened_stream
from bertc.text.vocab.vocabulary import Vocabulary, vocabulary_of
from bertc.use.answer_files import AnswerRow

WIDTH = 256
HALVED_AT = 1e-4
"""The frequency at which a token weighs half (Arora et al. 2017, a)."""
_UNUSED = re.compile(r"\[unused\d+\]")


class PlacedText(NamedTuple):
    """A text and its place: file and line."""

    place: str
    text: str


def embed_file(
    run: Path,
    file: Path,
    pooling: str = "",
    *,
    column: str = "",
    near: str = "",
    top: int = 5,
    normalise: bool | None = None,
    prompt: str = "",
    width: int = 0,
    to: Path | None = None,
    device: str = "auto",
    precision: RunPrecision = "fp32",
) -> tuple[list[PlacedText], Embedded, list[AnswerRow]]:
    """Rows of a file, or of those that a pattern matches; their vectors; the nearest to ``near``.

    A row is a line, or one of a table, whose texts are in ``column``. It is read as a document,
    unless there is a ``prompt``, and ``near`` as a query; the ``top`` nearest have scores. Vectors
    will be written to ``to``.
    """
    if is_folder(user_path(file)):
        raise MissingInputError(f"{file} is a folder", help=f'a pattern: "{file}/**/*.md"')
    name = glob.escape(str(file)) if is_file(user_path(file)) else str(file)
    paths = (path for path in matching_files(name) if isinstance(path, Path))  # none in a store
    rows = [row for path in paths for row in _rows(path, column)]
    if not rows:
        raise DataError(f"{file} has no texts", help="one text a line, or a table")
    model = load(run)
    ways = vectors_of(run, model.resolved)
    if to and to.suffix == ".npy" and not pooling and ways and ways.is_sparse:
        message = f"{to}: sparse vectors are indices and weights, and .npy has one array"
        raise UsageError(message, help=f"-o {to.with_suffix('.parquet')}")
    place_on_device(model, device, precision)
    embedding = partial(embed, model, run, pooling=pooling, normalise=normalise, width=width)
    with closing(choose(quiet=False)) as display:
        kind: TextKind | None = "document" if near and not prompt else None
        texts = [row.text for row in rows]
        embedded = embedding(texts, prompt=prompt, kind=kind, progress=display)
    if not near:
        return rows, embedded, []
    ((scores_n,),) = likeness(model, run, embedding([near], kind="query"), embedded)
    best = scores_n.argsort(descending=True, stable=True).tolist()
    scored = ({"score": round(float(scores_n[number]), 6), **rows[number]._asdict()}
              for number in best if texts[number].strip())  # fmt: skip
    return rows, embedded, [*islice(scored, top)]


def _rows(path: Path, column: str) -> Iterator[PlacedText]:
    """The rows of a file with columns, or where none is named the lines of any other."""
    if not column and not has_columns(path):
        with opened_stream(path) as stream:
            yield from (PlacedText(f"{path}:{number}", line) for number, line in lines(stream))
        return
    columns = (column or ("sequence" if has_sequences(path) else "text"),)
    try:
        for _, place, cells in rows_of(DataPart(path), columns, ()):
            yield PlacedText(place, *read_texts(cells, columns, place))
    except MissingColumnError as error:
        help = f"--text COLUMN names the column of the text: {error.help}"
        raise DataError(error.message, help) from None


def refuse_other_files(to: Path) -> None:
    """Refuse a file of another kind, or in no folder, before vectors are made."""
    if to.suffix not in (".npy", ".parquet"):
        raise UsageError(f"{to}: vectors are written as .npy or .parquet", help="-o vectors.npy")
    if not is_folder(to.absolute().parent):
        raise UsageError(f"there is no folder {to.parent}", help="-o in one that is there")


def write_vectors(texts: Sequence[str], embedded: Embedded, to: Path) -> None:
    """Write vectors to a ``.npy`` file, or with their texts to a ``.parquet`` file.

    Of sparse ones it has ``indices``, the ids of tokens in rising order, and their ``weights``.
    """
    stream, vectors = BytesIO(), embedded.of_texts
    if to.suffix == ".npy":
        np.save(stream, embedded.vectors)
    else:
        import pyarrow as pa
        from pyarrow.parquet import write_table

        columns, is_sparse = {"text": pa.array(texts, pa.string())}, vectors[0].is_sparse
        sizes = [vector._nnz() if is_sparse else len(vector) for vector in vectors]
        begins = pa.array(np.cumsum([0, *sizes], dtype=np.int32))
        if is_sparse:
            ids = torch.cat([vector.indices()[0].int() for vector in vectors])
            weights = torch.cat([vector.values() for vector in vectors])
            for name, numbers in (("indices", ids), ("weights", weights)):
                columns[name] = pa.ListArray.from_arrays(begins, pa.array(numbers.numpy()))
        else:
            numbers = torch.cat([*vectors]).flatten()
            lists = pa.FixedSizeListArray.from_arrays(pa.array(numbers.numpy()), embedded.width)
            by_token = vectors[0].dim() == 2
            columns["vector"] = pa.ListArray.from_arrays(begins, lists) if by_token else lists
        write_table(pa.table(columns), stream)
    durable.replace(to, stream.getvalue())


@dataclass(frozen=True)
class StaticFolder:
    """A written folder: its table (v, e), the tokens with a vector, and scores on dev."""

    path: Path
    shape: tuple[int, int]
    tokens: int
    notes: tuple[str, ...]

    def summary(self) -> str:
        """The file, its size, and what is lost."""
        rows, width = self.shape
        size = units.bytes_text(4 * rows * width)
        first = f"{self.path}: {self.tokens:,} vectors of {width} numbers, {size}"
        return "\n".join([f"{first}, for SentenceTransformer", *self.notes])


def export_static(run: Path, to: Path) -> StaticFolder:
    """Write a folder that ``SentenceTransformer`` reads as StaticEmbedding, and compare it on dev.

    Raises:
        DataError: if the network makes vectors of tokens, or other ones than bertc computes.
    """
    with replacing(to) as fresh:
        model = load(run)
        vocabulary = vocabulary_of(run, model.resolved.encoder.vocab_size)
        ways = vectors_of(run, model.resolved) or Sentences()
        ways.refuse_obstacle(run)
        if not isinstance(ways.pooling, str):
            message = f"{run} makes {ways}, and a table has one vector a text"
            raise DataError(message, help="a run of embed with pooling=mean, cls, max or last")
        place_on_device(model, "auto", "fp32")
        numbers = _read_alone(vocabulary)
        display = choose(quiet=False)
        states_ne = _states(model, vocabulary, numbers, ways, display)
        display.close()
        vectors_ne = on_main_axes(states_ne)[:, :WIDTH] * weights(len(numbers))[:, None]
        table_ve = torch.zeros(vocabulary.size, vectors_ne.shape[1])
        table_ve[numbers] = vectors_ne.float()
        modules = {"": "StaticEmbedding", "1_Normalize": "Normalize"}
        written = [
            {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for n, (path, kind) in enumerate(modules.items())
        ]
        (fresh / "model.safetensors").write_bytes(save({"embedding.weight": table_ve}))
        vocabulary.tokenizer.save(str(fresh / "tokenizer.json"))
        (fresh / MODULES).write_text(json.dumps(written, indent=2) + "\n")
        (fresh / SETTINGS).write_text('{"similarity_fn_name": "cosine"}\n')
    notes = _compare(run, model, table_ve, vocabulary)
    return StaticFolder(to, (*table_ve.shape,), len(numbers), notes)


def _read_alone(vocabulary: Vocabulary) -> list[int]:
    """Tokens that stand for text, with those for unknown text and padding, by their ids."""
    stays = {vocabulary.pad, vocabulary.unk}
    numbers = (n for n in range(vocabulary.size) if n in stays or not vocabulary.special[n])
    return [number for number in numbers if not _UNUSED.match(vocabulary.token(number))]


@torch.no_grad()
def _states(
    model: Model, vocabulary: Vocabulary, numbers: list[int], ways: Sentences, show: Progress
) -> Tensor:
    """The vector (n, e) of each token as a text."""
    assert isinstance(ways.pooling, str), "others are refused"
    maps = [*model.heads[TOKENS_HEAD].children()] if ways.dense else []
    template, rows, vectors = template_of(vocabulary), list[TextRow](), list[Tensor]()
    for number in numbers:
        ids, segments = zip(*fill_template(template, [number], None), strict=True)
        rows.append(TextRow(sum(map(list, ids), []), sum(map(list, segments), [])))
    show.begin("reading every token", len(rows), "tokens")
    for part, inputs in in_batches(model, rows, vocabulary.pad):
        assert inputs.attention_mask is not None, "rows are padded"
        states_bsh = model.read_on(inputs).last
        vectors.append(pooled(ways.pooling, states_bsh, inputs.attention_mask, maps).cpu())
        show.advance(len(part))
    show.end()
    return torch.cat(vectors).double()


def on_main_axes(states_ne: Tensor) -> Tensor:
    """Vectors on their principal axes, the widest first; the largest number of each is positive."""
    centred_ne = states_ne - states_ne.mean(0)
    axes_ee: Tensor = torch.linalg.eigh(centred_ne.T @ centred_ne).eigenvectors
    turned_ne = centred_ne @ axes_ee.flip(1)
    largest_1e = turned_ne.gather(0, turned_ne.abs().argmax(0, keepdim=True))
    return turned_ne * largest_1e.sign()


def weights(count: int) -> Tensor:
    """The weights (n,) of tokens whose frequencies fall with their order by Zipf's law."""
    chances_n = 1 / torch.arange(2, count + 2, dtype=torch.float64)
    return HALVED_AT / (HALVED_AT + chances_n / chances_n.sum())


def _compare(run: Path, model: Model, table_ve: Tensor, vocabulary: Vocabulary) -> tuple[str, ...]:
    """Scores of the table next to those of the network, on the dev part of the run's own task."""
    learned = [task for stage in model.resolved.stages for task in stage.tasks]
    tasks = [task for task in learned if isinstance(task, Embed)]
    if not tasks:
        left = ", ".join(dict.fromkeys(task.title for task in learned))
        alone = f"vectors of tokens leave alone, without the answers of {left}: --to has its head"
        return ("compared on nothing: the run has no task embed", *[alone] * bool(left))
    title, special_v = tasks[-1].title, torch.from_numpy(vocabulary.special)

    def score(batch: MicroBatch) -> tuple[Tensor, Tensor]:
        ids_bs = batch.reading.token_ids.cpu()
        vectors_be = pooled("mean", table_ve[ids_bs], ~special_v[ids_bs])
        return torch.nn.functional.normalize(vectors_be, dim=-1), torch.zeros(4)

    try:
        network, _ = evaluate_files(run, title)
        static, _ = evaluate_files(run, title, within=lambda _: score)
    except (DataError, MissingInputError) as error:
        return (f"compared on nothing: {error.message}",)
    return tuple(
        f"{title} {part}: {metric} {value:.4f}, of the network {scores[metric]:.4f}"
        for part, scores in network.scores[title].items()
        for metric, value in static.scores[title][part].items()
    )
