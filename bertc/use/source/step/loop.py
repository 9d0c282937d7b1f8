"""The training of a program for its file: corruption, losses, update, schedule, loop.

Corruption and losses are recorded like the network, from the functions that training calls.
"""

import textwrap

import torch
from torch import Tensor, nn

from bertc.base.diagnostics import UsageError
from bertc.ir import address
from bertc.ir.learning.optimizer import Adam, Muon
from bertc.ir.program.model import model_weights
from bertc.ir.program.reading import adaptive_unit, by_direction, share_falls
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage, TextStage
from bertc.ir.program.teacher import NOBODY
from bertc.learn.objectives import Inputs, MicroBatch, VocabTensors, corrupt, mask_key
from bertc.model import EncoderInputs, Model
from bertc.use.source.body import ForwardBody
from bertc.use.source.constants import constants_of
from bertc.use.source.expressions import code_lines
from bertc.use.source.outputs import recorded
from bertc.use.source.reads import free_values
from bertc.use.source.recording import CallScope, Recorder, recording
from bertc.use.source.simplify import simplify
from bertc.use.source.sizes import BatchSizes
from bertc.use.source.step.losses import (
    named_tensors,
    numbers,
    summed_losses,
    with_all_states,
    with_tensors,
)
from bertc.use.source.step.update import rate_function, update_function

TOKENS_AT_ONCE = 2048
"""Tokens of a part of a batch, whose scores over the vocabulary are computed at once."""
TABLES = ("word_start", "special", "unigram_cdf", "frequency")
"""Fields of a vocabulary that corruption reads."""
LOOP = '''
def train_step(model, moments, rows, step):
    """Update the weights by a batch; returns the mean loss of each term."""
    batch = corrupt(**rows)
    counts = {name: batch.pop(f"{name}_count").clamp(min=1) for name in FACTORS}
    means = dict.fromkeys(FACTORS, 0.0)
    for first in range(0, BATCH, ROWS_AT_ONCE):
        sums = model(**{k: x[first : first + ROWS_AT_ONCE] for k, x in batch.items()})
        parts = {name: total / counts[name] for name, total in sums.items()}
        sum(FACTORS[name] * part for name, part in parts.items()).backward()
        means = {name: mean + parts[name].item() for name, mean in means.items()}
    update(model, moments, step + 1, lr=rate(step))
    model.zero_grad()
    return means


def train(path):
    """Train on the rows of a file, a batch after another; returns the model."""
    tensors = read(path)
    tables = {name: tensors.pop(name) for name in TABLES}
    model, moments = Model(), {}
    initialise(model)
    model.train()
    steps = min(STEPS, len(tensors["token_ids"]) // BATCH)
    print(f"{steps:,} of {STEPS:,} steps: the file has no more rows" if steps < STEPS else "")
    for step in range(steps):
        torch.manual_seed(key("dropout", step))
        at = slice(step * BATCH, (step + 1) * BATCH)
        rows = {name: tensor[at].long() for name, tensor in tensors.items()}
        means = train_step(model, moments, {**rows, **tables}, step)
        loss = sum(FACTORS[name] * mean for name, mean in means.items())
        print(step + 1, f"loss {loss:.6f}", *(f"{name} {mean:.6f}" for name, mean in means.items()))
    return model


if __name__ == "__main__":
    rows = pathlib.Path(__file__).with_suffix(".rows.safetensors")
    torch.save(train(rows).state_dict(), rows.with_suffix(".pt"))
'''
DOCSTRING = '''    """The inputs and targets of a batch; random numbers are keyed by its rows.

    Axes: b rows, s positions, k predictions, d and e draws, m examples or words of a row, n lanes.
    """'''
KEY = '''
def key(*address, seed=SEED):
    """A seed for one purpose, a function of another seed and the purpose alone."""
    parts = [str(seed), *(f"{type(part).__name__}:{part}" for part in address)]
    digest = hashlib.blake2b("\\0".join(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
'''


def require_plain(resolved: Resolved) -> TextStage:
    """The first stage, if a file can hold its training.

    Raises:
        UsageError: with what the file cannot hold.
    """
    stage = resolved.stages[0]
    beyond = {
        "a teacher": stage.teacher != NOBODY,
        "an order of predictions (plm)": any(
            t.objective.order == "permuted" for t in stage.objective
        ),
        "rows that are read in two directions": len(by_direction(stage)) > 1,
        "shares of masked tokens that change": share_falls(stage)
        or adaptive_unit(stage) is not None,
        "memory": stage.memory > 0,
        "languages": bool(resolved.languages),
        "frozen parts": bool(stage.freeze) or resolved.merged is not resolved,
        "initial weights of others (init)": resolved.run.init.kind != "random",
        "an average of weights": stage.average.kind != "none",
        "the optimiser muon, or rates by layer": isinstance(stage.optimizer, Muon)
        or (isinstance(stage.optimizer, Adam) and stage.optimizer.layer_decay != 1),
        "clipping tensor by tensor": stage.optimizer.clip_per != "model",
        "networks that change between stages": len({s.encoder for s in resolved.stages}) > 1,
    }
    if not isinstance(stage, TextStage) or any(beyond.values()):
        what = next((name for name, is_there in beyond.items() if is_there), "tasks")
        raise UsageError(
            f"--with-training: a file cannot hold {what}",
            help="leave --with-training out: the file has the network",
        )
    return stage


