"""Evaluation with a memory against a sliding window of the same attention length, per token.

    python tests/bench/sliding.py --length 512 --rounds 5

The paper makes this comparison (Dai et al. 2019, 4.5). Untrained weights serve: time is all that is
measured. Prints a JSON object: seconds a token by each way, medians, and their ratio.
"""

import argparse
import json
import statistics
import time

import torch

from bertc.api import resolve
from bertc.model import EncoderInputs, Model, build
from bertc.model.inputs import nothing

SPEC = (
    "extends transformer-xl layers=6 hidden=256 heads=4 vocab=bytes table=whole(scaled=true) "
    "dropout=dropout(0, 0, 0, 0)"
)


def main() -> None:
    """Take turns, and compare."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--length", type=int, default=512, help="tokens that a token sees")
    options.add_argument("--seq", type=int, default=128, help="tokens read at once with a memory")
    options.add_argument("--rows", type=int, default=8, help="windows, or rows, at once")
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    model = build(resolve(SPEC)).eval()
    ways = {"memory": remembered, "sliding": slid}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    with torch.no_grad():
        for _ in range(chosen.rounds + 1):
            for name, way in ways.items():
                seconds[name].append(way(model, chosen.rows, chosen.seq, chosen.length))
    medians = {name: statistics.median(found[1:]) for name, found in seconds.items()}
    ratio = medians["sliding"] / medians["memory"]
    print(json.dumps({**vars(chosen), "seconds_per_token": medians, "times_faster": ratio}))


def remembered(model: Model, rows: int, seq: int, length: int) -> float:
    """Seconds a token, of pieces that go on from a full memory."""
    node = model.resolved.encoder
    memory = nothing(
        len(node.layers), rows, length, node.hidden, torch.float32, torch.device("cpu")
    )
    reading = EncoderInputs(torch.randint(5, 200, (rows, seq)), memory=memory)
    started = time.perf_counter()
    model.read_on(reading)
    return (time.perf_counter() - started) / (rows * seq)


def slid(model: Model, rows: int, seq: int, length: int) -> float:
    """Seconds a token, each with a window of its own; the last layer works for it alone."""
    asked = torch.full((rows, 1), length - 1)
    reading = EncoderInputs(torch.randint(5, 200, (rows, length)), output_positions=asked)
    started = time.perf_counter()
    model.read(reading)
    return (time.perf_counter() - started) / rows


if __name__ == "__main__":
    main()
