"""Estimates of memory and of time next to measured training steps on this machine's CPU.

    python -m tests.bench.estimates memory [--shipped] [--precision fp32|bf16]
    bertc bench --calibrate --threads 1
    OMP_NUM_THREADS=1 python -m tests.bench.estimates time [--shipped] [--precision fp32|bf16]

``--shipped`` takes 12 shipped specs in small batches, their first stage in ``--precision``.

* memory: two steps with masking and update, batches read ahead as in a run; the most bytes that
  torch's allocator gave out at any moment, from the profiler's ledger, above those in use before
  the model was built.
* time: on one core, the quickest of several steps in processor time, which other processes disturb
  less than the clock on the wall. As on a processor with AVX2 alone, if these are set for both
  commands: ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 (such a
  one trains in fp32).
"""

import argparse
import gc
import os
import statistics
import time
from itertools import accumulate, count, repeat

import torch
from torch.autograd.profiler import profile

from bertc.api import resolve
from bertc.cost import device_named, estimate
from bertc.ir.program.resolved import Resolved
from bertc.learn.step.feed import Batch, split, text_feed
from bertc.learn.step.step import TrainStep
from bertc.machine.machine import determinism
from bertc.machine.memory import keep_freed_memory
from bertc.run.beginning.synthetic import RandomText
from tests.bench.rig import SHIPPED, make_step, random_rows
from tests.kinds import PAIRS
from tests.test_kinds import random_micro_batches

SMALL = "layers=2 hidden=64 heads=2 vocab=8k seq=64"
MINI = "layers=4 hidden=256 vocab=30522 seq=128"
BASE = "layers=12 hidden=768 vocab=30522 seq=128"
STUDENT = "layers=3 hidden=256 heads=4 vocab=8k seq=128 batch=16 precision=fp32"
TEACHER = "teacher=spec('layers=6 hidden=256 heads=4 vocab=8k seq=128')"
WIDE = "teacher=spec('layers=6 hidden=512 heads=4 vocab=8k seq=128')"
LISTS = "'lists.jsonl', text=a, positive=b, negative=c, examples=1000"
NETWORKS = {
    SMALL: (
        "batch=16 precision=fp32", "batch=64 precision=fp32 dropout=0",
        "batch=64 precision=bf16 optimizer=lamb", "batch=64 microbatch=16 precision=bf16",
    ),
    MINI: (
        "batch=32 precision=fp32", "batch=32 precision=fp32 dropout=0", "batch=32 precision=bf16",
        "batch=64 precision=bf16 dropout=0", "batch=32 precision=bf16 optimizer=lamb",
        "batch=32 precision=bf16 objective=mlm+sop",
        "batch=32 precision=bf16 objective=span+sbo format=single-segment",
        "batch=32 precision=fp32 E=128 generator=0.25 objective=rtd*50+mlm",
        "batch=32 precision=bf16 E=128 generator=1 objective=rtd*50+mlm optimizer=lamb",
        "batch=32 microbatch=8 precision=bf16 generator=network(0.5,tie=none) objective=rtd*50+mlm",
        "batch=32 precision=bf16 recompute=on generator=0.5 objective=rtd(over=masked)+mlm",
        "batch=32 precision=fp32 dropout=0 generator=unigram objective=rtd",
        f"batch=32 precision=bf16 objective=tlm {PAIRS}",
        f"batch=32 microbatch=8 precision=fp32 objective=tlm(unit=span)+sbo {PAIRS}",
        "batch=32 precision=fp32 objective=plm", "batch=4 precision=bf16",
        "batch=32 precision=bf16 objective=plm attention=relative",
        "batch=4 precision=fp32 optimizer=lamb", "batch=64 microbatch=4 precision=fp32",
        "batch=64 microbatch=16 precision=bf16", "batch=32 precision=bf16 recompute=on",
        "batch=32 precision=fp32 norm=pre activation=relu",
    ),
    BASE: (
        "batch=4 precision=fp32 dropout=0", "batch=8 precision=bf16",
        "batch=8 microbatch=4 precision=bf16", "batch=8 precision=bf16 recompute=on",
        "batch=8 precision=bf16 share=all E=128 objective=mlm+sop optimizer=lamb",
    ),
    "vocab=30522": (
        "layers=2 hidden=128 seq=128 batch=32 precision=fp32",
        "layers=2 hidden=128 seq=512 batch=16 precision=bf16",
        "layers=12 hidden=128 seq=128 batch=32 precision=fp32 share=all",
        "layers=12 hidden=256 seq=128 batch=16 precision=bf16 share=all E=64",
        "layers=12 hidden=256 seq=256 batch=8 precision=fp32 share=attention E=128",
        "layers=8 hidden=512 seq=128 batch=16 precision=bf16",
        "layers=8 hidden=512 seq=512 batch=4 precision=fp32",
        "layers=4 hidden=512 seq=512 batch=4 precision=bf16 dropout=0 objective=mlm+sop",
        "layers=4 hidden=512 seq=256 batch=8 microbatch=4 precision=bf16 optimizer=lamb",
        "layers=6 hidden=768 seq=256 batch=4 precision=fp32 share=attention",
    ),
    f"{STUDENT} {TEACHER}": (
        "objective=mlm+kd(logits,T=2)", "objective=kd(logits,loss=mse)",
        "objective=mlm+kd(logits,over=masked)", "objective=kd(attention,of=probabilities)+mlm",
        "objective=5*kd(logits,T=2)+2*mlm+kd(hidden,loss=cosine,layers=last)",
        "objective=kd(attention,of=probabilities,loss=kl)",
    ),
    f"{STUDENT} {WIDE}": (
        "objective=kd(hidden)", "objective=mlm+kd(cls,normalize=true)+kd(embeddings)",
        "objective=kd(attention)", "objective=mlm+kd(relations,heads=16)",
    ),
}  # fmt: skip
TASKS = (
    (32, "classify('a.tsv', labels=[no, yes], examples=1000)"),
    (32, "classify('a.tsv', labels=[no, yes], examples=1000) adapt=lora(on=attention+ffn)"),
    (32, "classify('a.tsv', label=[farm, sea, sky], examples=1000, loss=focal(2))"),
    (32, "regress('a.tsv', label=[x, y], examples=1000)"),
    (32, "tag('a.tsv', labels=[O, B, I], examples=1000, loss=weights([1, 2, 3]))"),
    (32, "read('a.jsonl', examples=1000)"),
    (8, "choose('a.tsv', choices=[b, c, d, e], examples=1000)"),
    (16, "embed('a.tsv', text=a, positive=b, examples=1000)"),
    (16, "embed('a.tsv', text=a, positive=b, examples=1000) microbatch=4"),
    (16, f"embed({LISTS}, widths=[256, 128, 64])"),
    (16, f"embed({LISTS}, score=s, loss=margin)"),
    (16, f"embed({LISTS}, pooling=tokens(128))"),
    (16, f"embed({LISTS}, pooling=sparse) microbatch=4"),
    (16, f"rerank({LISTS})"),
)
CONFIGURATIONS = (
    *(f"{network} {more}" for network, several in NETWORKS.items() for more in several),
    *(
        f"{MINI} batch={batch} precision={precision} task={task}"
        for batch, task in TASKS
        for precision in ("fp32", "bf16")
    ),
)
STEPS, SECONDS = 2, 4.0


