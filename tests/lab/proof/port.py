"""A port as its author would write it: a file of ``bertc build`` that answers requests.

python port.py MODEL.py WEIGHTS.safetensors < requests
"""

import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file


def answers(source: str, weights: dict[str, torch.Tensor], lines: Iterable[str]) -> Iterator[str]:
    """A line for each request; states are seen where modules give or read them."""
    emitted: dict[str, Any] = {}
    exec(source, emitted)
    model = emitted["Model"]()
    model.load_state_dict(weights)
    encoder, states = model.eval().encoder, list[torch.Tensor]()
    encoder.embeddings.register_forward_hook(lambda module, read, x: states.append(x))
    if (last := getattr(encoder, "norm", None)) is None:
        for ffn in encoder.ffn:
            ffn.norm.register_forward_hook(lambda module, read, x: states.append(x))
    else:  # a norm before each part reads the state after the layer below
        for attention in encoder.attention[1:]:
            attention.norm.register_forward_hook(lambda module, read, x: states.append(*read))
        last.register_forward_hook(lambda module, read, x: states.append(x))
    requests = [json.loads(line) for line in lines]
    batches = itertools.groupby(enumerate(requests), lambda pair: pair[1].get("batch", -pair[0]))
    for _, numbered in batches:
        batch = [request for _, request in numbered]
        longest = max(len(request["ids"]) for request in batch)
        padded = {
            name: torch.tensor([row + [0] * (longest - len(row)) for row in rows])
            for name, rows in {
                "token_ids": [request["ids"] for request in batch],
                "segment_ids": [request["segments"] for request in batch],
                "attention_mask": [[1] * len(request["ids"]) for request in batch],
            }.items()
        }
        states.clear()
        with torch.no_grad():
            outputs = model(**padded)
        for number, request in enumerate(batch):
            embeddings, *layers = (x[number, request["positions"]].tolist() for x in states)
            columns = {
                name: outputs[name][number][:, ids] for name, ids in request["columns"].items()
            }
            answer = {"tokens": request["ids"], "embeddings": embeddings, "layers": layers}
            if "pooled" in outputs:
                answer["pooled"] = outputs["pooled"][number].tolist()
            answer["scores"] = {n: x[request["positions"]].tolist() for n, x in columns.items()}
            yield json.dumps(answer)


if __name__ == "__main__":
    for line in answers(Path(sys.argv[1]).read_text(), load_file(sys.argv[2]), sys.stdin):
        print(line)
