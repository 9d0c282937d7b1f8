"""Checkpoints that all processes of a sharded run write together, in the background.

The files are to the byte those of one process. A shard is some rows of a tensor, so it has one
place in a safetensors file: the first process makes the files at their full size, and each process
writes its rows there. The manifest goes last.
"""

import json
import math
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import torch

from bertc.base.diagnostics import BertcError, CannotWriteError
from bertc.base.storage import durable
from bertc.hub.folders import checkpoint_name
from bertc.learn.step.engines import Part
from bertc.machine.process_group import ProcessGroup
from bertc.run.records.checkpoints import begin, temporary_folder

FileParts = Mapping[str, Mapping[str, Part]]
"""The tensors of each file by name, with the rows of this process."""
VALUE_BYTES = torch.float32.itemsize


def make_files(parent: Path, step: int, files: FileParts, ranks: ProcessGroup) -> bool:
    """Make the files at their full size in the first process; True if all processes see them."""
    folder, inode = temporary_folder(parent, step), 0
    if ranks.is_main:
        layouts = {name: _layout(parts) for name, parts in files.items()}
        needed = sum(size for _, _, size in layouts.values())
        with durable.writing(parent / checkpoint_name(step), needed):
            begin(folder)
            for name, (_, _, size) in layouts.items():
                with open(folder / name, "xb") as file:
                    file.truncate(size)
        inode = folder.stat().st_ino
    inode, seen = ranks.share(inode), 0
    with suppress(OSError):
        seen = int(folder.stat().st_ino == inode)
    return bool(ranks.least(seen))


def _layout(parts: Mapping[str, Part]) -> tuple[bytes, dict[str, int], int]:
    """The header of a file as safetensors writes it, where its tensors begin, and its size."""
    entries, starts, end = {}, dict[str, int](), 0
    for name, part in sorted(parts.items()):
        starts[name], end = end, end + VALUE_BYTES * math.prod(part.shape)
        offsets = [starts[name], end]
        entries[name] = {"dtype": "F32", "shape": [*part.shape], "data_offsets": offsets}
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    header = len(text).to_bytes(8, "little") + text
    return header, {name: len(header) + start for name, start in starts.items()}, len(header) + end


def write_parts(parent: Path, step: int, files: FileParts, is_main: bool) -> None:
    """Write the rows of this process at their places, and wait until the disk has them.

    The first process writes the headers too. Nothing was read or written there before, nor is it
    opened for reading: of a page that it knows, a client of NFS sends the rows of others as well.
    """
    with durable.writing(parent / checkpoint_name(step)):
        for name, parts in files.items():
            descriptor = os.open(temporary_folder(parent, step) / name, os.O_WRONLY)
            try:
                for offset, content in _places(parts, is_main):
                    while len(content):  # the system takes at most 2 GiB at once
                        written = os.pwrite(descriptor, content, offset)
                        offset, content = offset + written, content[written:]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _places(parts: Mapping[str, Part], is_main: bool) -> Iterator[tuple[int, memoryview]]:
    """Yield what this process writes, and from which byte of the file."""
    header, starts, _ = _layout(parts)
    if is_main:
        yield 0, memoryview(header)
    for name, (shape, first, rows) in parts.items():
        offset = starts[name] + first * VALUE_BYTES * math.prod(shape[1:])
        yield offset, rows.flatten().view(torch.uint8).numpy().data


class Saving:
    """A checkpoint on its way: a thread of each process writes, then one of the first completes.

    An error of any process is raised in all, by ``finish``. ``ranks`` are of this thread alone.
    """

    def __init__(
        self,
        parent: Path,
        step: int,
        ranks: ProcessGroup,
        write: Callable[[], object],
        complete: Callable[[], object],
    ) -> None:
        self._folder, self._ranks = temporary_folder(parent, step), ranks
        self._works = write, complete
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """True if nothing more will be written."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Wait until it is over."""
        self._thread.join()

    def finish(self) -> None:
        """Wait until it is over, and raise what went wrong."""
        self.wait()
        if self._error:
            raise self._error

    def _run(self) -> None:
        try:
            for work in self._works:
                self._agreed(work)
        except BaseException as error:
            self._error = error
            if self._ranks.is_main:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _agreed(self, work: Callable[[], object]) -> None:
        """Do a piece of work, and raise the first error that any process had."""
        error = None
        try:
            work()
        except BertcError as caught:
            error = caught
        first = self._ranks.first_message(f"{error.message}\n{error.help}" if error else "")
        if first:
            message, _, help = first.partition("\n")
            with self._ranks.raise_on_all():
                raise error or CannotWriteError(message, help=help)
