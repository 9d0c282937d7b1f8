"""Several processes on the machine's loopback: the same run as in one, and failing together.
Their steps are compiled too, and checkpoints go from one layout to another.
"""

import errno
import faulthandler
import json
import math
import os
import re
import secrets
import shutil
import signal
import socket
import sys
import threading
import time
from contextlib import ExitStack, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.distributed.elastic.multiprocessing.api import PContext
from torch.distributed.fsdp._fully_shard import _fsdp_param_group as groups

from bertc.api import points
from bertc.base.diagnostics import BertcError, GivenUpError, StoppedError
from bertc.base.storage.paths import cache_folder
from bertc.cost.planning.world import World
from bertc.ir.vocabulary import TokenizerFile
from bertc.learn.step.step import TrainStep
from bertc.machine import process_group, signals
from bertc.machine.display import Watched
from bertc.run.records import sharded
from bertc.run.records.folder import RunFolder
from bertc.run.stepper import graphs_so_far
from bertc.run.train import loop
from bertc.run.train.loop import train
from tests.net.programs import FARM
from tests.run.conftest import FARMED, after_updates, change_losses, lines, same_run, train_farm

PAIRS = "objective=mlm+0.5*sop"
SHORT = f"{PAIRS} dropout=0 steps=4 eval_every=2 log_every=1 save_every=100"
"""That runs save on the way is held where they are killed."""
SECONDS = 600  # longer than any of these runs takes on a busy machine; one that hangs says where


def member(rank, size, ports, jobs, harm, said):
    """One process of some runs, one after another, as torchrun starts it.
    It ends with the code that the command would end with for the last run that did not finish.
    """
    faulthandler.enable()
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    torch.set_num_threads(1)
    process_group.GRACE_SECONDS, code = 0.1, 0
    process_group.STEP_TIMEOUT = timedelta(minutes=3)
    os.fsync = os.fstat
    if harm:
        harm(rank)
    for port, (resolved, out, options) in zip(ports, jobs, strict=True):
        os.environ |= {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size),
            "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": "lo",
        }  # fmt: skip
        try:
            train(resolved, out, quiet=True, **options)
        except BertcError as error:
            said.put((rank, error.message))
            code = error.exit_code
        except SystemExit as error:  # another process has said why
            code = error.code
        if torch.distributed.is_initialized():  # else by the end of the process
            torch.distributed.destroy_process_group()
        if code == StoppedError.exit_code:  # the others are gone
            break
    sys.exit(code)


def free_port(held: socket.socket) -> int:
    """A free port, held by a socket until that is closed.
    It is below those that connections to others take by themselves, as one might before it is used.
    """
    while True:
        port = 10_000 + secrets.randbelow(22_000)
        with suppress(OSError):
            held.bind(("127.0.0.1", port))
            return port


@pytest.fixture
def together(processes, tmp_path):
    """Train programs by name in so many processes; their exit codes, and what they said."""

    def run(size, programs, harm=None, **options):
        programs = programs if isinstance(programs, dict) else {"run": programs}
        with ExitStack() as sockets:
            ports = [free_port(sockets.enter_context(socket.socket())) for _ in programs]
        options = {"cache": tmp_path / "cache", **options}
        jobs = [(resolved, tmp_path / name, options) for name, resolved in programs.items()]
        said = processes.SimpleQueue()
        members = [
            processes.Process(target=member, args=(rank, size, ports, jobs, harm, said))
            for rank in range(size)
        ]
        for process in members:
            process.start()
        for process in members:
            process.join()
        messages = []
        while not said.empty():
            messages.append(said.get())
        return [process.exitcode for process in members], messages

    return run


def losses(run):
    """Every number of the metrics but seconds."""
    numbers = []
    for line in lines(run):
        numbers += [line["step"], line["loss"], *line["losses"].values()]
        numbers += line.get("positions", {}).values()
        numbers += [line["grad_norm"]] if line["kind"] == "train" else line["accuracy"].values()
    return numbers


def straight(resolved, tmp_path, name="one"):
    """The run in this process."""
    train(resolved, tmp_path / name, cache=tmp_path / "cache", quiet=True)
    return losses(tmp_path / name)


