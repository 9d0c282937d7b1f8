"""Packing: the assignment of examples to rows that hold as many as fit."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertc.text.batches.batch import lengths
from bertc.text.batches.order import permute

WINDOW_EXAMPLES = 1 << 16
"""Packing window: examples are only packed with others of the same window."""

MEMBERS_FILE, ENDS_FILE = "members", "ends"


@dataclass(frozen=True, eq=False)
class Packs:
    """Packed rows: row p holds the examples ``members[ends[p - 1]:ends[p]]`` of ``examples``."""

    examples: NDArray[Any]
    members: NDArray[np.int64]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def texts_per_row(self) -> int:
        """The most examples that a row holds."""
        return int(np.diff(self.ends, prepend=0).max(initial=1))

    def unpack(self, packs: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The examples of some packed rows, end to end, and the row of each."""
        firsts = np.where(packs > 0, self.ends[packs - 1], 0)
        sizes = self.ends[packs] - firsts
        which = np.repeat(np.arange(len(packs)), sizes)
        nth = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.examples[self.members[firsts[which] + nth]], which


def write_packs(
    folder: Path, rows: NDArray[Any], seq: int, texts: int, seed: int, copy: int
) -> dict[str, int]:
    """Pack shuffled examples into rows of ``seq`` tokens, at most ``texts`` in each."""
    count = read = 0
    with (folder / MEMBERS_FILE).open("wb") as members, (folder / ENDS_FILE).open("wb") as ends:
        for start in range(0, len(rows), WINDOW_EXAMPLES):
            positions = np.arange(start, min(start + WINDOW_EXAMPLES, len(rows)), dtype=np.int64)
            drawn = permute(positions, len(rows), seed, "packs", copy)
            packs = best_fit(lengths(rows[drawn]).tolist(), seq, texts)
            members.write(drawn[[i for pack in packs for i in pack]].tobytes())
            sizes = np.array([len(pack) for pack in packs], dtype=np.int64)
            ends.write((read + np.cumsum(sizes)).tobytes())
            count, read = count + len(packs), read + len(drawn)
    return {"packs": count, "examples": read}


def best_fit(sizes: list[int], room: int, most: int) -> list[list[int]]:
    """Best fit: each example joins the fullest row with room for it, or opens a new one."""
    packs: list[list[int]] = []
    by_room: list[list[int]] = [[] for _ in range(room)]  # by the room left
    rooms_left = 0  # bit r is set if some row has r left
    for example, size in enumerate(sizes):
        fitting = rooms_left >> size << size
        if fitting:
            room_left = (fitting & -fitting).bit_length() - 1
            pack = by_room[room_left].pop()
            if not by_room[room_left]:
                rooms_left ^= 1 << room_left
        else:
            room_left, pack = room, len(packs)
            packs.append([])
        packs[pack].append(example)
        room_left -= size
        if room_left and len(packs[pack]) < most:
            by_room[room_left].append(pack)
            rooms_left |= 1 << room_left
    return packs
