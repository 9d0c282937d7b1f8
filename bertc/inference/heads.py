"""``bertc heads``: what each attention head is worth, and what it looks at."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from bertc.data import TaskData, TaskSet, encode, prepare, vocabulary_of
from bertc.data.examples.task import in_order_of_length
from bertc.data.layouts import read_examples, scored_examples, scored_parts
from bertc.diagnostics import DataError, several
from bertc.evaluation.device import placed
from bertc.evaluation.task_lookup import columns_told, nothing_to_judge_by, task_of
from bertc.evaluation.without import transformer_of
from bertc.evaluation.word_networks import TrainedNetworks
from bertc.host.display import choose
from bertc.host.signals import Stop
from bertc.inference.attention_maps import Looks, looks, maps, pattern, unpadded
from bertc.interop.loading import load
from bertc.ir.data import Files, Share
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.ir.vocabulary import TokenizerFile
from bertc.nn import EncoderInputs, Model
from bertc.objectives import MicroBatch, corrupt, mask_key
from bertc.runs.plot import heat_map
from bertc.step.feed import to_inputs
from bertc.step.gates import gated
from bertc.step.objective import counts, divisors, make_objective, term_weights
from bertc.step.task_feed import to_micro_batch
from bertc.step.vocabulary import vocab_tensors
from bertc.storage.paths import cache_folder
from bertc.tokenizer_files.reading import tokenizer_folder
from bertc.train.session import Watched

ROWS_AT_ONCE, TOKENS_AT_ONCE = 32, 1 << 12
WIDE = 120


@dataclass(frozen=True)
class Head:
    """One head, layer and number from 0; shares are of its attention, ``score`` is |dL/dgate|."""

    layer: int
    head: int
    score: float
    entropy: float
    distance: float
    cls: float
    sep: float
    itself: float
    next: float
    previous: float
    pattern: str


@dataclass(frozen=True)
class HeadReport:
    """All heads of a network on ``rows`` rows."""

    run: Path
    rows: int
    heads: tuple[Head, ...]

    def as_json(self) -> str:
        """The report as one JSON object."""
        return json.dumps({"schema": 1, **asdict(self), "run": str(self.run)}, indent=1)

    def as_table(self) -> str:
        """A row a head."""
        title = f"{self.run}: heads, on {several(self.rows, 'row')}"
        table = Table(title=title, title_justify="left")
        table.add_column("head", justify="right")
        for name in ("score", "entropy", "distance"):
            table.add_column(name, justify="right")
        for name in ("[CLS]", "[SEP]", "itself", "next", "previous"):
            table.add_column(name, justify="right")
        table.add_column("pattern")
        for each in self.heads:
            shares = (each.cls, each.sep, each.itself, each.next, each.previous)
            table.add_row(
                f"{each.layer}.{each.head}",
                f"{each.score:.2e}",
                f"{each.entropy:.2f}",
                f"{each.distance:.1f}",
                *(f"{share:.0%}" for share in shares),
                each.pattern,
            )
        console = Console(width=WIDE, highlight=False, no_color=True)
        with console.capture() as captured:
            console.print(table)
        note = (
            "score: mean |dL/dgate| of a row; entropy in nats, distance in tokens; shares of "
            "attention; patterns of Kovaleva et al. 2019"
        )
        return f"{captured.get().rstrip()}\n{note}"

    def plot(self, path: Path) -> None:
        """Draw the scores as a heat map, as a PNG.

        Raises:
            CannotWriteError: if the disk has no room.
        """
        scores: dict[int, list[float]] = {}
        for each in self.heads:
            scores.setdefault(each.layer, []).append(each.score)
        heat_map(scores, path, title="mean |dL/dgate| of a row", across="head", signed=False)


def heads(
    run: Path,
    data: Path | None = None,
    *,
    task: str = "",
    examples: int = 512,
    device: str = "auto",
    cache: Path | None = None,
    quiet: bool = False,
) -> HeadReport:
    """Score the heads of a run by their gradients, and tell what they look at.

    ``data`` is a file in the layout of the run's task, or of text for a run on text; by default
    the dev part of its task, or its own text. ``examples`` is the number of rows, at most.

    Raises:
        MissingInputError: if there is no model, or no such file.
        DataError: if the network has no heads.
        UsageError, SpecError: as ``task_of``.
    """
    model = load(run)
    node, resolved = transformer_of(model), model.resolved
    placed(model, device)
    with closing(choose(quiet)) as display, Stop() as stop:
        if resolved.stages[-1].tasks:
            stage, iterator = _of_task(model, run, data, task, examples)
        else:
            watched = Watched(display, stop)
            stage, iterator = _of_text(model, run, data, examples, cache or cache_folder(), watched)
        batches = list(iterator)
    if not batches:
        raise DataError("there are no rows to read", help="name a file with --data")
    vocabulary = vocabulary_of(run, node.vocab_size)
    rows = sum(len(part.reading.token_ids) for part in batches)
    scores = _scores(model, stage, batches, rows)
    means = _means(model, batches, vocabulary.cls, vocabulary.sep)
    each = tuple(
        Head(
            layer=layer,
            head=head,
            score=scores[node.attention_owner[layer]][head],
            **{name: value for name, value in mean.items() if name in Head.__annotations__},
            pattern=pattern(mean),
        )
        for layer, of_layer in enumerate(means)
        for head, mean in enumerate(of_layer)
    )
    return HeadReport(run, rows, each)


Found = tuple[Stage, Iterator[MicroBatch]]


def _of_task(model: Model, run: Path, data: Path | None, request: str, most: int) -> Found:
    """Rows of a task's file, or of its first scored part."""
    stage, task = task_of(model.resolved, request)
    if data is not None:
        with columns_told(task):
            examples = read_examples(task, data)
    else:
        sources = scored_parts(task)
        if not sources:
            raise nothing_to_judge_by(task)
        examples = scored_examples(task, next(iter(sources.values())))
    vocabulary = vocabulary_of(run, stage.encoder.vocab_size)
    segments = stage.encoder.kinds_of_segments
    rows = encode(task, examples[:most], vocabulary, stage.seq, segments)
    task_set, device = TaskSet(task, rows, {}), next(model.parameters()).device
    terms = tuple(term for term in stage.objective if term.name == task.title)
    only = stage.model_copy(update={"objective": terms})
    parts = in_order_of_length(task_set, rows, TOKENS_AT_ONCE, ROWS_AT_ONCE, vocabulary.pad)
    return only, (to_micro_batch(part, device) for part in parts)


