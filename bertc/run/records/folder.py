"""The run folder: everything for resuming a run and for understanding it.

spec.bertc       the spec as given                metrics.jsonl   a JSON object a line
resolved.json    the resolved program             checkpoints/    see checkpoints.py
lock.json        versions, data, machine, plan    model/          the trained model
tokenizer/       the vocabulary's files
attempts.jsonl   each time it was started or resumed
spent.jsonl      where its time went, and its peak memory
failed.txt       why it ended, if by an error; until it goes on
trackers/        the id by which each tracker knows the run
digests.json     sha256 of the files of tokenizer/ and model/
resolved-N.json  the program until N steps, of a run that went on for more
pruned.json      the program of what is left, of a run that removed heads or neurons
calibration.json temperature and thresholds that bertc eval fitted on dev
sentences/       how vectors are made, of a run that began from a folder that says so
"""

import fcntl
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bertc.base import diagnostics
from bertc.base.diagnostics import MissingInputError, StoppedError, UsageError
from bertc.base.storage import durable
from bertc.base.storage.durable import lock
from bertc.base.storage.paths import StrPath, files_matching, is_file, is_folder, is_taken
from bertc.base.storage.plain_file import read_json, read_text
from bertc.hub import folders
from bertc.hub.belonging import refuse_strangers, step_of_model
from bertc.ir.program import Resolved
from bertc.ir.program.resolved import drop_places
from bertc.lang.read.scan import LARGEST_TEXT
from bertc.run.records import metrics
from bertc.run.records.changes import leaves, overrides_of, refuse_another_program, with_places_of
from bertc.run.records.lock import Lock
from bertc.run.records.metrics import ATTEMPT, USAGE, Attempt, Usage, read_lines
from bertc.run.records.results import Seen, read_evaluation
from bertc.text.tokenizers.reading import network_folder

GLANCES_SECONDS = (0.02, 0.02, 0.02)
"""Waits of a start for those who look at its lock."""


