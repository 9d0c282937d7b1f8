"""What holds for all tests."""

import atexit
import gc
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest

from bertc.text.tokenizers import reading
from bertc.text.tokenizers.by_transformers import read_or_refuse

# Each of the workers that share the cores gets one; before torch is imported.
os.environ["OMP_NUM_THREADS"] = "1"
# Where a test takes two, they sleep while they wait, and leave the core to whoever has work.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Read when MKL is first used, which may be in a test that trains nothing.
os.environ.setdefault("MKL_CBWR", "AUTO")
# That what g++ makes of vector code can be loaded is tried with 9 s of it; it is what tests run.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")
# Parts of the user's own are recorded here, without a process that imports torch once more.
os.environ["BERTC_OWN"] = "yes"
OWN_CLASSES = import_module("bertc.check.passes.own_classes")
RUN_RECORDER = OWN_CLASSES.run_recorder


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """The recorder's answer, in this process."""
    from bertc.model import recorder

    return recorder.reply(request)


OWN_CLASSES.run_recorder = reply
# Names of models on a hub are looked up in its cache alone.
os.environ["HF_HUB_OFFLINE"] = "1"
# What is compiled once is not by each process that a test starts: half a second for each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# A suite that is started by nohup ignores this signal, which some tests send themselves.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
# No power fails while tests run: waiting for the disk many thousand times would show nothing.
os.fsync = os.fstat
# What is imported for tests stays: walking it again and again takes a quarter of collecting them.
gc.disable()


COMPILING = (
    "lab/onnx/test_export.py", "learn/test_losses.py", "model/test_primitives.py",
    "model/test_model.py", "run/test_compiled.py",
)  # fmt: skip
"""Files whose tests load torch's compiler or exporter."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that compile or start processes, so that one worker gets them all.
    What they load is then loaded once, and no worker ends with a long test.
    """
    first = {item.path for item in items if "processes" in getattr(item, "fixturenames", ())}
    first |= {item.path for item in items if item.path.as_posix().endswith(COMPILING)}
    items.sort(key=lambda item: item.path not in first)


def pytest_collection_finish() -> None:
    """Run tests in an empty folder, and collect the garbage that they make.
    No test sees the folder that the suite is started in, and none collects after every 700 objects.
    """
    empty = tempfile.mkdtemp(prefix="bertc-tests-")
    atexit.register(shutil.rmtree, empty, ignore_errors=True)
    os.chdir(empty)
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def tokenizers_of_others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let this process read them, once in a session: another takes a second for each."""
    from bertc.run.beginning import synthetic  # torch is imported after what it reads is set

    kept = tmp_path_factory.mktemp("tokenizers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthetic, "TEXT_TOKENS", 2**14)  # 20 ms for a million
        patch.setattr(reading, "cache_folder", lambda: kept)
        patch.setattr(reading, "in_process", lambda folder, lower, _: read_or_refuse(folder, lower))
        yield


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """Processes that fork from a server which has torch loaded, so that each starts at once.
    A session has one such server: what it loads is decided here for all tests.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.forked"])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(Path(__file__).parents[1])  # where the server looks for modules
        forkserver.ensure_running()
    return context


@pytest.fixture
def in_the_farm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Go where the paths of the tiny programs begin."""
    monkeypatch.chdir(Path(__file__).parent / "net" / "farm")


@pytest.fixture
def forked(processes: ForkServerContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contenders of a benchmark have processes that need not load torch."""
    monkeypatch.setattr(multiprocessing, "get_context", lambda method: processes)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """A call that runs ``bertc`` with these arguments in this process; its exit code."""
    from bertc.cli import main

    def run(*arguments: str) -> int:
        monkeypatch.setattr("sys.argv", ["bertc", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0)

    return run


@pytest.fixture
def call(
    command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """The same with what it prints: its exit code, stdout and stderr."""
    return lambda *arguments: (command(*arguments), *capsys.readouterr())


@pytest.fixture
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Code of folders is copied here, and forgotten."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in [name for name in sys.modules if name.startswith("transformers_modules")]:
        del sys.modules[name]