def _of_text(
    model: Model, run: Path, data: Path | None, most: int, cache: Path, display: Watched
) -> Found:
    """Rows of a text file, or of the run's own text, for what it learns without a teacher."""
    resolved, device = model.resolved, next(model.parameters()).device
    untaught = tuple(term for term in resolved.stages[-1].objective if not term.objective.taught)
    if not untaught:
        raise DataError(
            "scores of heads need an objective of the run's own: its teacher alone says what it "
            "learns",
            help="bertc attention RUN TEXT shows what heads look at",
        )
    stage = resolved.stages[-1].model_copy(update={"objective": untaught})
    if data is not None:
        resolved = _on_file(resolved, run, data)
    corpus = prepare(resolved, cache, display, TrainedNetworks(resolved.run.device))
    text, vocab = corpus.stage(len(resolved.stages) - 1), vocab_tensors(corpus.vocabulary, device)
    assert not isinstance(text, TaskData), "its stage is of text"

    def batches() -> Iterator[MicroBatch]:
        for first in range(0, -(-most // stage.batch)):
            inputs = to_inputs(text.train(first), device)
            yield corrupt(stage, inputs, vocab, mask_key(resolved.run.seed))

    return stage, batches()


def _on_file(resolved: Resolved, run: Path, data: Path) -> Resolved:
    """The program with the text of one file, read by the run's own vocabulary."""
    text = (Share(corpus=Files(path=str(data))),)
    stages = tuple(stage.model_copy(update={"data": text}) for stage in resolved.stages)
    words = TokenizerFile(path=str(tokenizer_folder(run)), size=resolved.encoder.vocab_size)
    return resolved.model_copy(update={"stages": stages, "vocabulary": words})


def _scores(
    model: Model, stage: Stage, batches: list[MicroBatch], rows: int
) -> dict[int, list[float]]:
    """Mean |dL/dgate| of each head, by the layer that owns it."""
    learning = stage.model_copy(update={"freeze": 0})  # a frozen network passes no gradient on
    objective = make_objective(model, learning, compiled=False)
    counts_t = counts(stage, batches)
    weights = torch.tensor(term_weights(stage), device=counts_t.device)
    factors_t = weights / divisors(stage, counts_t)
    with gated(model, "attention") as gates:
        for part in batches:
            loss, _, _ = objective(part, factors_t * rows)
            if loss.requires_grad:
                loss.backward()  # type: ignore[no-untyped-call]
        sums_u = gates.sums() / rows
    model.eval().zero_grad()
    parts = torch.split(sums_u, list(gates.counts.values()))
    return {layer: part.tolist() for layer, part in zip(gates.counts, parts, strict=True)}


def _means(
    model: Model, batches: list[MicroBatch], cls: int, sep: int
) -> list[list[dict[str, float]]]:
    """Means over all real tokens of what each head looks at, by layer."""
    sums: dict[int, Looks] = {}
    queries = 0
    for part in batches:
        queries += int(unpadded(part.reading).sum())
        maps(model, part.reading, partial(_add, sums, part.reading, cls, sep))
    return [sums[layer].means(queries) for layer in sorted(sums)]


def _add(
    sums: dict[int, Looks], reading: EncoderInputs, cls: int, sep: int, layer: int, map_bnqk: Tensor
) -> None:
    """Add what the heads of a layer look at in a row, from its own tokens to its own."""
    seq = reading.token_ids.shape[1]
    added = looks(map_bnqk[:, :, :seq, -seq:], reading, cls, sep)
    if layer in sums:
        sums[layer].add(added)
    else:
        sums[layer] = added
