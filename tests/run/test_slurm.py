"""The batch script of a run on several machines: what it does when the run stops, or fails."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

LOST = "mkdir -p runs/mine/checkpoints/step-00000004; exit 3"
CASES = {
    "stopped": ("while true; do sleep 0.02; done", 0, True),
    "wrong from the beginning": ("exit 3", 3, False),
    "lost a machine": (LOST, 0, True),
    "failed": (f"mkdir -p runs/mine; touch runs/mine/failed.txt; {LOST}", 3, False),
    "finished": ("exit 0", 0, False),
}


@pytest.mark.parametrize("how", CASES)
def test_a_stopped_job_queues_again_and_a_failed_one_does_not(tmp_path, how, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    work, code, requeued = CASES[how]
    Path("mine.bertc").write_text("steps=10")
    options = ["--nodes", "2", "--gpus", "4", "--set", "batch=64", "-o", "job.sh", "--", "-p a"]
    assert command("slurm", "train", "mine.bertc", *options) == 0
    script = Path("job.sh").read_text()
    assert "#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4" in script
    assert "#SBATCH '-p a'" in script
    assert "train mine.bertc --set batch=64 --out" in script
    assert command("slurm", "train", "mine.bertc", "--set", "batch=4") == 2
    for name, text in {
        "scontrol": f'if [ "$1" = requeue ]; then echo "$2" > {tmp_path}/again; else echo n1; fi',
        "srun": f"trap 'exit 143' TERM; touch {tmp_path}/started\n{work}",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "77", "SLURM_JOB_NODELIST": "n",
    }  # fmt: skip
    job = subprocess.Popen(["bash", "job.sh"], env=environment)
    end = time.monotonic() + 30
    while not (tmp_path / "started").exists() and time.monotonic() < end:
        time.sleep(0.01)
    if how == "stopped":
        job.send_signal(signal.SIGTERM)
    assert job.wait(30) == code
    assert (tmp_path / "again").exists() == requeued
