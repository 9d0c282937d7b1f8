"""The batch script: its text, and what it does when it is told to stop."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from bertc import cli
from bertc.diagnostics import UsageError
from bertc.distributed import slurm

GOLDEN = Path(__file__).parent / "slurm.golden.sh"


@pytest.fixture
def script(monkeypatch, capsys):
    """What the command prints."""
    words = ["bertc", "slurm", "bert-large", "--set", "seed=3", "--nodes", "4", "--time", "8:00:00"]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    return capsys.readouterr().out


def test_the_script_is_as_read_by_a_person(script):
    assert script == GOLDEN.read_text()


@pytest.mark.parametrize("time", ["90", "90:30", "24:00:00", "2-0", "2-12:30", "2-12:30:15"])
def test_times_that_slurm_knows(time):
    assert f"#SBATCH --time={time}\n" in slurm.script("x", ["train", "x"], 1, 1, time)


@pytest.mark.parametrize(
    "time", ["", "24h", "1:2:3:4", "2-", "-1", "1-2-3", "1.5", "1:", " 5", "5\n", "٣", "1d 2h"]
)
def test_times_that_slurm_does_not_know(time):
    with pytest.raises(UsageError, match="not a time limit that Slurm reads") as refused:
        slurm.script("x", ["train", "x"], 1, 1, time)
    assert "days-hours:minutes:seconds" in refused.value.help


@pytest.mark.parametrize(("how", "code", "requeued"), [("stop", 0, True), ("fail", 3, False)])
def test_a_stopped_job_queues_again_and_a_failed_one_does_not(
    script, tmp_path, how, code, requeued
):
    for name, text in {
        "scontrol": f'if [ "$1" = requeue ]; then echo "$2" > {tmp_path}/again; else echo n1; fi',
        "srun": f"trap 'exit 143' TERM; touch {tmp_path}/started\n"
        + ("while true; do sleep 0.02; done" if how == "stop" else "exit 3"),
    }.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "job.sh").write_text(script)
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