LEARNED = {
    "adam": "microbatch=4",
    "lamb": "optimizer=lamb(1e-2, warmup=2) share=all norm=pre",
    "electra": "objective=50*rtd+mlm generator=0.5 microbatch=2 average=ema(2)",
    "directions": "objective=3*mntp+clm microbatch=2",
    "adaptive": "objective=mlm(40%, p_end=15%, unit=adaptive(every=2)) microbatch=2",
    "in turn": "generator=1 embedding=16 optimizer=stable-adamw(1e-2, warmup=2) "
    'stage "tell" { steps=3 objective=mlm } stage "find" { steps=3 objective=rtd }',
    "own": "optimizer=own('own_parts.py:Lion', lr=1e-3, warmup=2)",
    "own trust": "optimizer=own('own_parts.py:Adam', trust=true, lr=1e-2, warmup=2)",
    "adapted": "adapt=lora(4, on=attention+outer) share=all",
    "pruned": "heads=4 prune=heads(50%, every=25%, examples=24) microbatch=2",
    "by tensor": "optimizer=adamw(1e-2, warmup=2, clip=0.05, clip_per=tensor) "
    'stage "top" { freeze=1 steps=2 } stage "all" { freeze=positions steps=2 }',
}


def test_two_processes_learn_what_one_does(together, tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(FARM)
    train(tiny(steps=4), tmp_path / "first", cache=tmp_path / "cache", quiet=True)
    rows = [f"a{n % 5} b{n % 3},{'odd' if n % 4 else 'even'}" for n in range(40)]
    (table := tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]))
    task = f"classify('{table}', '{table}', examples=40, labels=[even, odd], dropout=0, loss="
    learned = {**LEARNED, "weighted": f"objective={task}weights([7, 0.5]))"}
    learned["begun"] = f"init='{tmp_path}/first' layers=3"
    vocabulary = TokenizerFile(path=str(tmp_path / "first" / "tokenizer"), size=120)

    def program(name, **settings):
        own = {"vocab": vocabulary} if name == "begun" else {}
        return tiny(SHORT, learned[name], **own, **settings)

    alone = {name: straight(program(name), tmp_path, name) for name in learned}
    for strategy, harm in (("ddp", hold_gradients_in_place), ("fsdp", None)):
        programs = {
            f"{name} {strategy}": program(name, strategy=strategy)
            for name in learned
            if (name, strategy) != ("lamb", "ddp")  # whole weights: as in one process
        }
        assert together(2, programs, harm) == ([0, 0], [])
        for name in programs:
            run, one = tmp_path / name, alone[name.removesuffix(f" {strategy}")]
            assert losses(run) == pytest.approx(one, rel=1e-5, abs=1e-6), name
            lock = json.loads((run / "lock.json").read_text())
            assert (lock["plan"]["processes"], lock["plan"]["strategy"]) == (2, strategy)
            assert (run / "model").is_dir()


REMEMBERING = {
    "next": "objective=clm attention=relative strategy=fsdp",
    "in order": "objective=plm format=stream-pair(both_ways=true) segments=0 strategy=ddp "
    "attention=relative(untie=true, segments=true)",
}


def test_a_stop_is_agreed_on_and_any_number_goes_on(together, tiny, tmp_path, capsys):
    """With a memory of each process's own rows; by three, which have 3, 3 and 2 of 8 examples."""
    common = "memory=30 microbatch=2 steps=7 eval_every=7"
    stages = f'stage "short" {{ steps=6 {PAIRS} }} stage "long" {{ steps=1 seq=16 }}'
    in_stages = partial(tiny, f"dropout=0 log_every=1 {stages}")
    programs = {name: tiny(SHORT, common, own) for name, own in REMEMBERING.items()}
    programs |= {"stages": in_stages(strategy="ddp")}
    alone = {name: straight(each, tmp_path, f"one {name}") for name, each in programs.items()}
    stopped = [143, 143], [(0, "stopped after step 5, and saved")] * 3
    assert together(2, programs, ask_one) == stopped
    shutil.copytree(tmp_path / "stages", tmp_path / "by one")
    # Weights that were whole are parted unevenly from here on, and the other way round.
    whole = tiny(SHORT, common, REMEMBERING["next"], strategy="ddp")
    by_three = programs | {"stages": in_stages(strategy="fsdp"), "next": whole}
    assert together(3, by_three, resume=True) == ([0, 0, 0], [])
    train(in_stages(), tmp_path / "by one", cache=tmp_path / "cache", resume=True)
    assert "started on cpu in 2 processes, now on cpu:" in capsys.readouterr().err
    for name, one in {**alone, "by one": alone["stages"]}.items():
        assert losses(tmp_path / name) == pytest.approx(one, rel=1e-5, abs=1e-6), name


