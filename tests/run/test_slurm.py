"""The batch scripts of the docs: a run that stops or fails, and a job array that prepares."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bertc.text.sources import files
from tests.text.test_parts import write
from tests.text.test_prepared import SETTINGS

SCRIPTS = Path(__file__).parents[2] / "docs/slurm"
LOST = "mkdir -p runs/mine/checkpoints/step-00000004; exit 3"
CASES = {
    "stopped": ("while true; do sleep 0.02; done", 0, True),
    "wrong from the beginning": ("exit 3", 3, False),
    "lost a machine": (LOST, 0, True),
    "failed": (f"mkdir -p runs/mine; touch runs/mine/failed.txt; {LOST}", 3, False),
    "finished": ("exit 0", 0, False),
}


def commands_in(folder, scripts):
    """Write commands in the shell's language; the environment in which they are found."""
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/bash\n{script}\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize("how", CASES)
def test_a_stopped_job_queues_again_and_a_failed_one_does_not(tmp_path, how, monkeypatch):
    monkeypatch.chdir(tmp_path)
    work, code, requeued = CASES[how]
    environment = commands_in(tmp_path, {
        "scontrol": f'if [ "$1" = requeue ]; then echo "$2" > {tmp_path}/again; else echo n1; fi',
        "srun": f"trap 'exit 143' TERM; echo \"$@\" > {tmp_path}/started\n{work}",
    }) | {"SLURM_JOB_ID": "77", "SLURM_JOB_NODELIST": "n", "lost": "yes",
          "SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS_ON_NODE": "4"}  # fmt: skip
    script = ["bash", SCRIPTS / "train.sbatch", "mine.bertc", "runs/mine", "--set", "batch=64"]
    job = subprocess.Popen(script, env=environment)
    end = time.monotonic() + 30
    while not (tmp_path / "started").exists() and time.monotonic() < end:
        time.sleep(0.01)
    if how == "stopped":
        job.send_signal(signal.SIGTERM)
    assert job.wait(30) == code
    assert (tmp_path / "again").exists() == requeued
    started = (tmp_path / "started").read_text()
    assert "--nnodes=2 --nproc-per-node=4" in started
    assert "train mine.bertc --set batch=64 --out runs/mine --resume" in started


def test_a_job_array_prepares_a_text(tmp_path, monkeypatch, command):
    monkeypatch.setattr(files, "PART_BYTES", 6000)
    write(tmp_path / "a.jsonl", 60)
    text, to = f'data="{tmp_path}/a.jsonl" {SETTINGS} layers=1 hidden=16 heads=1', f"{tmp_path}/to"
    path = commands_in(tmp_path, {
        "bertc": f"{sys.executable} -c 'import json, sys; print(json.dumps(sys.argv[1:]))' "
        f'"$@" >> {tmp_path}/commands',
        "sbatch": f'echo "$@" >> {tmp_path}/submitted\nfirst=0 last=0\nfor word in "$@"; do\n'
        'case "$word" in --array=*) word=${word#*=}; first=${word%-*} last=${word#*-};;\n'
        "--wrap=*) wrap=${word#*=};; esac\ndone\nfor id in $(seq $first $last); do "
        'SLURM_ARRAY_TASK_ID=$id bash -c "$wrap"; done\necho "7;cluster"',
    })  # fmt: skip
    script = ["bash", SCRIPTS / "prepare.sh", text, to, "3", "--partition=cpu", "--comment=a b"]
    subprocess.run(script, env=path, check=True, capture_output=True)
    submitted = (tmp_path / "submitted").read_text().splitlines()
    assert all("--partition=cpu --comment=a b" in line for line in submitted)
    assert ["afterok:7" in line for line in submitted] == [False, True, True]
    commands = [json.loads(line) for line in (tmp_path / "commands").read_text().splitlines()]
    assert [words[-1] for words in commands] == ["1/3", "2/3", "3/3", "--finish"]
    for words in commands:
        assert command(*words, *(() if "--finish" in words else ("--workers", "1"))) == 0
