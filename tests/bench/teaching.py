"""A step of distillation beside its parts, beside one that reads kept outputs, and beside others.

    nice -n -15 python -m tests.bench.teaching --json tests/bench/results/teaching-cpu.json

Text: DistilBERT's three losses, against the student's step with the teacher's outputs at hand plus
the teacher's forward pass, and against a plain loop with the models of transformers. Tasks: logits
and [CLS] states of a teacher read from disk, against the task without a teacher. Weights are
untrained and tokens random: time is all that is measured. The ways take turns, a step each; ratios
are medians over rounds, fp32.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.nn.functional as F

from bertc.api import resolve
from bertc.data.cache.progress import Silent
from bertc.data.corpus import prepare
from bertc.data.examples.task_data import TaskData
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.learn.objectives import Teaching
from bertc.learn.optim.optimizers import make_rule, zero_moments
from bertc.learn.step.feed import Batch
from bertc.learn.step.objective import make_objective
from bertc.learn.step.step import TrainStep
from bertc.learn.step.task_feed import TaskFeed
from bertc.model import Model, build
from bertc.run.beginning.lessons import obtain_lessons
from bertc.run.beginning.synthetic import unlearned_vocab
from bertc.run.beginning.teachers import frozen_networks
from tests.bench.rig import random_rows

CPU = torch.device("cpu")
WIDTHS = "hidden=256 heads=4 ffn=1024 seq=64"
TEACHER = f"teacher=spec('layers=6 {WIDTHS} %s')"
LOSSES = "5*kd(logits, T=2) + 2*mlm + kd(hidden, loss=cosine, layers=last)"
EXAMPLES, BATCH, VOCAB = 512, 16, 8000

Way = Callable[[], object]


def main() -> None:
    """Measure all, and print or write the ratios."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    with TemporaryDirectory() as folder:
        times = in_turns({**of_text(), **of_task(Path(folder), chosen.rounds + 2)}, chosen.rounds)
    apart = [sum(each) for each in zip(times["at hand"], times["teacher"], strict=True)]
    found = {
        "threads": torch.get_num_threads(),
        "rounds": chosen.rounds,
        "seconds": {name: statistics.median(each) for name, each in times.items()},
        "taught_to_student_and_teacher": ratio(times["taught"], apart),
        "kept_to_alone": ratio(times["kept"], times["alone"]),
        "kept_cls_to_alone": ratio(times["kept cls"], times["alone"]),
        "asked_to_alone": ratio(times["asked"], times["alone"]),
        "transformers_to_taught": ratio(times["transformers"], times["taught"]),
    }
    text = json.dumps(found, indent=1)
    print(text)
    if chosen.json:
        chosen.json.write_text(text + "\n")


def in_turns(ways: dict[str, Way], rounds: int) -> dict[str, list[float]]:
    """Seconds of each way in each round, after one to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            if number:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def ratio(one: list[float], other: list[float]) -> float:
    """The median ratio of a round."""
    return round(statistics.median(a / b for a, b in zip(one, other, strict=True)), 3)


def of_text() -> dict[str, Way]:
    """DistilBERT's losses: with the teacher, with its outputs at hand, and the teacher alone."""
    own = f"layers=3 {WIDTHS} vocab={VOCAB} segments=0 pooler=false"
    own += f" batch={BATCH} steps=1000 {TEACHER % f'vocab={VOCAB}'}"
    resolved = resolve(f"{own} objective={LOSSES}")
    (stage,) = resolved.stages
    frozen = frozen_networks(stage, CPU, torch.float32, 0)
    taught, at_hand = (stepping(resolved, each) for each in (frozen, ()))
    inputs = random_rows(stage, VOCAB)
    (micro_batch,) = taught.read(inputs).micro_batches
    teach = Teaching(frozen[0])
    said = teach(micro_batch)
    return {
        "taught": lambda: taught(Batch(inputs, [micro_batch]), 0, 1e-4),
        "at hand": lambda: at_hand(Batch(inputs, [said]), 0, 1e-4),
        "teacher": lambda: teach(micro_batch),
        "transformers": of_transformers(stage),
    }


def stepping(resolved: Resolved, frozen: tuple[object, ...]) -> TrainStep:
    """A step of the only stage with weights of its own."""
    (stage,), model = resolved.stages, build(resolved).train()
    weights = dict(model.named_parameters())
    moments = zero_moments(stage.optimizer, model_weights(resolved), weights)
    rule = make_rule(stage.optimizer, (), weights, moments, 0)
    objective = make_objective(model, stage, False, frozen)  # type: ignore[arg-type]
    vocab = unlearned_vocab(resolved.encoder.vocab_size, CPU)
    return TrainStep(model, stage, vocab, rule, objective, stage.batch, 0)


