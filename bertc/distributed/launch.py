"""``--nproc``: one run in several processes of this machine, through torch's own launcher."""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from bertc.diagnostics import StoppedError
from bertc.distributed.parent_watch import LAUNCHER
from bertc.planning.cores import available_cores
from bertc.runs.checkpoints import how_to_resume
from bertc.runs.folder import RunFolder

SAVING_SECONDS = 120
"""How long processes that were asked to stop may take to save before they are killed."""
LOOPBACK = {"linux": "lo", "darwin": "lo0"}


def launch(arguments: Sequence[str], processes: int, folder: Path) -> int:
    """Run ``bertc`` with ``arguments`` in so many processes; the exit code of the run.

    ``folder`` is the run's. A signal is passed on to all of them. When one ends badly, the others
    are stopped. When this process is killed, they end by themselves.

    Raises:
        StoppedError: if one was killed.
    """
    cores = str(max(1, available_cores() // processes))
    os.environ.setdefault("OMP_NUM_THREADS", cores)
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", cores)  # each compiles by itself
    os.environ[LAUNCHER] = str(os.getpid())
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(SAVING_SECONDS))
    if sys.platform in LOOPBACK:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK[sys.platform])
    # What went wrong is told by the processes themselves.
    logging.disable(logging.CRITICAL)
    with TemporaryDirectory(prefix="bertc-launch-") as logs:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=processes,
            run_id="bertc",
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            local_addr="localhost",
            max_restarts=0,
            monitor_interval=0.1,
            logs_specs=DefaultLogsSpecs(log_dir=logs),
        )
        try:
            elastic_launch(config, sys.executable)("-m", "bertc.cli", *arguments)
        except ChildFailedError as error:
            return _code({rank: one.exitcode for rank, one in error.failures.items()}, folder)
        except SignalException as error:
            return 128 + int(error.sigval)
    return 0


def _code(codes: Mapping[int, int], folder: Path) -> int:
    """The code of the process that failed, not of those that only lost it."""
    lost = StoppedError.exit_code
    for rank, code in codes.items():
        if code < 0:
            raise StoppedError(
                f"process {rank} was killed by signal {-code}, and the others were stopped",
                help=how_to_resume(RunFolder(folder).checkpoints),
            )
    return next((code for code in codes.values() if code != lost), lost)