HARM = pytest.MonkeyPatch()
"""Stays until a process ends."""


def harm_one(rank, step, what):
    """Do ``what`` in the middle of a step of one process."""
    if rank == 1:
        after_updates(HARM, lambda _, at: at == step and what())


def hold_gradients_in_place(rank):
    """End where a gradient lies elsewhere than after the step before, once DDP has its buckets."""
    places = {}

    def hold(step, at):
        own = {n: p.grad.data_ptr() for n, p in step.parameters.items() if p.grad is not None}
        if places.get(step, own) != own:
            sys.exit("gradients moved")
        assert own
        if at - 1 > step.stage.first_step:
            places[step] = own

    after_updates(HARM, hold)


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def kill_while_saving(rank):
    """Kill one that has written half of a tensor of step 6."""
    if rank == 1:
        real = os.pwrite

        def write(descriptor, content, at):
            if "tmp-00000006" in os.readlink(f"/proc/self/fd/{descriptor}"):
                real(descriptor, content[: len(content) // 2], at)
                kill()
            return real(descriptor, content, at)

        os.pwrite = write


kill_one = partial(harm_one, step=4, what=kill)
ask_one = partial(harm_one, step=4, what=partial(signal.raise_signal, signal.SIGTERM))


def test_killed_and_resumed_is_never_having_stopped(together, tiny, tmp_path):
    """Of networks that grow: at the boundary, where steps begin to be another's, with dropout."""
    grown = partial(
        tiny,
        f"{PAIRS} save_every=2 eval_every=8 grow=stack(moments=carry) "
        'stage "flat" { layers=1 steps=4 } stage "deep" { layers=2 steps=4 }',
    )
    programs = {
        "ddp": grown(strategy="ddp", microbatch=2), "fsdp": grown(strategy="fsdp", dropout=0),
    }  # fmt: skip
    one = straight(grown(dropout=0), tmp_path)
    assert together(2, {f"{name} straight": of for name, of in programs.items()}) == ([0, 0], [])
    assert losses(tmp_path / "fsdp straight") == pytest.approx(one, rel=1e-5, abs=1e-6)
    for name, harm, saved in (("ddp", kill_one, 2), ("fsdp", kill_while_saving, 4)):
        codes, said = together(2, {name: programs[name]}, harm)
        assert (codes, said) == ([75, -9], [(0, "another process of this run ended")])
        assert RunFolder(tmp_path / name).saved_step == saved
    assert together(2, programs, resume=True) == ([0, 0], [])
    for name in programs:
        same_run(tmp_path / f"{name} straight", tmp_path / name)


def ask_while_preparing(rank):
    real = Watched.begin

    def begin(self, *task):
        signal.raise_signal(signal.SIGINT)
        real(self, *task)

    Watched.begin = begin


def poison(rank):
    def change(_, call, loss, statistics, memory):
        factor = math.nan if call == 7 else 1  # the first call is not yet of a step
        return loss * factor, statistics * factor, memory

    if rank == 1:
        change_losses(HARM, change)


def starve():
    raise MemoryError


TWO = ("--nproc", "2", "--resume")


def test_the_command_starts_processes_and_ends_with_their_code(processes, tmp_path, corpus_file):
    """They go on with what one process began, and are stopped by a signal to the command."""
    spec, run, said = tmp_path / "farm.bertc", tmp_path / "run", tmp_path / "said"
    spec.write_text(f"{FARMED.format(corpus_file)}save_every=5 eval_every=4 eval_examples=16\n")
    cache = tmp_path / "cache"
    with pytest.raises(GivenUpError):
        train(points(str(spec))[0], run, cache=cache, quiet=True, goes_on=lambda: False)
    began, end = RunFolder(run).saved_step, time.monotonic() + SECONDS
    assert began == 4
    # Compiled already, where there is a compiler.
    kernels = f"kernels-{os.geteuid()}"
    (cache / kernels).symlink_to(cache_folder() / kernels)
    launcher = processes.Process(target=train_farm, args=(said, *TWO))
    launcher.start()
    while launcher.is_alive() and RunFolder(run).saved_step == began and time.monotonic() < end:
        time.sleep(0.02)
    members = members_of(launcher)
    assert len(members) == 2
    launcher.terminate()
    launcher.join(SECONDS)
    assert not [member for member in members if is_alive(member)]
    assert RunFolder(run).saved_step > began
    output = said.read_text()
    assert launcher.exitcode == 143, output
    assert said.with_suffix(".out").read_text() == ""
    assert "Traceback" not in output
    assert "stopped after step" in output
    assert output.count("--resume") == 1


MEMBER = """#!/bin/sh
if [ $RANK = 0 ]; then trap '' TERM; echo $$ > first; exec sleep 600; fi  # as in a library
until [ -s first ]; do sleep 0.02; done
kill -9 $$
"""


def impatient(said, program):
    """The command, where torch's agent waits for a moment before it kills, and not 30 seconds.
    ``program`` is what its processes run, as Python runs ``-m bertc.cli``.
    """
    PContext.close.__defaults__ = (None, 1)
    sys.executable = program
    train_farm(said, *TWO)


def test_a_killed_process_is_reported_and_the_others_are_stopped(processes, tiny, tmp_path):
    """What a run does that lost another process is held above: these are none, and load nothing."""
    train(tiny(), tmp_path / "run", cache=tmp_path / "cache", quiet=True)
    (tmp_path / "farm.bertc").write_text("extends bert-tiny device=cpu")
    member, said = tmp_path / "member", tmp_path / "said"
    member.write_text(MEMBER)
    member.chmod(0o755)
    launcher = processes.Process(target=impatient, args=(said, str(member)))
    launcher.start()
    launcher.join(SECONDS)
    output = said.read_text()
    assert launcher.exitcode == 75, output
    assert "Traceback" not in output
    assert "was killed by signal 9, and the others were stopped" in output
    assert "--resume goes on from step 12, the last checkpoint" in output
    assert output.count("--resume") == 1
    assert not is_alive(int((tmp_path / "first").read_text()))


def begin_and_be_killed(members):
    """A launcher that ends without a word to the process that it started."""
    if (member := os.fork()) == 0:
        os.environ[signals.LAUNCHER] = str(os.getppid())
        signals.end_with_launcher()
        time.sleep(SECONDS)
        os._exit(0)
    members.put(member)
    members.close()
    members.join_thread()
    os.kill(os.getpid(), signal.SIGKILL)


def test_processes_end_with_a_launcher_that_is_killed(processes):
    members = processes.Queue()
    launcher = processes.Process(target=begin_and_be_killed, args=(members,))
    launcher.start()
    member, end = members.get(timeout=SECONDS), time.monotonic() + SECONDS / 2
    launcher.join(SECONDS)
    while is_alive(member) and time.monotonic() < end:
        time.sleep(0.05)
    assert not is_alive(member)


def members_of(launcher):
    """The processes of a run, by their numbers."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    return [int(child) for child in children if b"bertc.cli" in command_line(child)]


def is_alive(process):
    """Whether it runs: one that has ended, and that nobody asked about yet, has no words left."""
    return bool(command_line(process))


def command_line(process):
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def trace(rank):
    """Trace in one of the processes what would be compiled; leave the others eager.
    End where a step after the first has new graphs.
    """
    if rank > 0:
        torch.compile = lambda function, **_: function
        return
    torch.compile = partial(torch.compile, backend="eager")
    seen = {}

    def hold(step, _):
        graphs = graphs_so_far()[0]
        if seen.setdefault(step, graphs) != graphs:
            sys.exit("compiled anew")

    after_updates(HARM, hold)


def test_compiled_steps_of_two_processes_learn_what_one_does(together, tiny, tmp_path):
    program = partial(tiny, SHORT, "microbatch=2 eval_every=4 save_every=4 log_every=3")
    one = straight(program(), tmp_path)
    programs = {way: program(compile="on", strategy=way) for way in ("ddp", "fsdp")}
    assert together(2, programs, trace) == ([0, 0], [])
    for strategy in programs:
        assert losses(tmp_path / strategy) == pytest.approx(one, rel=1e-5, abs=1e-6)


def count_gathers(rank):
    """End where FSDP gathers other than two layers, twice each, and the root.
    After an evaluation the root is there.
    """
    real, step, seen = groups.foreach_all_gather, TrainStep.__call__, []

    def gather(weights, *arguments):
        seen.append(len(weights))
        return real(weights, *arguments)

    def call(*arguments):
        seen.clear()
        result = step(*arguments)
        return result if len(seen) in (4, 5) else sys.exit(f"gathered {seen}")

    groups.foreach_all_gather, TrainStep.__call__ = gather, call


def test_a_layer_is_gathered_at_once(together, tiny, tmp_path):
    ways = {"bf16": "precision=bf16", "shared": "share=attention"}
    programs = {name: tiny(SHORT, own, strategy="fsdp") for name, own in ways.items()}
    assert together(2, programs, count_gathers) == ([0, 0], [])
    for (name, own), close in zip(ways.items(), (1e-2, 1e-5), strict=True):
        one = straight(tiny(SHORT, own), tmp_path, f"one {name}")
        assert losses(tmp_path / name) == pytest.approx(one, rel=close, abs=1e-6)


def without_a_disk(rank, per_host):
    """Runs named whole have no disk that all see; in others one writes step 2 in later steps."""
    world = process_group.world_here
    make_files, write, later = sharded.make_files, sharded.write_parts, threading.Event()
    loop.world_here = process_group.world_here = lambda: (rank, World(world()[1].size, per_host))
    sharded.make_files = lambda parent, *rest: (
        make_files(parent, *rest) and not str(parent.parent).endswith("whole")
    )

    def wait_and_write(parent, at, *rest):
        assert rank == 0 or at != 2 or later.wait(60), "training waits for a checkpoint"
        write(parent, at, *rest)

    after_updates(HARM, lambda _, at: at == 4 and later.set())
    sharded.write_parts = wait_and_write


@pytest.mark.parametrize(("size", "per_host"), [(3, 3), (4, 2)])
def test_processes_write_together_what_one_writes(together, tiny, tmp_path, size, per_host):
    """Of uneven parts and of copies: while training goes on, and to the byte."""
    strategy = "fsdp" if size == per_host else "hsdp"
    common = f"{PAIRS} average=ema(2) save_every=2 steps=4 eval_every=4 strategy={strategy}"
    programs = {name: tiny(common) for name in ("parts", "whole")}
    assert together(size, programs, partial(without_a_disk, per_host=per_host)) == ([0] * size, [])
    parts, whole = (
        {path.relative_to(tmp_path / name): path.read_bytes()
         for path in (tmp_path / name / "checkpoints").rglob("*.safetensors")}
        for name in programs
    )  # fmt: skip
    assert len(parts) == 6
    assert parts == whole


def fill_the_disk(rank):
    if rank == 1:

        def write(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        os.pwrite = write


HARMS = {  # what happens to one of two, in which run, and how they end
    "asked while it prepares": (
        ask_while_preparing, "", [130, 75],
        "^stopped before the first step: there is no run in .*/run yet$",
    ),
    "a loss that is not finite": (  # it names the four examples of the other process
        poison, "eval_every=100", [65, 65],
        "^step 5: the loss of mlm is not a finite number([^,]*,){4}[^,]*$",
    ),
    "no memory": (
        partial(harm_one, step=3, what=starve), "", [75, 78],
        "4 examples of 24 tokens at once do not fit in memory; 2 might$",
    ),
    "a full disk": (
        fill_the_disk, "steps=2 strategy=fsdp", [74, 74],
        "^cannot write .*/run/checkpoints/step-00000002: the disk is full",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", HARMS)
def test_what_happens_to_one_ends_all_and_is_said_once(together, tiny, tmp_path, what):
    harm, settings, codes, message = HARMS[what]
    found, said = together(2, tiny(settings), harm)
    assert found == codes
    assert re.search(message, dict(said)[int(what == "no memory")])
    assert len(said) == 1 or what == "no memory"
    run = tmp_path / "run"
    assert (run / "lock.json").exists() == (what != "asked while it prepares")
    assert what != "a full disk" or not [*(run / "checkpoints").iterdir()]