def of_task(folder: Path, steps: int) -> dict[str, Way]:
    """A task alone, with a teacher that is asked in each step, and with what it said, kept."""
    draw, train = random.Random(0), folder / "train.tsv"
    words = ["".join(draw.choices("abcdefgh", k=5)) for _ in range(200)]
    lines = (" ".join(draw.choices(words, k=draw.randrange(3, 10))) for _ in range(EXAMPLES))
    rows = (f"{line}\t{draw.choice(['bad', 'good'])}" for line in lines)
    train.write_text("\n".join(["text\tlabel", *rows]) + "\n")
    task = f'classify("{train}", labels=[bad, good])'
    own = f"layers=3 {WIDTHS} vocab=bytes batch={BATCH} steps={steps} recipe=bert"
    alone = resolve(f"{own} objective={task}")
    data = task_data(alone, folder)
    ways = {"alone": fed(stepping(alone, ()), data, alone.stages[0])}
    for name, term in (("", "kd(logits, T=2)"), (" cls", "100*kd(cls, normalize=true)")):
        asked = resolve(f"{own} objective={task} + {term} {TEACHER % 'vocab=bytes'}")
        (stage,), data = asked.stages, task_data(asked, folder)
        frozen = frozen_networks(stage, CPU, torch.float32, 0)
        ways[f"asked{name}"] = fed(stepping(asked, frozen), data, stage)
        lessons = folder / f"lessons{name}"
        said = obtain_lessons(lessons, stage, data, data.sets[0], frozen, "fp32", Silent())
        kept = TaskData(
            data.vocabulary, data.seed, data.batch, data.seq, data.sets, data.smoothing, 0, (said,)
        )
        ways[f"kept{name}"] = fed(stepping(asked, ()), kept, stage)
    return ways


def task_data(resolved: Resolved, folder: Path) -> TaskData:
    """The examples of the only stage."""
    (data,) = prepare(resolved, folder, Silent()).stages
    assert isinstance(data, TaskData)
    return data


def fed(step: TrainStep, data: TaskData, stage: Stage) -> Way:
    """A step on the next batch of a feed, which is made meanwhile."""
    feed = TaskFeed(data, 0, stage.steps, CPU, stage.batch, stage=stage)
    feed.__enter__()
    return lambda: step(feed.take(), 0, 1e-5, feed.look_ahead)


def of_transformers(stage: Stage) -> Way:
    """The same losses in a plain loop: two forward passes, three losses, clipping, AdamW."""
    from transformers import BertConfig, BertForMaskedLM, DistilBertConfig, DistilBertForMaskedLM

    teacher = BertForMaskedLM(
        BertConfig(
            vocab_size=VOCAB, hidden_size=256, num_hidden_layers=6, num_attention_heads=4,
            intermediate_size=1024, max_position_embeddings=64,
        )
    ).eval()  # fmt: skip
    student = DistilBertForMaskedLM(
        DistilBertConfig(
            vocab_size=VOCAB, dim=256, n_layers=3, n_heads=4, hidden_dim=1024,
            max_position_embeddings=64,
        )
    ).train()  # fmt: skip
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-4)
    ids = random_rows(stage, VOCAB).token_ids
    masked = torch.rand(ids.shape) < 0.15
    labels = ids.masked_fill(~masked, -100)
    return partial(plain_step, student, teacher, optimizer, ids.masked_fill(masked, 4), labels)


def plain_step(
    student: Model, teacher: Model, optimizer: torch.optim.Optimizer, ids: torch.Tensor,
    labels: torch.Tensor,
) -> None:  # fmt: skip
    """5 KL at temperature 2 over all tokens, 2 of masked tokens, 1 of the cosine of last states."""
    every = torch.ones_like(ids)
    with torch.no_grad():
        theirs = teacher(input_ids=ids, attention_mask=every, output_hidden_states=True)
    mine = student(input_ids=ids, attention_mask=every, output_hidden_states=True)
    soft = F.kl_div(
        F.log_softmax(mine.logits.flatten(0, 1) / 2, dim=-1),
        F.softmax(theirs.logits.flatten(0, 1) / 2, dim=-1),
        reduction="batchmean",
    )
    hard = F.cross_entropy(mine.logits.flatten(0, 1), labels.flatten())
    last, other = (each.hidden_states[-1].flatten(0, 1) for each in (mine, theirs))
    cosine = F.cosine_embedding_loss(last, other, last.new_ones(len(last)))
    (5 * 4 * soft + 2 * hard + cosine).backward()
    torch.nn.utils.clip_grad_norm_(student.parameters(), 5.0)
    optimizer.step()
    optimizer.zero_grad()


if __name__ == "__main__":
    main()
