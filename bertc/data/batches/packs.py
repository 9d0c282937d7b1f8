"""Which examples share a row, where rows hold as many as fit."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertc.data.batches.batch import lengths
from bertc.data.batches.order import permute
from bertc.data.rows.tokens import mapped

AT_ONCE = 1 << 16
"""Examples that are fitted together; what is left open at the end of them stays open."""

MEMBERS, ENDS = "members", "ends"


@dataclass(frozen=True, eq=False)
class Packs:
    """Packed rows: pack p holds the examples ``members[ends[p - 1]:ends[p]]`` of ``rows``."""

    rows: NDArray[Any]
    members: NDArray[np.int64]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def open(self, packs: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The examples of some packs, one after another, and to which of those each belongs."""
        firsts = np.where(packs > 0, self.ends[packs - 1], 0)
        sizes = self.ends[packs] - firsts
        which = np.repeat(np.arange(len(packs)), sizes)
        nth = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.rows[self.members[firsts[which] + nth]], which


def open_packs(folder: Path, rows: NDArray[Any]) -> Packs:
    """The packs written there, of these rows."""
    return Packs(rows, *(mapped(folder / name, np.dtype("<i8")) for name in (MEMBERS, ENDS)))


def write_packs(
    folder: Path, rows: NDArray[Any], seq: int, texts: int, seed: int, copy: int
) -> dict[str, int]:
    """Fit examples into rows of ``seq`` tokens, at most ``texts`` in each; say how many rows.

    Examples are mixed first, so that those of one document do not share a row more than others.
    """
    count = read = 0
    with (folder / MEMBERS).open("wb") as members, (folder / ENDS).open("wb") as ends:
        for start in range(0, len(rows), AT_ONCE):
            positions = np.arange(start, min(start + AT_ONCE, len(rows)), dtype=np.int64)
            drawn = permute(positions, len(rows), seed, "packs", copy)
            packs = fit(lengths(rows[drawn]).tolist(), seq, texts)
            members.write(drawn[[i for pack in packs for i in pack]].tobytes())
            sizes = np.array([len(pack) for pack in packs], dtype=np.int64)
            ends.write((read + np.cumsum(sizes)).tobytes())
            count, read = count + len(packs), read + len(drawn)
    return {"packs": count, "examples": read}


def fit(sizes: list[int], room: int, most: int) -> list[list[int]]:
    """Best fit: each example joins the fullest row that has room for it, or opens a new one."""
    packs: list[list[int]] = []
    waiting: list[list[int]] = [[] for _ in range(room)]  # by the room that is left
    rooms = 0  # bit r is set where some row has r left
    for example, size in enumerate(sizes):
        enough = rooms >> size << size
        if enough:
            left = (enough & -enough).bit_length() - 1
            pack = waiting[left].pop()
            if not waiting[left]:
                rooms ^= 1 << left
        else:
            left, pack = room, len(packs)
            packs.append([])
        packs[pack].append(example)
        left -= size
        if left and len(packs[pack]) < most:
            waiting[left].append(pack)
            rooms |= 1 << left
    return packs
