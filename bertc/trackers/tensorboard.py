"""TensorBoard's event files, in the run folder.

They are written here, of TensorBoard's own messages: its writer loads NumPy and a file system for
every cloud, which takes longer than all else that a tracker does in a short run.
"""

import os
import struct
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

from bertc.runs.figures import LineFigures
from bertc.storage import durable
from bertc.trackers.tracker import TrackedRun, tracker_package

FOLDER = "tensorboard"
FILE_VERSION = "brain.Event:2"
"""The content of the first event of a file."""
_MASK = 0xA282EAD8
_POLYNOMIAL = 0x82F63B78


class EventFile:
    """A new event file, beside those of earlier attempts: TensorBoard reads them as one run."""

    def __init__(self, run: TrackedRun) -> None:
        self._event = tracker_package("tensorboard.compat.proto.event_pb2", "tensorboard").Event
        self._summary = tracker_package(
            "tensorboard.compat.proto.summary_pb2", "tensorboard"
        ).Summary
        folder = run.folder / FOLDER
        durable.make_folder(folder)
        # The name that TensorBoard looks for; they are read in its order, so seconds come first.
        name = f"events.out.tfevents.{time.time():017.6f}.{os.getpid()}.{run.id}"
        self._file = open(folder / name, "xb")  # noqa: SIM115 - closed by close
        self.place = f"tensorboard --logdir {run.folder}"
        self._write(self._event(wall_time=time.time(), file_version=FILE_VERSION))

    def record(self, points: Sequence[LineFigures], times: Sequence[float]) -> None:
        """Write a scalar for each figure, as 32-bit floats, and wait until the file has them."""
        for point, at in zip(points, times, strict=True):
            values = [
                self._summary.Value(tag=name, simple_value=value)
                for name, value in point.values.items()
            ]
            summary = self._summary(value=values)
            self._write(self._event(wall_time=at, step=point.step, summary=summary))
        self._file.flush()

    def _write(self, event: Any) -> None:
        self._file.write(framed(event.SerializeToString()))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def framed(content: bytes) -> bytes:
    """A record of TensorFlow's files: its length and content, each followed by its checksum."""
    length = struct.pack("<Q", len(content))
    return b"".join(
        (length, struct.pack("<I", _masked(length)), content, struct.pack("<I", _masked(content)))
    )


def _masked(content: bytes) -> int:
    """CRC-32C (Castagnoli), rotated and shifted as TensorFlow's records have it."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    """The checksum of each byte."""
    entries = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (_POLYNOMIAL * (byte & 1))
        entries.append(byte)
    return tuple(entries)
