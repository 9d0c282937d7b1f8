"""The folder of a run as it starts, and as it fails. Loads no torch."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from bertc.base.diagnostics import BertcError, StoppedError, UsageError
from bertc.base.storage import durable
from bertc.base.storage.paths import is_folder
from bertc.ir.program.resolved import Resolved
from bertc.run.records.changes import refuse_another_program
from bertc.run.records.folder import RunFolder


@contextmanager
def noting_failure(folder: RunFolder) -> Iterator[None]:
    """Leave the reason in the folder if an error ends the run."""
    try:
        yield
    except StoppedError:
        raise
    except Exception as error:
        with suppress(OSError, BertcError):
            durable.replace(folder.failure, f"{error}\n".encode(errors="replace"))
        raise


def admit(folder: RunFolder, resolved: Resolved, resume: bool) -> None:
    """Refuse a folder that this run must not use; with ``resume``, one of another program."""
    if not is_folder(folder.path):
        return
    if not folder.holds_a_run:
        # A run killed at its very beginning leaves a lock and perhaps its spec.
        names = {path.name for path in folder.path.iterdir()} - {".lock", "spec.bertc"}
        if others := sorted(name for name in names if not name.startswith(".tmp-")):
            raise UsageError(
                f"{folder.path} is not empty and holds no run ({', '.join(others[:3])})",
                help="choose another --out",
            )
        return
    if not resume:
        raise UsageError(
            f"{folder.path} holds a run already",
            help="--resume to go on with it, or another --out",
        )
    refuse_another_program(folder.read_resolved(), resolved, folder.path)
