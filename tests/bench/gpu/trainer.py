"""The other side of tasks: the Trainer of transformers, in a process that bertc has no part in.

It reads what to do as JSON on its standard input, and prints what it found as the last line.
"""

import contextlib
import json
import sys
import tempfile
import time
from typing import Any


def main() -> None:
    """Train as told; all but the last line goes to the standard error."""
    asked = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        found = run(**asked)
    print(json.dumps(found))


def run(
    model: str, texts: list[list[str]], labels: list[int], steps: int, device: str,
    bf16: bool, compiled: bool,
) -> dict[str, Any]:  # fmt: skip
    """Seconds of training, those with all around it but imports, and the mean loss."""
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        logging,
    )

    logging.set_verbosity_error()
    started = time.perf_counter()
    tokenizer = AutoTokenizer.from_pretrained(model)
    rows = [
        {**tokenizer(*own, truncation=True, max_length=128), "labels": label}
        for own, label in zip(texts, labels, strict=True)
    ]
    network = AutoModelForSequenceClassification.from_pretrained(model, num_labels=2)
    with tempfile.TemporaryDirectory() as out:
        arguments = TrainingArguments(
            output_dir=out, learning_rate=2e-5, per_device_train_batch_size=32, max_steps=steps,
            warmup_steps=max(1, steps // 10), weight_decay=0.01, lr_scheduler_type="linear", seed=0,
            bf16=bf16, torch_compile=compiled, use_cpu=device == "cpu", report_to=[],
            save_strategy="no", logging_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        collate = DataCollatorWithPadding(tokenizer)
        trainer = Trainer(network, arguments, train_dataset=rows, data_collator=collate)
        trained = time.perf_counter()
        result = trainer.train()
    ended = time.perf_counter()
    return {
        "seconds": ended - trained, "whole_seconds": ended - started, "loss": result.training_loss
    }  # fmt: skip


if __name__ == "__main__":
    main()
