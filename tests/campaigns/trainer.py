"""Fine-tuning of exported folders by transformers' Trainer against ``bertc train``, from one run.

    nice python -m tests.campaigns.trainer --data DIR --init DIR [--steps 1150] [--examples 8000]
        [--seeds 3] [--python VENV/bin/python]

DIR holds train.tsv.gz and dev.tsv of SST-2. A small ALBERT that shares attention alone, pretrained
on docstrings, and a BERT (--init) with a quarter of its heads pruned, both of which no layout can
say, are exported. The Trainer cannot import bertc; --python is of an environment with torch,
transformers and accelerate. Optimiser, rate, schedule, batch, epochs and precision (fp32) are the
same. Prints scores by seed, their mean and their spread.
"""

import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from tests.campaigns.beginnings import lines
from tests.campaigns.options import read_options
from tests.run.conftest import lines as metrics

PROGRAMS = {
    # Turns for positions: with a table of them so short a run stays at the frequencies of tokens.
    "albert": "extends albert-base share=attention layers=4 hidden=256 positions=rotary(10000) "
    "vocab=unigram(8k, lower=true, accents=false) initializer=normal(0.06) data=docstrings("
    "[datasets, huggingface_hub, matplotlib, networkx, numpy, pandas, sympy, torch]) seq=128 "
    "format=blocks batch=16 steps=STEPS objective=mlm(40%, eval_p=15%, replace=100/0/0) "
    "optimizer=muon(8e-3, warmup=5%, betas=[0.9, 0.98])",
    "pruned heads": "objective=mlm data=files('text.txt', sentences=lines) seq=64 batch=64 "
    "init='INIT' optimizer=adamw(lr=5e-5) prune=heads(25%, by=magnitude) steps=4",
}
"""What is exported: one begun from nothing, one from a folder (--init)."""
TASK = (
    "init='RUN' task=classify('train.tsv', 'dev.tsv', text=sentence, label=label, dropout=0) "
    "optimizer=adamw(lr=5e-5, betas=[0.9, 0.999], eps=1e-8, decay=0.01, clip=1, warmup=10%, "
    "schedule=polynomial(decay_from=warmup), bias_correction=true) batch=32 epochs=3 seq=64 "
    "precision=fp32 seed=SEED pooler=POOLER"
)
TRAINER = """
import csv, json, sys

folder, seed = sys.argv[1], int(sys.argv[2])
sys.modules["bertc"] = None  # it cannot be imported
import torch
from transformers import (
    AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, Trainer,
    TrainingArguments, set_seed,
)

set_seed(seed)
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
model = AutoModelForSequenceClassification.from_pretrained(
    folder, trust_remote_code=True, num_labels=2, classifier_dropout=0.0
)


def rows(path):
    with open(path, encoding="utf-8") as lines:
        read = list(csv.DictReader(lines, delimiter="\\t", quoting=csv.QUOTE_NONE))
    cut = dict(truncation=True, max_length=64)
    return [{**tokenizer(row["sentence"], **cut), "labels": int(row["label"])} for row in read]


arguments = TrainingArguments(
    output_dir="trained", num_train_epochs=3, per_device_train_batch_size=32,
    learning_rate=5e-5, weight_decay=0.01, adam_beta2=0.999, adam_epsilon=1e-8,
    max_grad_norm=1.0, lr_scheduler_type="linear", warmup_steps=0.1, seed=seed, report_to=[],
    save_strategy="no", disable_tqdm=True, use_cpu=True, optim="adamw_torch",
)
trainer = Trainer(
    model, arguments, train_dataset=rows("train.tsv"),
    data_collator=DataCollatorWithPadding(tokenizer),
)
trainer.train()
predicted = trainer.predict(rows("dev.tsv"))
print(float((predicted.predictions.argmax(-1) == predicted.label_ids).mean()))
"""


def main() -> None:
    """Pretrain, export and fine-tune; a line for each program and way."""
    options = read_options(
        __doc__, data=Path, init=Path, steps=1150, examples=8000, seeds=3, python=sys.executable,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(options.data, folder, options.examples)
        (folder / "trainer.py").write_text(TRAINER, encoding="utf-8")
        for number, (title, spec) in enumerate(PROGRAMS.items()):
            run = f"runs/{number}"
            spec = spec.replace("INIT", str(options.init.resolve()))
            spec = spec.replace("STEPS", str(options.steps))
            (folder / "mine.bertc").write_text(spec, encoding="utf-8")
            bertc(folder, "train", "mine.bertc", "--out", run)
            bertc(folder, "export", run, "--to", f"{run}-hf")
            for way in (by_bertc, by_trainer):
                scores = [way(folder, run, seed, options) for seed in range(1, options.seeds + 1)]
                spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
                written = " ".join(f"{score:.4f}" for score in scores)
                mean = f"{statistics.mean(scores):.4f} ({spread:.4f})"
                print(f"{title:25} {way.__name__:10} {written}  {mean}", flush=True)


def write_data(source: Path, folder: Path, examples: int) -> None:
    """The sentences as a text, and some of the examples, drawn by a seed, as a table."""
    head, *rows = lines(source / "train.tsv.gz")
    text = sorted({row.split("\t")[0] for row in rows})
    draw = random.Random(7)
    draw.shuffle(text)
    (folder / "text.txt").write_text("\n".join(text), encoding="utf-8")
    drawn = [head, *draw.sample(rows, examples), ""]
    (folder / "train.tsv").write_text("\n".join(drawn), encoding="utf-8")
    (folder / "dev.tsv").write_bytes((source / "dev.tsv").read_bytes())


def by_bertc(folder: Path, run: str, seed: int, options: Namespace) -> float:
    """The accuracy after ``bertc train``."""
    code = next((folder / f"{run}-hf").glob("modeling_*.py")).read_text(encoding="utf-8")
    spec = TASK.replace("RUN", run).replace("SEED", str(seed))
    spec = spec.replace("POOLER", "true" if "self.pooler =" in code else "false")
    (folder / "task.bertc").write_text(spec, encoding="utf-8")
    out = f"{run}-task-{seed}"
    bertc(folder, "train", "task.bertc", "--out", out)
    evaluated = metrics(folder / out, "eval")
    shutil.rmtree(folder / out)
    return float(evaluated[-1]["accuracy"]["classify"])


def by_trainer(folder: Path, run: str, seed: int, options: Namespace) -> float:
    """The accuracy after transformers' Trainer."""
    shown = ran(folder, options.python, "-I", "trainer.py", f"{run}-hf", str(seed))
    return float(shown.split()[-1])


def bertc(folder: Path, *arguments: str) -> None:
    ran(folder, str(Path(sys.executable).with_name("bertc")), *arguments)


def ran(folder: Path, *command: str) -> str:
    """What a command prints.

    Raises:
        RuntimeError: with what it printed, if it fails.
    """
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return done.stdout


if __name__ == "__main__":
    main()
