"""The store of a search: its trials in an SQLite file beside their run folders, kept by Optuna.

sweep.db      what was tried, and what came out     trial-0007/   the run folder of a trial
.sweep.lock   held while a trial is taken           .claimed/     a claimed folder for each trial
"""

import fcntl
import json
import logging
import os
import sqlite3
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from bertc import CannotWriteError, DataError, MissingInputError, StoppedError, UsageError
from bertc.lab.search.goal import Goal
from bertc.lab_api import RunFolder, optional_package

DATABASE = "sweep.db"
STUDY = "sweep"
BUSY_SECONDS = 120
"""Longest wait for another process that writes to the store."""
FACTS = "facts"
LIBRARIES = ("optuna", "sqlalchemy", "sqlite3", "alembic")
REFUSED = ("database or disk is full", "disk I/O error", "unable to open database file",
           "attempt to write a readonly database", "database is locked")  # fmt: skip
"""SQLite's words for what its place does not allow."""


def package() -> Any:
    """Import Optuna, silent but for errors."""
    optuna = optional_package("optuna", "searches", "sweep")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # A signal within a statement: it reports what it could not close with a traceback.
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


@contextmanager
def reading_store(folder: Path) -> Iterator[None]:
    """Let the block use the store of a folder."""
    path = folder / DATABASE
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in LIBRARIES:
            raise
        causes = f"{error} {error.__cause__ or ''}"
        if reason := next((said for said in REFUSED if said in causes), ""):
            raise CannotWriteError(
                f"cannot use {path}: {reason}",
                help="make room or give rights; then the same command goes on",
            ) from error
        raise DataError(
            f"{path} is damaged: it is not what a search writes",
            help="restore a copy; without it the finished trials are runs of their folders, "
            "and another --out begins a new search",
        ) from error


def run_folder(folder: Path, number: int) -> Path:
    """The run folder of a trial; ``number`` counts from 0, folders and messages from 1."""
    return folder / f"trial-{number + 1:04d}"


class Store:
    """An open store; ``study`` is Optuna's."""

    def __init__(self, folder: Path, study: Any) -> None:
        self.folder = folder
        self.study = study
        self.optuna = package()

    @property
    def trials(self) -> list[Any]:
        """All trials by number, as Optuna has them."""
        return list(self.study.get_trials(deepcopy=False))

    @contextmanager
    def taken(self, draw: Callable[["Store"], Any]) -> Iterator[Any]:
        """A trial for this process alone: one that another process left, else the next one drawn.

        None if none is drawn any more, and other processes have those that go on.
        """
        with ExitStack() as claims:
            with _locked(self.folder):
                trial = self._next(draw, claims)
            yield trial

    def _next(self, draw: Callable[["Store"], Any], claims: ExitStack) -> Any:
        running = self.optuna.trial.TrialState.RUNNING
        for earlier in self.trials:
            if earlier.state == running:
                claim = RunFolder(run_folder(self.folder / ".claimed", earlier.number)).claim()
                with suppress(StoppedError):  # another process has it
                    claims.enter_context(claim)
                    return self.optuna.trial.Trial(self.study, earlier._trial_id)
        if (drawn := draw(self)) is None:
            return None
        self.study.add_trial(drawn)  # with all its values, or not at all
        return self._next(draw, claims)


def open_store(folder: Path, goal: Goal, facts: Mapping[str, Any]) -> Store:
    """Open the store of a search, or begin it.

    With ``prune`` among the facts a trial goes on at its evaluations 1, 2, 4, ... if it is in the
    better half of those that came as far (successive halving; Li et al. 2018, ASHA).
    """
    optuna = package()
    halving = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error
    with _locked(folder), reading_store(folder):
        study = optuna.create_study(
            study_name=STUDY,
            storage=_database(folder),
            direction="maximize" if goal.more_is_better else "minimize",
            pruner=halving if facts.get("prune") else optuna.pruners.NopPruner(),
            load_if_exists=True,
        )
        known = study.user_attrs.get(FACTS)
        if known is None:
            study.set_user_attr(FACTS, json.dumps(facts))
    begun = json.loads(known) if known is not None else facts
    if differing := [name for name in facts if begun.get(name) != facts[name]]:
        raise UsageError(
            f"{folder} has a search with another {', '.join(differing)}",
            help="--out of a new folder, or what it was begun with",
        )
    return Store(folder, study)


def has_search(folder: Path) -> bool:
    """True if a search was begun in this folder."""
    return (folder / DATABASE).is_file()


def read_store(folder: Path) -> tuple[Store, dict[str, Any]]:
    """The store of a search that was begun, and its facts."""
    optuna = package()
    if not has_search(folder):
        raise MissingInputError(f"{folder} has no search", help="bertc sweep SPEC makes one")
    with reading_store(folder):
        try:
            study = optuna.load_study(study_name=STUDY, storage=_database(folder))
            return Store(folder, study), json.loads(study.user_attrs[FACTS])
        except KeyError:  # a process is about to write it, or was killed there
            raise MissingInputError(
                f"{folder} has no search yet", help="the command that begins it goes on"
            ) from None


def _database(folder: Path) -> Any:
    # Connected here, since in an address a folder's `?`, `#` and `%` mean something else.
    connect = partial(
        sqlite3.connect, (folder / DATABASE).absolute(), timeout=BUSY_SECONDS,
        check_same_thread=False,
    )  # fmt: skip
    return package().storages.RDBStorage(
        f"sqlite:///{DATABASE}", engine_kwargs={"creator": connect}
    )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time do this."""
    try:
        descriptor = os.open(folder / ".sweep.lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        with suppress(OSError):  # a file system without locks lets every process in
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _unwritable(folder: Path, error: OSError) -> CannotWriteError:
    return CannotWriteError(
        f"cannot write in {folder}: {error.strerror}", help="choose another --out"
    )
