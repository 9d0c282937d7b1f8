"""How fast batches are made, on one core: ``taskset -c 0 python tests/bench/loader.py CORPUS``.

CORPUS is a path as in ``files("...")``, prepared in a temporary cache. Then, for each unit of
masking and each shape, millions of tokens a second, padding included: rows gathered, masks alone,
and whole batches as the step gets them, through the thread that fetches ahead. Seconds are of
processor time, both threads together, and memory is kept as in training; the best of several
rounds counts. Prints JSON.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes import resolve
from bertc.data.cache.progress import Silent
from bertc.data.corpus import PreparedCorpus, prepare
from bertc.lang import load
from bertc.learn.objectives import corrupt, mask_key
from bertc.learn.step.feed import Feed, corruption, to_inputs
from bertc.learn.step.vocabulary import vocab_tensors
from bertc.machine.heap import keep_freed_memory

UNITS = ("token", "word", "ngram", "span")
SHAPES = ((32, 128), (256, 128), (32, 512))
ROUNDS, TOKENS = 7, 1 << 20


def best(batches: int, tokens: int, work: Callable[[], object]) -> float:
    """Millions of tokens a second of processor time."""
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return round(batches * tokens / min(seconds) / 1e6, 1)


def measure(corpus: PreparedCorpus) -> dict[str, float]:
    """Rates of one stage."""
    stage, data, cpu = corpus.resolved.stages[0], corpus.stage(0), torch.device("cpu")
    vocab, key = vocab_tensors(corpus.vocabulary, cpu), mask_key(corpus.resolved.run.seed)
    tokens = stage.tokens_per_step
    count = TOKENS // tokens
    ahead = corruption(stage, vocab, corpus.resolved.run.seed, stage.batch, cpu)
    some = [to_inputs(data.train(step), cpu) for step in range(count)]

    def gather() -> None:
        for step in range(count):
            data.train(step)

    def mask() -> None:
        for inputs in some:
            corrupt(stage, inputs, vocab, key)

    def ready() -> None:
        with Feed(data, 0, count, cpu, ahead) as feed:
            for _ in range(count):
                feed.take()

    work = {"rows": gather, "masks": mask, "ready": ready}
    with keep_freed_memory():
        return {name: best(count, tokens, each) for name, each in work.items()}


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus")
    parser.add_argument("--terms", default="+sop", help="added to the objective: pairs of segments")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as cache:
        for unit in UNITS:
            for rows, seq in SHAPES:
                spec = (
                    f'layers=1 hidden=64 steps=100k data="{given.corpus}" vocab=wordpiece(8k) '
                    f"batch={rows} seq={seq} objective=mlm(unit={unit}){given.terms}"
                )
                diagnostics = Diagnostics()
                resolved = resolve(load(spec, [], diagnostics)[0], diagnostics)
                found[f"{unit} {rows} x {seq}"] = measure(prepare(resolved, Path(cache), Silent()))
    print(json.dumps({"objective": f"mlm{given.terms}", "m_tokens_per_s": found}, indent=1))


if __name__ == "__main__":
    main()
