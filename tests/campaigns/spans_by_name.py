"""Scores, loss and answers of the gliner package, as ``tests/learn/named_spans.json`` holds them.

In an environment with ``gliner==0.2.29``, ``transformers<5.2``, in the repository:
``python -m tests.campaigns.spans_by_name FOLDER > figures.json``.
"""

import json
import math
import sys
import zlib
from pathlib import Path

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] ann lee of oslo sang drug river person a ##s ."
KNOWN = json.loads((Path(__file__).parents[1] / "learn/named_spans.json").read_text())
"""Names, tagged texts and settings, and the figures of them."""


def values(name: str, count: int) -> list[float]:
    """Weights of this name, the same everywhere."""
    first = zlib.crc32(name.encode()) % 97
    return [0.4 * math.sin(first + 0.9 * number * number) for number in range(count)]


def write_settings(folder: Path) -> None:
    """Write a folder without weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gliner_config.json").write_text(json.dumps(KNOWN["settings"]))
    (folder / "vocab.txt").write_text("\n".join(WORDS.split()) + "\n")
    tokenizer = {"tokenizer_class": "BertTokenizer", "do_lower_case": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))


def main(folder: Path) -> None:
    """Make the model and print its figures."""
    import torch
    from gliner.config import UniEncoderSpanConfig
    from gliner.model import UniEncoderSpanGLiNER
    from transformers import AutoTokenizer

    write_settings(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = UniEncoderSpanConfig(model_name=str(folder), **KNOWN["settings"])
    made = UniEncoderSpanGLiNER(config, tokenizer=tokenizer, backbone_from_pretrained=False)
    for name, weight in made.model.named_parameters():
        weight.data.copy_(torch.tensor(values(name, weight.numel())).view_as(weight))
    processor, batch = made.eval().data_processor, []
    for text, tags in KNOWN["tagged"].items():
        marks = [(n, tag[2:]) for n, tag in enumerate(tags.split()) if tag[0] == "B"]
        long = tags.split() + ["O"]
        spans = [[n, n + long[n + 1].startswith("I"), name] for n, name in marks]
        batch.append({"tokenized_text": text.split(), "ner": spans})
    raw = processor.collate_raw_batch(batch, entity_types=[KNOWN["names"]] * len(batch))
    inputs = {**processor.collate_fn(raw), "text_lengths": raw["seq_length"]}
    inputs |= {name: raw[name] for name in ("span_idx", "span_mask")}
    with torch.no_grad():
        out = made.model(**inputs)
    scores = out.logits[raw["span_mask"].view(out.logits.shape[:3])]
    found = made.predict_entities("ann lee of oslo sang.", KNOWN["names"], threshold=0.5)
    rounded = [[round(score, 5) for score in of_span] for of_span in scores.tolist()]
    print(json.dumps(KNOWN | {"loss": float(out.loss), "found": found, "scores": rounded}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
