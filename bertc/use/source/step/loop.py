"""The training of a program for its file: corruption, losses, update, schedule, loop.

Corruption is recorded like the network, from the functions that training calls.
"""

import textwrap
from collections.abc import Sequence

import torch
from torch import nn

from bertc.base.diagnostics import UsageError
from bertc.ir import address
from bertc.ir.learning.optimizer import Adam, Muon
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage, TextStage
from bertc.ir.program.teacher import NOBODY
from bertc.learn.objectives import Inputs, VocabTensors, corrupt, mask_key
from bertc.use.source.body import ForwardBody
from bertc.use.source.constants import constants_of
from bertc.use.source.expressions import code_lines
from bertc.use.source.recording import recording
from bertc.use.source.simplify import simplify
from bertc.use.source.sizes import BatchSizes
from bertc.use.source.step.losses import loss_functions, losses_function, named_targets, predicts
from bertc.use.source.step.update import rate_function, update_function

TOKENS_AT_ONCE = 2048
"""Tokens of a part of a batch, whose scores over the vocabulary are computed at once."""
TABLES = ("word_start", "special", "unigram_cdf", "frequency")
"""Fields of a vocabulary that corruption reads."""
LOOP = '''
def train_step(model, moments, rows, step):
    """Update the weights by a batch; returns the mean loss of each term."""
    batch = corrupt(**rows)
    counts = {name: batch[f"{name}_weights"].sum().clamp(min=1) for name in FACTORS}
    means = dict.fromkeys(FACTORS, 0.0)
    for first in range(0, BATCH, ROWS_AT_ONCE):
        sums = losses(model, {k: x[first : first + ROWS_AT_ONCE] for k, x in batch.items()})
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
    kinds = [term.objective for term in stage.objective]
    beyond = {
        "a teacher": stage.teacher != NOBODY,
        "an objective but mlm, span, nsp, sop, clm or rtd": not all(map(predicts, kinds)),
        "several examples a row (pack=true)": stage.pack,
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


def training_source(resolved: Resolved, vocab: VocabTensors, forward: Sequence[str]) -> str:
    """The training of the first stage; ``forward`` are the arguments of the file's module."""
    stage = require_plain(resolved)
    corruption, read = _recorded_corruption(resolved, stage, vocab)
    weights = {term.name: term.weight for term in stage.objective}
    at_once = min(stage.batch, max(1, TOKENS_AT_ONCE // stage.seq))
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
    parts = [
        "\n".join(constants),
        corruption,
        KEY,
        *loss_functions(stage),
        losses_function(stage, forward),
    ]
    parts += [update_function(stage.optimizer, model_weights(resolved)), rate_function(stage)]
    parts.append(LOOP)
    return "\n\n\n".join(part.strip("\n") for part in parts) + "\n"


def _recorded_corruption(
    resolved: Resolved, stage: Stage, vocab: VocabTensors
) -> tuple[str, list[str]]:
    """The function that hides and chooses tokens of a batch, and the names of its arguments."""
    shapes = {"token_ids": (stage.seq,), "segment_ids": (stage.seq,)}
    shapes |= {"starts": (stage.texts,), "pair_labels": (stage.texts,), "languages": (2,)}
    sizes = BatchSizes({vocab.size, stage.seq})
    with torch.device("meta"):
        rows = sizes.rows
        inputs = {
            name: torch.zeros(rows, *shapes.get(name, ()), dtype=torch.long)
            for name in Inputs._fields
        }
        real = {name: getattr(vocab, name) for name in TABLES}
        tables = {name: torch.zeros(x.shape, dtype=x.dtype) for name, x in real.items()}
        with recording(nn.Module(), sizes) as recorder:
            for name, tensor in (inputs | tables).items():
                recorder.value(tensor, name)
            key = mask_key(resolved.run.seed)
            batch = corrupt(
                stage, Inputs(**inputs), VocabTensors(*vocab[:5], *tables.values()), key
            )
            results = named_targets(stage, batch)
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
    head = f"def corrupt({', '.join(read)}):"
    text = _with_keys("\n".join(lines), resolved.run.seed)
    return "\n".join([*_wrapped(head), DOCSTRING, text]), read


def _with_keys(text: str, seed: int) -> str:
    """Corruption with its seeds as functions of SEED."""
    masks = mask_key(seed)
    guesses = str(address.key(masks, "replacement"))
    text = text.replace(guesses, 'key("replacement", seed=key("mask"))')
    return text.replace(str(masks), 'key("mask")')


def _wrapped(head: str) -> list[str]:
    """The first line of a function, in lines that fit."""
    return textwrap.wrap(head, 99, subsequent_indent="            ")


def seeded(first_values: str) -> str:
    """The function of first values, of which each has a seed of its name: those of a run."""
    loop = "    for name, weight in model.named_parameters():\n"
    return first_values.replace(loop, f'{loop}        torch.manual_seed(key("init", name))\n')
