"""Fine-tuning beside transformers on made pairs of sentences: seconds of training, and scores.

The other side is a plain loop as its Trainer runs one: batches padded to their longest row, fused
AdamW, a linear schedule, clipping at 1, bf16 autocast. It needs transformers alone.
"""

import json
import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bertc.ir.program.resolved import Resolved
from bertc.train.loop import train
from tests.bench.gpu.results import Results
from tests.bench.gpu.setting import Setting

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = [f"w{number}" for number in range(400)]
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
            ours = (("bertc", "auto"), ("bertc, not compiled", "off"))
            for label, compile in ours[: 1 if setting.tiny else None]:
                resolved = spec(setting, folder / "model", own, steps, words, compile)
                if results.lacks(name := f"{title}, {label}"):
                    results.put(name, **bertc(resolved, folder / f"{words}-{compile}"))
            for compiled in (False,) if setting.tiny else (False, True):
                if results.lacks(name := f"{title}, transformers{', compiled' * compiled}"):
                    results.put(name, **other(setting, folder / "model", rows, steps, compiled))


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
    """As many steps of transformers' own class, tokenised beforehand."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    pairs = [(row[0],) if row[1] == "-" else row[:2] for row in rows]
    encoded = [tokenizer(*texts, truncation=True, max_length=128) for texts in pairs]
    torch.manual_seed(0)
    network = AutoModelForSequenceClassification.from_pretrained(model, num_labels=2)
    network = network.to(setting.device).train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-5, fused=setting.kind != "mps")
    warm = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda at: min((at + 1) / warm, (steps - at) / max(1, steps - warm))
    )
    forward = torch.compile(network, dynamic=True) if compiled else network
    draw, order, loss = random.Random(1), list[int](), torch.zeros(())
    setting.finish()
    started = time.perf_counter()
    for _ in range(steps):
        if len(order) < 32:
            order = draw.sample(range(len(rows)), len(rows))
        chosen, order = order[:32], order[32:]
        batch = tokenizer.pad([encoded[at] for at in chosen], return_tensors="pt")
        batch = {name: tensor.to(setting.device) for name, tensor in batch.items()}
        labels = torch.tensor([int(rows[at][2]) for at in chosen]).to(setting.device)
        with torch.autocast(setting.kind, torch.bfloat16, enabled=not setting.tiny):
            loss = forward(**batch, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    setting.finish()
    return {"seconds": time.perf_counter() - started, "loss": loss.item()}
