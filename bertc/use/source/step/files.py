"""``bertc build --with-training``: the file of a program with its training, and one of its rows."""

import inspect
import math
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from bertc.base.diagnostics import UsageError
from bertc.base.storage.durable import replace
from bertc.base.storage.paths import cache_folder, is_folder
from bertc.data.batches.arranged import TextData
from bertc.data.corpus import prepare
from bertc.ir.program.resolved import Resolved
from bertc.learn.objectives import Inputs, VocabTensors, corrupt, mask_key
from bertc.learn.step.feed import to_inputs
from bertc.learn.step.vocabulary import vocab_tensors
from bertc.machine.display import watching
from bertc.machine.signals import AGAIN
from bertc.run.evaluation.word_networks import TrainedNetworks
from bertc.use.source import checking
from bertc.use.source.file import emit_source
from bertc.use.source.step import losses
from bertc.use.source.step.loop import TABLES, require_plain

ENDING_OF_ROWS = ".rows.safetensors"
"""The ending of the file of rows."""
ROWS = 4
"""Rows that are compared."""
MOST_BYTES = 64 * 2**20
"""Size of a file of rows; a program with more text has the rows of its first steps."""
IN_32_BITS = ("token_ids", "lengths", "starts", "segment_ids", "pair_labels", "following")
"""Numbers of 32 bits; the others are addresses of 64."""


def write_training(
    resolved: Resolved, settings: str, out: Path, cache: Path | None = None
) -> tuple[int, int]:
    """Write the file, and next to it the rows of its first steps.

    Returns the lines of the file, and the steps whose rows were written.

    Raises:
        UsageError: if a file cannot hold the training.
        DataError: if what is written would compute something else.
    """
    stage = require_plain(resolved)
    if out.suffix != ".py" or not is_folder(str(out.parent)):
        fault = (
            "is not a file of Python" if out.suffix != ".py" else "is in a folder that is missing"
        )
        raise UsageError(f"{out} {fault}", help="-o train.py")
    where, networks = cache or cache_folder(), TrainedNetworks(resolved.run.device)
    with watching(AGAIN) as watched:
        corpus = prepare(resolved, where, watched, networks)
    data = corpus.stages[0]
    assert isinstance(data, TextData), "a stage of tasks is refused"
    vocab = vocab_tensors(data.vocabulary, torch.device("cpu"))
    source = emit_source(resolved, settings, vocab)
    first = to_inputs(data.train(0), torch.device("cpu"))
    read = _checked(source, resolved, first, vocab)
    fields = [name for name in Inputs._fields if name in read]
    bytes_a_step = sum(getattr(first, name)[:1].numel() * 8 for name in fields) * stage.batch // 2
    steps = max(1, min(stage.steps, MOST_BYTES // bytes_a_step))
    parts = [data.train(step) for step in range(steps)]
    rows = {name: torch.cat([torch.as_tensor(getattr(p, name)) for p in parts]) for name in fields}
    rows = {name: part.int() if name in IN_32_BITS else part for name, part in rows.items()}
    tables: dict[str, Tensor] = {name: getattr(vocab, name) for name in TABLES if name in read}
    replace(out, source.encode())
    replace(out.with_suffix(ENDING_OF_ROWS), save(rows | tables))
    return len(source.splitlines()), steps


def _checked(source: str, resolved: Resolved, inputs: Inputs, vocab: VocabTensors) -> list[str]:
    """Compare the corruption and the losses of a file with bertc's; the rows that it reads.

    Raises:
        DataError: with the largest difference, if they differ.
    """
    stage, corrupting = resolved.stages[0], checking.run_source(source)["corrupt"]
    rows = Inputs(*(tensor[:ROWS] for tensor in inputs))
    read, known = [*inspect.signature(corrupting).parameters], rows._asdict() | vocab._asdict()
    batch = losses.with_all_states(corrupt(stage, rows, vocab, mask_key(resolved.run.seed)))
    expected = losses.named_tensors(batch) | losses.numbers(stage, batch)
    tensors = corrupting(**{name: known[name] for name in read})
    for name, tensor in tensors.items():
        checking.refuse_difference(name, 0.0 if torch.equal(tensor, expected[name]) else math.inf)
    model = checking.random_model(resolved)
    weights = dict(model.named_parameters())
    passed = {name: x for name, x in tensors.items() if not name.endswith("_count")}
    written = partial(checking.loaded(source, weights), **passed)
    for name, apart in checking.named_differences(
        written, partial(losses.summed_losses, model, stage, batch), weights
    ):
        checking.refuse_difference(name, apart)
    return read