class RunFolder:
    """The paths in a run folder, and how they are written and read.

    Reading raises a ``MissingInputError`` if a file cannot be read, and a ``DataError`` if it is
    damaged or of another run.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = path = Path(path)
        self.metrics = path / "metrics.jsonl"
        self.attempts = path / "attempts.jsonl"
        self.spent = path / "spent.jsonl"
        self.resolved = path / folders.RESOLVED
        self.spec = path / "spec.bertc"
        self.left = path / folders.LEFT
        self.forecast = path / "forecast.json"
        self.lock = path / "lock.json"
        self.tokenizer = path / "tokenizer"
        self.sentences = path / folders.SENTENCES
        self.failure = path / "failed.txt"
        self.checkpoints = path / "checkpoints"
        self.model = path / "model"

    @property
    def holds_a_run(self) -> bool:
        """True if a run was started here; the resolved program is the first file written."""
        return is_taken(self.resolved)

    @property
    def holds_a_model(self) -> bool:
        """True of the model folder of others, which no run made."""
        return not self.holds_a_run and is_file(network_folder(self.path) / "config.json")

    @property
    def saved_step(self) -> int:
        """The step of the newest checkpoint, by its name; 0 without one."""
        return max((step for step, _ in folders.checkpoint_folders(self.checkpoints)), default=0)

    def counted_until(self, step: int) -> tuple[int, float] | None:
        """Tokens and seconds until a step that has a checkpoint; None of another.

        Lines of metrics come every ``log_every`` steps, and a run may be stopped between two.
        """
        for saved, folder in folders.checkpoint_folders(self.checkpoints):
            with suppress(diagnostics.BertcError, KeyError, TypeError, ValueError):
                if saved == step:
                    progress = read_json(folder / folders.PROGRESS, 2**20)
                    return int(progress["tokens"]), float(progress["seconds"])
        return None

    def is_finished(self, resolved: Resolved) -> bool:
        """True if the run of this program finished; the digests of its model are written last."""
        return step_of_model(self.path) == self.fix_steps(resolved).steps

    def fix_steps(self, resolved: Resolved) -> Resolved:
        """The run's program; in place of a time with the steps that it had time for so far."""
        return resolved.of_steps(self.saved_step) if resolved.run.most_seconds else resolved

    @property
    def in_use(self) -> bool:
        """True if a process on this machine is training the run now."""
        try:
            with open(self.path / ".lock") as file:
                lock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return isinstance(error, BlockingIOError)
        return False

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Lock the folder, unless another process has it; one that stays empty goes again."""
        is_new = not is_taken(self.path)
        try:
            durable.make_folder(self.path)
            descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            message = f"cannot write in {self.path}: {error.strerror}"
            raise diagnostics.CannotWriteError(message, "choose another --out") from error
        try:
            _lock(descriptor)
            yield
        except BlockingIOError:
            is_new = False
            message = f"another run is using {self.path}"
            raise StoppedError(message, "wait for it, or choose another --out") from None
        finally:
            with suppress(OSError):
                if is_new and os.listdir(self.path) == [".lock"]:
                    durable.remove(self.path)
            os.close(descriptor)

    @contextmanager
    def noting_failure(self) -> Iterator[None]:
        """Leave the reason in the folder if an error ends the run."""
        try:
            yield
        except (StoppedError, diagnostics.LostStoreError):
            raise
        except Exception as error:
            with suppress(OSError, diagnostics.BertcError):
                durable.replace(self.failure, f"{error}\n".encode(errors="replace"))
            raise

    @contextmanager
    def naming_home(self, resolved: Resolved) -> Iterator[None]:
        """Say of files that are missing that their names begin in another folder, above the run."""
        try:
            yield
        except MissingInputError as error:
            texts = {v for _, v in leaves(resolved.model_dump(mode="json")) if isinstance(v, str)}
            names = [text for text in texts if re.search("[./]", text) and text in error.message]
            for above in self.path.absolute().parents if self.holds_a_run else ():
                if any(is_taken(above / n) or any(files_matching(above / n)) for n in names):
                    help = f"cd {above}: names of files of {self.path.name} begin there"
                    raise MissingInputError(error.message, help) from error
            raise

    def admit(self, resolved: Resolved, resume: bool) -> None:
        """Refuse to start a run here, or with ``resume`` to go on with one of another program."""
        if not is_folder(self.path):
            return
        if not self.holds_a_run:
            # A run killed at its very beginning leaves a lock and perhaps its spec.
            names = {path.name for path in self.path.iterdir()}
            names -= {".lock", "spec.bertc", self.forecast.name}
            if strangers := sorted(name for name in names if not name.startswith(".tmp-")):
                message = f"{self.path} is not empty and holds no run ({', '.join(strangers[:3])})"
                raise UsageError(message, "choose another --out")
            return
        if not resume:
            help = "resume it (--resume, resume=True), or name another folder (--out)"
            raise UsageError(f"{self.path} holds a run already", help)
        refuse_another_program(self.read_resolved(), resolved, self.path)

    def start(self, resolved: Resolved, spec_text: str) -> None:
        """Write spec and program, before the first step."""
        durable.replace(self.spec, spec_text.encode())
        durable.replace(self.resolved, _as_json(resolved))

    def write_left(self, program: Resolved) -> None:
        """Write the program of what is left, after the last step."""
        durable.replace(self.left, _as_json(program))

    def read_resolved(self) -> Resolved:
        """Read the program of the run."""
        if not self.holds_a_run:
            folders.refuse_several(self.path)
            message = f"{self.path} holds no run"
            raise MissingInputError(message, "bertc train SPEC --out DIR makes one")
        return folders.read_resolved(self.resolved)

    def go_on(self, old: Resolved, new: Resolved) -> None:
        """Extend the run to the steps of ``new``; the old program stays beside it."""
        durable.replace(self.path / f"resolved-{old.steps:08d}.json", _as_json(old))
        text = read_text(self.spec, 4 * LARGEST_TEXT) if is_taken(self.spec) else ""
        durable.replace(self.spec, f"{text.rstrip()}\n# --set steps={new.steps}\n".encode())
        durable.replace(self.resolved, _as_json(new))

    def move(self, resolved: Resolved) -> None:
        """Note where the prepared text is that the run reads from now on."""
        before = self.read_resolved()
        if (after := with_places_of(resolved, before)) != before:
            durable.replace(self.resolved, _as_json(after))

    def overrides(self) -> list[str]:
        """The overrides of its spec, and the values of its point of a grid, as ``name=value``."""
        return overrides_of(self.spec)

    def identities(self) -> tuple[str, ...]:
        """Identities of the run's program, and of its earlier ones with fewer steps."""
        paths = [self.resolved, *sorted(self.path.glob("resolved-*.json"))]
        return tuple(identity(folders.read_resolved(path)) for path in paths)

    def read_lock(self) -> Lock | None:
        """Read the lock; None before it is written."""
        return Lock.read(self.lock) if is_taken(self.lock) else None

    def read_metrics(self) -> list[metrics.Line]:
        """Read the lines of metrics, of a run that is not in parts another."""
        lines = metrics.read(self.metrics)
        refuse_strangers(self.path, files=False)
        return lines

    @property
    def left_out(self) -> int:
        """The number of steps that patience left out until the last one."""
        return metrics.ends_until(self.saved_step, self.follow())[0]

    def follow(self) -> list[metrics.Line]:
        """Read the lines until now, of a run that may be training."""
        return metrics.read(self.metrics)

    def evaluations(self, resolved: Resolved, lines: Sequence[metrics.Line]) -> list[Seen]:
        """The evaluations in lines of its metrics, in order."""
        of_eval = (line for line in lines if line["kind"] == "eval")
        return [read_evaluation(line, resolved, self.metrics) for line in of_eval]

    @property
    def network_left(self) -> Resolved | None:
        """The program of what is left, of a run that removed parts and has ended."""
        return folders.read_network(self.path) if is_taken(self.left) else None

    def read_attempts(self) -> list[Attempt]:
        """Each time that processes took up the run, oldest first; times are Unix seconds."""
        return read_lines(self.attempts, ATTEMPT)

    def read_spent(self) -> list[Usage]:
        """Seconds by use and peak bytes of the run's first process, since the line before each."""
        return read_lines(self.spent, USAGE)

    def refuse_mixed(self) -> None:
        """Refuse a folder with parts of another run, by its files too."""
        refuse_strangers(self.path)


def _lock(descriptor: int) -> None:
    """Lock a file for this process; who looks whether it is in use has it for a moment."""
    for seconds in GLANCES_SECONDS:
        with suppress(BlockingIOError):
            return lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(seconds)
    return lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def identity(resolved: Resolved) -> str:
    """The fingerprint of a run without what fits it to machines, log, and the recipe."""
    resolved = resolved.with_data(drop_places).with_free()
    return resolved.model_copy(update={"run": resolved.run.without_recipe}).fingerprint()


def _as_json(resolved: Resolved) -> bytes:
    return (resolved.model_dump_json(indent=1) + "\n").encode()
