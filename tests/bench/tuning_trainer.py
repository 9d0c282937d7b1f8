"""The other side of tuning.py: one task by the Trainer of transformers, from the same spec."""

import contextlib
import json
import sys
import tempfile
import time
from typing import Any

import numpy as np


def main(spec: str, bf16: bool) -> None:
    """Train and answer the dev part; the last line printed is JSON."""
    with contextlib.redirect_stdout(sys.stderr):
        result = run(spec, bf16)
    print(json.dumps(result))


def run(spec: str, bf16: bool) -> dict[str, Any]:
    import torch
    from transformers import (
        AutoModelForSequenceClassification,
        AutoModelForTokenClassification,
        AutoTokenizer,
        DataCollatorForTokenClassification,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        logging,
    )

    import bertc
    from bertc.data.layouts import dev_parts, part_examples, training_examples
    from bertc.data.metrics.metrics import judge
    from bertc.ir.learning.answer import Labels, Score, Span, Tags

    logging.set_verbosity_error()
    resolved = bertc.resolve(spec)
    (stage,), folder = resolved.stages, resolved.run.init.path
    (task,), rule = stage.tasks, stage.optimizer
    tokenizer = AutoTokenizer.from_pretrained(folder)
    part = dev_parts(task)[0]
    examples = {"train": training_examples(task), "dev": part_examples(task, part)}
    answer = task.answer
    collate: Any = DataCollatorWithPadding(tokenizer)
    match answer:
        case Labels():
            numbers = {name: i for i, name in enumerate(answer.names)}
            count, make = len(numbers), AutoModelForSequenceClassification

            def encode(example):
                row = tokenizer(*example.texts, truncation=True, max_length=stage.seq)
                return {**row, "labels": numbers[example.label]}
        case Score():
            count, make = 1, AutoModelForSequenceClassification

            def encode(example):
                row = tokenizer(*example.texts, truncation=True, max_length=stage.seq)
                return {**row, "labels": float(example.score)}
        case Tags():
            numbers = {name: i for i, name in enumerate(answer.names)}
            count, make = len(numbers), AutoModelForTokenClassification
            collate = DataCollatorForTokenClassification(tokenizer)

            def encode(example):
                row = tokenizer(
                    list(example.words),
                    is_split_into_words=True,
                    truncation=True,
                    max_length=stage.seq,
                )
                labels, before = [], None
                for word in row.word_ids():
                    first = word is not None and word != before
                    labels.append(numbers[example.tags[word]] if first else -100)
                    before = word
                return {**row, "labels": labels}
        case Span():
            return _reading(resolved, stage, task, examples, tokenizer, bf16)
        case _:
            raise SystemExit(f"no other side for {answer.kind}")
    sets = {name: [encode(example) for example in found] for name, found in examples.items()}
    torch.manual_seed(resolved.run.seed)
    model = make.from_pretrained(folder, num_labels=count)
    arguments = _arguments(TrainingArguments, stage, rule, resolved.run.seed, bf16)
    trainer = Trainer(model, arguments, train_dataset=sets["train"], data_collator=collate)
    started = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - started
    scores = trainer.predict(sets["dev"]).predictions
    given: list[Any] = []
    for number, example in enumerate(examples["dev"]):
        if isinstance(answer, Labels):
            given.append(answer.names[int(np.argmax(scores[number]))])
        elif isinstance(answer, Score):
            given.append(float(scores[number, 0]))
        else:
            asked = [i for i, label in enumerate(sets["dev"][number]["labels"]) if label >= 0]
            tags = [answer.names[int(np.argmax(scores[number, i]))] for i in asked]
            given.append(tuple(tags + ["O"] * (len(example.words) - len(tags))))
    return {"scores": judge(task, examples["dev"], given), "seconds": seconds}


def _arguments(cls: Any, stage: Any, rule: Any, seed: int, bf16: bool) -> Any:
    return cls(
        output_dir=tempfile.mkdtemp(),
        learning_rate=rule.lr,
        per_device_train_batch_size=stage.batch,
        per_device_eval_batch_size=64,
        max_steps=stage.steps,
        warmup_steps=stage.warmup_steps,
        weight_decay=rule.decay,
        adam_epsilon=rule.eps,
        lr_scheduler_type="linear",
        seed=seed,
        bf16=bf16,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )


def _reading(resolved, stage, task, examples, tokenizer, bf16) -> dict[str, Any]:
    """Questions about passages: the same windows and decoding, of transformers' own scores."""
    import torch
    from transformers import (
        AutoModelForQuestionAnswering,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    from bertc.data.examples.encode import encode
    from bertc.data.metrics.metrics import judge
    from bertc.data.metrics.spans import Window, decode_plain
    from bertc.data.vocab.existing import load_vocabulary

    vocabulary = load_vocabulary(resolved.vocabulary)
    rows = {
        name: encode(task, found, vocabulary, stage.seq, stage.encoder.segments)
        for name, found in examples.items()
    }

    def row(found, number):
        span = slice(found.begins[number], found.begins[number + 1])
        first, last = found.targets[number]
        return {
            "input_ids": found.token_ids[span].tolist(),
            "token_type_ids": found.segment_ids[span].tolist(),
            "start_positions": int(first),
            "end_positions": int(last),
        }

    sets = {n: [row(found, i) for i in range(len(found.owners))] for n, found in rows.items()}
    torch.manual_seed(resolved.run.seed)
    model = AutoModelForQuestionAnswering.from_pretrained(resolved.run.init.path)
    arguments = _arguments(TrainingArguments, stage, stage.optimizer, resolved.run.seed, bf16)
    trainer = Trainer(
        model,
        arguments,
        train_dataset=sets["train"],
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    started = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - started
    starts, ends = trainer.predict(sets["dev"]).predictions[:2]
    found, given = rows["dev"], []
    for number, example in enumerate(examples["dev"]):
        own = [int(i) for i in np.flatnonzero(found.owners == number)]
        windows = [
            Window(
                number, int(found.firsts[i]), found.offsets[found.begins[i] : found.begins[i + 1]]
            )
            for i in own
        ]
        lengths = [len(window.offsets) for window in windows]
        decoded = decode_plain(
            example.passage,
            windows,
            [starts[i][:n] for i, n in zip(own, lengths, strict=True)],
            [ends[i][:n] for i, n in zip(own, lengths, strict=True)],
            best=task.best,
            longest=task.longest,
            unanswerable=task.answer.unanswerable,
            threshold=task.threshold,
        )
        given.append(decoded.text)
    return {"scores": judge(task, examples["dev"], given), "seconds": seconds}
