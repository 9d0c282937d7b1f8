"""Fine-tuning beside the Trainer of transformers on made sentences and pairs: seconds, and losses.

The Trainer runs as its users run it, in a process of its own, with the environment that was there
before bertc did anything. It needs accelerate.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bertc.ir.program.resolved import Resolved
from bertc.run.train.loop import train
from tests.bench.gpu.results import Results
from tests.bench.gpu.setting import Setting

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = [f"w{number}" for number in range(400)]
OUTSIDE = {**os.environ, "HF_HUB_OFFLINE": "1"}
TASKS = {"like MRPC": (26, 3_668, 3), "like SST-2": (12, 8_000, 1)}
"""Words of a text, examples, passes. Of like length as those tasks'; a pair is two texts alike."""


def run(setting: Setting, results: Results) -> None:
    """Each task by both; transformers also compiled, bertc also not."""
    tasks = {"toy": (6, 32, 1)} if setting.tiny else TASKS
    with TemporaryDirectory() as place:
        folder = Path(place)
        make_model(folder / "model", setting.tiny)
        for title, (words, examples, passes) in tasks.items():
            rows = make_rows(words, examples, pairs="MRPC" in title)
            own = folder / f"{words}.tsv"
            own.write_text("text\tother\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows))
            steps = max(2, passes * examples // 32)
            ways = (("bertc", "auto"), ("bertc, not compiled", "off"))
            for label, compile in ways[: 1 if setting.tiny else None]:
                resolved = spec(setting, folder / "model", own, steps, words, compile)
                ours = partial(bertc, resolved, folder / f"{words}-{compile}")
                put(results, f"{title}, {label}", ours)
            for compiled in (False,) if setting.tiny else (False, True):
                theirs = partial(other, setting, folder / "model", rows, steps, compiled)
                put(results, f"{title}, Trainer{', compiled' * compiled}", theirs)


def put(results: Results, name: str, take: Callable[[], dict[str, Any]]) -> None:
    """Put figures under a name; without accelerate there are none of the Trainer."""
    results.measure(name, lambda: results.put(name, **take()))


def make_model(folder: Path, tiny: bool) -> None:
    """A folder of the Hugging Face layout with random weights: BERT-base, or next to nothing."""
    from transformers import BertConfig, BertModel

    folder.mkdir()
    words = [*SPECIALS, *WORDS]
    sizes: dict[str, Any] = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
    if tiny:
        sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(words), intermediate_size=4 * sizes["hidden_size"], **sizes)
    BertModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True})
    )


def make_rows(words: int, examples: int, pairs: bool) -> list[tuple[str, str, str]]:
    """Text, other text or nothing, and whether a certain word stands in the text."""
    draw, rows = random.Random(0), []
    for _ in range(examples):
        texts = [draw.choices(WORDS[1:], k=draw.randint(words // 2, words * 3 // 2)) for _ in "ab"]
        label = draw.randrange(2)
        if label:
            texts[0][draw.randrange(len(texts[0]))] = WORDS[0]
        rows.append((" ".join(texts[0]), " ".join(texts[1]) if pairs else "-", str(label)))
    return rows


def spec(
    setting: Setting, model: Path, rows: Path, steps: int, words: int, compile: str
) -> Resolved:
    """The same rate, steps and batch as the other side's."""
    precision = "fp32" if setting.tiny else "bf16"
    pair = ", pair=other" if words == TASKS["like MRPC"][0] else ""
    return setting.resolved(
        f"init='{model}' task=classify('{rows}', text=text{pair}, label=label) steps={steps} "
        f"batch=32 seq=128 optimizer=adamw(lr=2e-5, warmup=10%) precision={precision} "
        f"compile={compile} eval_every={steps} save_every={steps} log_every={max(1, steps // 4)}"
    )


def bertc(resolved: Resolved, out: Path) -> dict[str, Any]:
    """A run from its beginning to its end: seconds of training, and with all around it."""
    started = time.perf_counter()
    train(resolved, out, cache=out.parent / "cache", quiet=True)
    whole = time.perf_counter() - started
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    last = next(line for line in reversed(lines) if line["kind"] == "train")
    return {"seconds": last["seconds"], "whole_seconds": whole, "loss": last["loss"]}


def other(
    setting: Setting, model: Path, rows: list[tuple[str, str, str]], steps: int, compiled: bool
) -> dict[str, Any]:
    """As many steps of the Trainer, on the same rows."""
    asked = {
        "model": str(model),
        "texts": [[row[0]] if row[1] == "-" else row[:2] for row in rows],
        "labels": [int(row[2]) for row in rows],
        "steps": steps,
        "device": setting.kind,
        "bf16": not setting.tiny,
        "compiled": compiled,
    }
    told = subprocess.run(
        [sys.executable, "-m", "tests.bench.gpu.trainer"],
        check=False, capture_output=True, text=True, input=json.dumps(asked), env=OUTSIDE,
    )  # fmt: skip
    if told.returncode:
        raise RuntimeError(f"the Trainer ended with code {told.returncode}: {told.stderr[-400:]}")
    found: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    return found