def training_source(resolved: Resolved, vocab: VocabTensors) -> tuple[CallScope, Model, str]:
    """The losses of the first stage, of its model, and the text of the training."""
    stage = require_plain(resolved)
    recorder, batch, counts = _recorded_corruption(resolved, stage, vocab)
    scope, model = _recorded_losses(resolved, stage, batch)
    tensors = named_tensors(batch)
    read = [value.names[0].name for value in free_values(scope)]
    results = {name: tensors[name] for name in read} | counts
    corruption, read = _corruption(resolved, recorder, results)
    at_once = min(stage.batch, max(1, TOKENS_AT_ONCE // stage.seq))
    weights = {term.name: term.weight for term in stage.objective}
    constants = [
        f"# Stage {stage.name}: {stage.batch:,} rows of {stage.seq} tokens in each step.",
        f"SEED = {resolved.run.seed}",
        f"STEPS = {stage.steps}",
        f"WARMUP, SCHEDULE = {stage.warmup_steps}, {stage.schedule_steps}  # steps",
        f"PEAK = {stage.optimizer.lr!r}  # rate",
        f"BATCH, ROWS_AT_ONCE = {stage.batch}, {at_once}",
        f"FACTORS = {weights!r}  # of the terms of the loss".replace("'", '"'),
        f"TABLES = {tuple(name for name in TABLES if name in read)!r}".replace("'", '"'),
    ]
    update = update_function(stage.optimizer, model_weights(resolved))
    parts = ["\n".join(constants), corruption, KEY, update, rate_function(stage), LOOP]
    text = "\n\n\n".join(part.strip("\n") for part in parts)
    return scope, model, f"\n\n{text}\n"


def _recorded_corruption(
    resolved: Resolved, stage: Stage, vocab: VocabTensors
) -> tuple[Recorder, MicroBatch, dict[str, Tensor]]:
    """The corruption of a batch, and its results: the batch, and numbers of predictions."""
    shapes = {"token_ids": (stage.seq,), "segment_ids": (stage.seq,)}
    shapes |= {"starts": (stage.texts,), "pair_labels": (stage.texts,), "languages": (2,)}
    sizes = BatchSizes({vocab.size, stage.seq})
    with torch.device("meta"):
        inputs = {
            name: torch.zeros(sizes.rows, *shapes.get(name, ()), dtype=torch.long)
            for name in Inputs._fields
        }
        tables = {name: torch.zeros_like(getattr(vocab, name), device="meta") for name in TABLES}
    with recording(nn.Module(), sizes) as recorder:
        for name, tensor in (inputs | tables).items():
            recorder.value(tensor, name)
        key, words = mask_key(resolved.run.seed), VocabTensors(*vocab[:5], *tables.values())
        batch = with_all_states(corrupt(stage, Inputs(**inputs), words, key))
        return recorder, batch, numbers(stage, batch)


def _recorded_losses(
    resolved: Resolved, stage: Stage, batch: MicroBatch
) -> tuple[CallScope, Model]:
    """The summed losses of a batch with these tensors."""

    def losses(model: Model, _: EncoderInputs, recorder: Recorder) -> dict[str, Tensor]:
        def passed(name: str, tensor: Tensor) -> Tensor:
            rows, tokens = recorder.sizes.rows, recorder.sizes.tokens
            shape = (tokens if size == stage.seq else size for size in tensor.shape[1:])
            tensor = torch.zeros(rows, *shape, dtype=tensor.dtype)
            return recorder.value(tensor, name).tensor

        return summed_losses(model, stage, with_tensors(batch, passed))

    taken = {size for x in named_tensors(batch).values() for size in x.shape[1:]} - {stage.seq}
    return recorded(resolved, losses, taken)


def _corruption(
    resolved: Resolved, recorder: Recorder, results: dict[str, Tensor]
) -> tuple[str, list[str]]:
    """The function that hides and chooses tokens of a batch, and the names of its arguments."""
    scope = recorder.scope
    scope.keys = tuple(results)
    scope.outputs = [recorder.value(tensor) for tensor in results.values()]
    simplify(scope, {})
    body = ForwardBody(scope, {}, constants_of(resolved))
    read = [body.names[value] for value in body.free]
    lines, origin = list[str](), ""
    for statement in body.statements():
        begun = body.origins.get(statement, origin)
        lines += [f"    # {begun}"] if begun not in ("", origin) else []
        origin = begun
        lines += code_lines([statement], 4)
    head = textwrap.wrap(f"def corrupt({', '.join(read)}):", 99, subsequent_indent=" " * 12)
    text = _with_keys("\n".join(lines), resolved.run.seed)
    return "\n".join([*head, DOCSTRING, text]), read


def _with_keys(text: str, seed: int) -> str:
    """Corruption with its seeds as functions of SEED."""
    masks = mask_key(seed)
    guesses = str(address.key(masks, "replacement"))
    text = text.replace(guesses, 'key("replacement", seed=key("mask"))')
    return text.replace(str(masks), 'key("mask")')
