"""``--nproc``: one run in several processes of this machine, by torch's elastic launcher."""

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from bertc.base.cores import available_cores
from bertc.base.diagnostics import StoppedError
from bertc.machine.signals import LAUNCHER
from bertc.run.records.checkpoints import how_to_resume
from bertc.run.records.folder import RunFolder

SAVING_SECONDS = 60
"""Seconds that processes get to save after a signal; those that wait for a peer are killed then."""
LOOPBACK = {"linux": "lo", "darwin": "lo0"}


def launch(arguments: Sequence[str], processes: int, folder: Path) -> int:
    """Run ``bertc`` with ``arguments`` in ``processes`` processes; returns the run's exit code."""
    cores = str(max(1, available_cores() // processes))
    os.environ.setdefault("OMP_NUM_THREADS", cores)
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", cores)  # each compiles by itself
    os.environ[LAUNCHER] = str(os.getpid())
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(SAVING_SECONDS))
    if sys.platform in LOOPBACK:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK[sys.platform])
    # The processes report their own errors.
    logging.disable(logging.CRITICAL)
    with TemporaryDirectory(prefix="bertc-launch-") as logs:
        config = LaunchConfig(
            min_nodes=1, max_nodes=1, nproc_per_node=processes, run_id="bertc", rdzv_backend="c10d",
            rdzv_endpoint="localhost:0", local_addr="localhost", max_restarts=0,
            monitor_interval=0.1, logs_specs=DefaultLogsSpecs(log_dir=logs),
        )  # fmt: skip
        try:
            elastic_launch(config, sys.executable)("-m", "bertc.cli", *arguments)
        except ChildFailedError as error:
            codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
            # Of the process that failed first, not of those that only lost their peer, or that
            # were killed since they waited for it.
            lost = StoppedError.exit_code
            if errors := [code for code in codes.values() if code > 0 and code != lost]:
                return errors[0]
            for rank, code in codes.items():
                if code < 0:
                    raise StoppedError(
                        f"process {rank} was killed by signal {-code}, and the others were stopped",
                        help=how_to_resume(RunFolder(folder).checkpoints),
                    ) from None
            return lost
        except SignalException as error:
            return 128 + int(error.sigval)
    return 0
