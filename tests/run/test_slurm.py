"""The batch script of the page on several machines: what it does when it is told to stop."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "several-gpus.md"


@pytest.mark.parametrize(("how", "code", "requeued"), [("stop", 0, True), ("fail", 3, False)])
def test_a_stopped_job_queues_again_and_a_failed_one_does_not(tmp_path, how, code, requeued):
    for name, text in {
        "scontrol": f'if [ "$1" = requeue ]; then echo "$2" > {tmp_path}/again; else echo n1; fi',
        "srun": f"trap 'exit 143' TERM; touch {tmp_path}/started\n"
        + ("while true; do sleep 0.02; done" if how == "stop" else "exit 3"),
    }.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "job.sh").write_text(PAGE.read_text().split("```bash\n")[1].split("```")[0])
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "77", "SLURM_JOB_NODELIST": "n",
    }  # fmt: skip
    job = subprocess.Popen(["bash", tmp_path / "job.sh"], env=environment)
    end = time.monotonic() + 30
    while not (tmp_path / "started").exists() and time.monotonic() < end:
        time.sleep(0.01)
    if how == "stop":
        job.send_signal(signal.SIGTERM)
    assert job.wait(30) == code
    assert (tmp_path / "again").exists() == requeued
