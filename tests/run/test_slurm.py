"""Batch scripts: a run on several machines that stops or fails, and a job array that prepares."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bertc.text.sources import files
from tests.text.test_parts import write
from tests.text.test_prepared import SETTINGS

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
def test_a_stopped_job_queues_again_and_a_failed_one_does_not(tmp_path, how, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    work, code, requeued = CASES[how]
    Path("mine.bertc").write_text("steps=10")
    options = "--nodes 2 --gpus 4 --set batch=64 -o job.sh -- '-p a'"
    assert command("slurm", "mine.bertc", *shlex.split(options)) == 0
    script = Path("job.sh").read_text()
    for part in (
        "#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4", "#SBATCH --cpus-per-task=16 ",
        "#SBATCH '-p a'", "train mine.bertc --set batch=64 --out", "--resume &",
    ):  # fmt: skip
        assert part in script
    assert command("slurm", "mine.bertc", "--set", "batch=4") == 2
    environment = commands_in(tmp_path, {
        "scontrol": f'if [ "$1" = requeue ]; then echo "$2" > {tmp_path}/again; else echo n1; fi',
        "srun": f"trap 'exit 143' TERM; touch {tmp_path}/started\n{work}",
    }) | {"SLURM_JOB_ID": "77", "SLURM_JOB_NODELIST": "n", "lost": "yes"}  # fmt: skip
    job = subprocess.Popen(["bash", "job.sh"], env=environment)
    end = time.monotonic() + 30
    while not (tmp_path / "started").exists() and time.monotonic() < end:
        time.sleep(0.01)
    if how == "stopped":
        job.send_signal(signal.SIGTERM)
    assert job.wait(30) == code
    assert (tmp_path / "again").exists() == requeued


def test_a_script_is_written_where_the_text_is_out_of_reach(tmp_path, monkeypatch, command, capsys):
    monkeypatch.chdir(tmp_path)
    Path("far.bertc").write_text('data=prepared("memory://nowhere/x")')
    assert command("check", "far.bertc") == 1
    assert "error[E307]: there is no prepared text at memory://" in capsys.readouterr().out
    assert command("slurm", "far.bertc") == 0
    out, err = capsys.readouterr()
    assert "run=runs/far" in out
    assert "remark: written without the data" in err
    assert command("slurm", "far.bertc", "--set", "layers=x") == 65


def test_a_job_array_prepares_a_text(tmp_path, monkeypatch, command, capsys):
    monkeypatch.setattr(files, "PART_BYTES", 6000)
    write(tmp_path / "a.jsonl", 60)
    text, to = f'data="{tmp_path}/a.jsonl" {SETTINGS} layers=1 hidden=16 heads=1', f"{tmp_path}/to"
    more = ("--parts", "3", "-o", f"{tmp_path}/p.sh", "--", "--partition=cpu", "--comment=a b")
    assert command("slurm", text, "--to", to, *more) == 0
    assert command("slurm", text, "--to", to, "--parts", "3", "--", "--array=0-3") == 2
    for parts, said in ((1000, False), (1001, True)):
        assert command("slurm", text, "--to", to, "--parts", str(parts)) == 0
        assert ("MaxArraySize" in capsys.readouterr().err) == said
    path = commands_in(tmp_path, {
        "bertc": f"{sys.executable} -c 'import json, sys; print(json.dumps(sys.argv[1:]))' "
        f'"$@" >> {tmp_path}/commands',
        "sbatch": f'echo "$@" >> {tmp_path}/submitted\nfirst=0 last=0\nfor word in "$@"; do\n'
        'case "$word" in --array=*) word=${word#*=}; first=${word%-*} last=${word#*-};;\n'
        "--wrap=*) wrap=${word#*=};; esac\ndone\nfor id in $(seq $first $last); do "
        'SLURM_ARRAY_TASK_ID=$id bash -c "$wrap"; done\necho "7;cluster"',
    })  # fmt: skip
    subprocess.run(["bash", tmp_path / "p.sh"], env=path, check=True, capture_output=True)
    submitted = (tmp_path / "submitted").read_text().splitlines()
    assert all("--partition=cpu --comment=a b" in line for line in submitted)
    assert ["afterok:7" in line for line in submitted] == [False, True, True]
    commands = [json.loads(line) for line in (tmp_path / "commands").read_text().splitlines()]
    assert [words[-1] for words in commands] == ["1/3", "2/3", "3/3", "--finish"]
    for words in commands:
        assert command(*words, *(() if "--finish" in words else ("--workers", "1"))) == 0
    assert "to train on" in capsys.readouterr().out
    settled = f"data=prepared('{to}') layers=1 hidden=16 heads=1"
    assert command("slurm", settled, "--to", f"{to}2", "--parts", "3") == 2
    assert "prepared(...) is not prepared ahead" in capsys.readouterr().err
