"""A port as others would write it: a file of ``bertc build`` that answers requests.

python port.py MODEL.py WEIGHTS.safetensors < requests
"""

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

Json = dict[str, Any]


def answers(
    source: str, weights: dict[str, torch.Tensor], requests: list[Json]
) -> Iterator[dict[str, Any]]:
    """An answer to each request, with the states that modules give or read."""
    emitted: Json = {}
    exec(source, emitted)
    model, states = emitted["Model"](), list[torch.Tensor]()
    model.load_state_dict(weights)
    encoder = model.eval().encoder
    given = [encoder.embeddings]
    if (last := getattr(encoder, "norm", None)) is None:
        given += [ffn.norm for ffn in encoder.ffn]
    else:  # a norm before each part reads the state after the layer below
        for attention in encoder.attention[1:]:
            attention.norm.register_forward_pre_hook(lambda module, read: states.append(*read))
        given.append(last)
    for module in given:
        module.register_forward_hook(lambda module, read, x: states.append(x))
    numbered = itertools.groupby(enumerate(requests), lambda x: x[1].get("batch", -x[0]))
    for batch in ([request for _, request in together] for _, together in numbered):
        ids, segments = ([torch.tensor(x[name]) for x in batch] for name in ("ids", "segments"))
        rows = (ids, segments, [torch.ones_like(row) for row in ids])
        padded = [torch.nn.utils.rnn.pad_sequence(x, batch_first=True) for x in rows]
        states.clear()
        with torch.no_grad():
            outputs = model(padded[0], segment_ids=padded[1], attention_mask=padded[2])
        for number, request in enumerate(batch):
            at = request["positions"]
            embeddings, *layers = (x[number, at].tolist() for x in states)
            answer = {"tokens": request["ids"], "embeddings": embeddings, "layers": layers}
            if "pooled" in outputs:
                answer["pooled"] = outputs["pooled"][number].tolist()
            columns = request["columns"].items()
            answer["scores"] = {n: outputs[n][number, at][:, x].tolist() for n, x in columns}
            yield answer


if __name__ == "__main__":
    read = [json.loads(line) for line in sys.stdin]
    for answer in answers(Path(sys.argv[1]).read_text(), load_file(sys.argv[2]), read):
        print(json.dumps(answer))
