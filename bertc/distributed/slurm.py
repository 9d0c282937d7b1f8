"""``bertc slurm``: a batch script for several machines that requeues itself when preempted."""

import re
import shlex
from collections.abc import Sequence

from bertc.diagnostics import UsageError

_SCRIPT = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={gpus}
#SBATCH --time={time}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={name}-%j.log
#SBATCH --signal=B:TERM@{grace}

# For sbatch, where the paths of the spec begin, with the environment of bertc active.
# The run folder, the text and the cache ($BERTC_CACHE) are to lie on a disk that all machines see.
set -u
head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((10000 + SLURM_JOB_ID % 50000))
export OMP_NUM_THREADS=${{OMP_NUM_THREADS:-4}}
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT={grace}

# One torchrun a machine, one process a GPU. --resume begins a run where there is none yet.
srun --kill-on-bad-exit=1 torchrun \\
    --nnodes={nodes} --nproc-per-node={gpus} --max-restarts=0 \\
    --rdzv-id="$SLURM_JOB_ID" --rdzv-backend=c10d --rdzv-endpoint="$head_node:$port" \\
    -m bertc.cli {command} &
step=$!

# Preempted or out of time: srun passes the signal on, the run saves and stops, and the job waits
# for its next turn.
stopped=
trap 'stopped=yes; kill -TERM "$step"' TERM
wait "$step"
code=$?
if [ -n "$stopped" ]; then
    wait "$step"
    code=$?
    if [ "$code" -ne 0 ]; then
        scontrol requeue "$SLURM_JOB_ID"
        exit 0
    fi
fi
exit "$code"
"""

GRACE_SECONDS = 120
_TIME = re.compile(r"[0-9]+(:[0-9]+){0,2}|[0-9]+-[0-9]+(:[0-9]+){0,2}")  # sbatch(1), --time


def script(name: str, arguments: Sequence[str], nodes: int, gpus: int, time: str) -> str:
    """The batch script for ``bertc`` with ``arguments``.

    Raises:
        UsageError: if ``time`` is not a time limit in Slurm's notation.
    """
    if not _TIME.fullmatch(time):
        raise UsageError(
            f"--time {time!r} is not a time limit that Slurm reads",
            help="minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes "
            "or days-hours:minutes:seconds, such as --time 24:00:00 for a day",
        )
    return _SCRIPT.format(
        name=name,
        nodes=nodes,
        gpus=gpus,
        time=time,
        grace=GRACE_SECONDS,
        command=shlex.join(arguments),
    )
