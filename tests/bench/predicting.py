"""``bertc predict`` beside transformers' text-classification pipeline: the same model and rows.

    python -m tests.bench.predicting RUN FILE [--rows 10000] [--batch 32] [--rounds 3] [--json FILE]

RUN has learned one task of single texts, FILE is in its layout. In turns, in one process, both with
the same batch size; reading the file and loading the models are not counted. The pipeline computes
in fp32, as it does unless told otherwise, and again with weights in bf16.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import pipeline

from bertc.data.examples.encode import encode
from bertc.data.examples.task import TaskSet
from bertc.data.layouts import read_examples
from bertc.data.vocab.existing import vocabulary_of
from bertc.run.evaluation.device import placed
from bertc.run.evaluation.task_inference import answer
from bertc.run.evaluation.task_lookup import task_of
from bertc.run.models.loading import load
from bertc.run.models.runs import export_run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    model = load(options.run)
    stage, task = task_of(model.resolved, "")
    examples: list[Any] = read_examples(task, options.file)[: options.rows]
    placed(model, "auto")
    vocabulary = vocabulary_of(options.run, model.resolved.encoder.vocab_size)

    def ours() -> list[Any]:
        rows = encode(task, examples, vocabulary, stage.seq, stage.encoder.segments)
        own = TaskSet(task, rows, {})
        return answer(
            model, stage, own, examples, rows, vocabulary.pad, at_once=options.batch
        ).given

    systems: dict[str, Callable[[], list[Any]]] = {"bertc": ours}
    texts = [example.texts[0] for example in examples]
    with tempfile.TemporaryDirectory() as folder:
        export_run(options.run, Path(folder) / "model")
        for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
            theirs = pipeline("text-classification", str(Path(folder) / "model"), dtype=dtype)

            def said(theirs: Any = theirs) -> list[Any]:
                found = theirs(
                    texts, batch_size=options.batch, truncation=True, max_length=stage.seq
                )
                return [one["label"] for one in found]

            systems[f"pipeline {name}"] = said
        seconds: dict[str, list[float]] = {name: [] for name in systems}
        agree: dict[str, float] = {}
        for _ in range(options.rounds):
            first: list[Any] = []
            for name, system in systems.items():
                started = time.perf_counter()
                found = system()
                seconds[name].append(time.perf_counter() - started)
                first = first or found
                agree[name] = sum(map(str.__eq__, first, found)) / len(found)
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    result = {
        name: {
            "seconds": medians[name],
            "rows_per_second": len(examples) / medians[name],
            "times_slower": medians[name] / medians["bertc"],
            "agrees": agree[name],
        }
        for name in systems
    }
    for name, found in result.items():
        print(f"{name:16} {found['seconds']:8.1f} s {found['times_slower']:6.2f} x "
              f"{found['agrees']:7.2%} alike")  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps({"rows": len(examples), **result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