def allocated_bytes(resolved: Resolved, steps: int = STEPS) -> int:
    """The most bytes that torch had given out at any moment, from making the model on."""
    gc.collect()  # what an earlier model left is not to be let go while this one is watched
    gc.freeze()  # what is left stays: the next collection need not look at it again
    # Not torch.profiler, which makes a tree of all operations of what it recorded.
    with profile(profile_memory=True) as profiler:
        _steps(resolved, steps)
    assert profiler.kineto_results, "a profiler that has run holds its results"
    events = profiler.kineto_results.events()
    in_order = sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns())
    return max(accumulate((event.nbytes() for event in in_order), initial=0))


def _steps(resolved: Resolved, steps: int) -> None:
    stage = resolved.stages[0]
    step = make_step(resolved, stage.microbatch or stage.batch)
    if stage.tasks:
        for number in range(steps):
            step(_of_task(step), number, 1e-4)
        return
    text, cpu = RandomText(stage, resolved.encoder.vocab_size), torch.device("cpu")
    with determinism(), text_feed(text, 0, stage.steps, cpu, step.corrupt) as feed:
        for number in range(steps):
            step(feed.take(), number, 1e-4)


def _of_task(step: TrainStep) -> Batch:
    rows = (step.stage.microbatch or step.stage.batch) * step.stage.rows_an_example
    return Batch(None, split(*random_micro_batches(step), rows))


def quickest_seconds(resolved: Resolved) -> float:
    """Processor seconds of the quickest step, out of at least two."""
    stage = resolved.stages[0]
    step = make_step(resolved, stage.microbatch)
    inputs = random_rows(resolved)
    texts = (step.read(inputs) for _ in count())
    batches = repeat(_of_task(step)) if stage.tasks else texts
    seconds: list[float] = []
    with determinism(), keep_freed_memory():
        step(next(batches), 0, 1e-4)
        while len(seconds) < 2 or sum(seconds) < SECONDS:
            start = time.process_time()
            step(next(batches), len(seconds) + 1, 1e-4)
            seconds.append(time.process_time() - start)
    return min(seconds)


def program(spec: str) -> Resolved:
    """A configuration as a program; the whole batch at once unless it says otherwise."""
    text = f"{spec} steps=100 compile=off"
    stage = resolve(text).stages[0]
    return resolve(text, [f"microbatch={stage.microbatch or stage.batch}"])


def compared(spec: str, what: str) -> float:
    """How far the estimate of a configuration is off, as a share; prints a line."""
    resolved = program(spec)
    stage = estimate(resolved, "cpu").stages[0]
    if what == "memory":
        estimated, measured, unit = stage.memory.peak_bytes, allocated_bytes(resolved), "GB"
    else:
        estimated, measured, unit = stage.time.seconds_per_step, quickest_seconds(resolved), "s"
    error = estimated / measured - 1
    per = 1e9 if unit == "GB" else 1
    print(f"{estimated / per:.3f} {unit}, measured {measured / per:.3f}, {error:+.1%}: {spec}")
    return error


def main() -> None:
    """Compare all configurations, then print the median and the worst error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("memory", "time"))
    parser.add_argument("--shipped", action="store_true")
    parser.add_argument("--precision", choices=("fp32", "bf16"), help="of shipped specs")
    options = parser.parse_args()
    precision = options.precision or ("bf16" if device_named("cpu").bf16_flops else "fp32")
    shipped = tuple(f"{spec} precision={precision}" for spec in SHIPPED)
    if options.what == "time":  # the estimate is for as many cores as this process may use
        os.sched_setaffinity(0, set(list(os.sched_getaffinity(0))[:1]))
    specs = shipped if options.shipped else CONFIGURATIONS
    errors = [abs(compared(spec, options.what)) for spec in specs]
    print(f"median {statistics.median(errors):.1%} off, worst {max(errors):.1%}")


if __name__ == "__main__":
    main()
