"""Figures read back from trackers, beside what metrics.jsonl holds.

    python -m tests.campaigns.trackers RUN [--to tensorboard --to wandb ...] [--json FILE]

Sends a run in two halves, as if it had been stopped and had gone on, to each tracker that is
installed: TensorBoard's event files, W&B offline, MLflow in a database of its own, trackio. Prints
for each how many figures are there, how many of them differ, and seconds. Exits 1 if any differs or
is missing. Nothing is sent to a network.
"""

import argparse
import json
import os
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from bertc.runs.curves import curves
from bertc.trackers.mlflow import TAG, mlflow_name
from bertc.trackers.sync import send_missing

BLOCK_BYTES = 32768
Figures = dict[tuple[str, int], float]
"""A value by name and step."""


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--to", action="append", choices=[*READERS])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows, wrong = [], 0
    print(f"{'tracker':12} {'figures':>8} {'there':>8} {'differ':>7} {'largest':>9} {'seconds':>8}")
    for tracker in options.to or READERS:
        if find_spec(tracker) is None:
            print(f"{tracker:12} not installed")
            continue
        row = compared(options.run, tracker)
        rows.append(row)
        wrong += row["differ"] or row["there"] != row["figures"]
        print(f"{tracker:12} {row['figures']:8} {row['there']:8} {row['differ']:7} "
              f"{row['largest']:9.1e} {row['seconds']:8.1f}")  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(wrong > 0)


def compared(run: Path, tracker: str) -> dict[str, float | str]:
    """Send a copy of the run to a tracker, and compare what it holds."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        shutil.copytree(
            run, folder, ignore=shutil.ignore_patterns("checkpoints", "trackers", tracker)
        )
        os.environ.update(
            HOME=place, WANDB_MODE="offline", MLFLOW_TRACKING_URI=f"sqlite:///{place}/mlflow.db",
            TRACKIO_DIR=f"{place}/trackio",
        )  # fmt: skip
        lines = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
        begun = time.perf_counter()
        for part in (lines[: len(lines) // 2], lines):
            (folder / "metrics.jsonl").write_bytes(b"".join(part))
            send_missing(folder, [tracker])
        seconds = time.perf_counter() - begun
        held = READERS[tracker](folder)
        # Names as this tracker has them, and values in 32 bits where that is all it keeps.
        name = mlflow_name if tracker == "mlflow" else str
        expected = {
            (name(each), point.step): value
            for point in curves(folder).points
            for each, value in point.values.items()
        }
    off = {
        at: abs(held[at] - value) / max(1e-9, abs(value))
        for at, value in expected.items()
        if at in held
    }
    exact = 1e-6 if tracker == "tensorboard" else 0.0
    return {
        "tracker": tracker,
        "figures": len(expected),
        "there": len(held.keys() & expected.keys()),
        "differ": sum(each > exact for each in off.values()),
        "largest": max(off.values(), default=0.0),
        "seconds": seconds,
    }


def of_tensorboard(folder: Path) -> Figures:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    names = events.Tags()["scalars"]
    return {(name, each.step): each.value for name in names for each in events.Scalars(name)}


def of_wandb(folder: Path) -> Figures:
    from wandb.proto import wandb_internal_pb2

    figures: Figures = {}
    for file in sorted(folder.glob("wandb/offline-run-*/run-*.wandb")):
        for content in records(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(content)
            values = {
                "/".join(item.nested_key) or item.key: json.loads(item.value_json)
                for item in record.history.item
            }
            step = record.history.step.num
            figures |= {(n, step): v for n, v in values.items() if not n.startswith("_")}
    return figures


def records(content: bytes) -> Iterator[bytes]:
    """The records of a file in LevelDB's log format, after the header that W&B puts before it."""
    at, whole = 7, b""
    while at + 7 <= len(content):
        if BLOCK_BYTES - at % BLOCK_BYTES < 7:  # no header fits: the rest is empty
            at += BLOCK_BYTES - at % BLOCK_BYTES
        _, length, part = struct.unpack("<IHB", content[at : at + 7])
        whole += content[at + 7 : at + 7 + length]
        at += 7 + length
        if part in (1, 4):  # whole, or the last part
            yield whole
            whole = b""


def of_mlflow(folder: Path) -> Figures:
    from mlflow import MlflowClient

    client = MlflowClient()
    experiments = [each.experiment_id for each in client.search_experiments()]
    (run,) = (each for each in client.search_runs(experiments) if TAG in each.data.tags)
    return {
        (name, each.step): each.value
        for name in run.data.metrics
        for each in client.get_metric_history(run.info.run_id, name)
    }


def of_trackio(folder: Path) -> Figures:
    from trackio.sqlite_storage import SQLiteStorage

    figures: Figures = {}
    for run in SQLiteStorage.get_runs("bertc"):
        for line in SQLiteStorage.get_logs("bertc", run):
            numbers = {n: v for n, v in line.items() if isinstance(v, float)}
            figures |= {(name, line["step"]): value for name, value in numbers.items()}
    return figures


READERS: dict[str, Callable[[Path], Figures]] = {
    "tensorboard": of_tensorboard,
    "wandb": of_wandb,
    "mlflow": of_mlflow,
    "trackio": of_trackio,
}


if __name__ == "__main__":
    sys.exit(main())
