"""Several processes on the machine's loopback: the same run as in one, and failing together."""

import json
import math
import os
import secrets
import shutil
import signal
import socket
import sys
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.distributed.elastic.multiprocessing.api import PContext

from bertc.api import points
from bertc.base.diagnostics import BertcError, GivenUpError, UsageError
from bertc.base.storage.paths import cache_folder
from bertc.cost.planning.world import World
from bertc.ir.changing.growth import FromRun, Stack
from bertc.ir.data import StreamPair
from bertc.ir.learning.answer import WeightedLoss
from bertc.ir.learning.custom_task import Classify
from bertc.ir.learning.objective import Clm, Mlm, Plm, Rtd, Sop, Term
from bertc.ir.learning.optimizer import Adam, Lamb, StableAdam
from bertc.ir.methods.adapter import Lora
from bertc.ir.methods.average import Ema
from bertc.ir.methods.pruning import Heads
from bertc.ir.network.attention import RelativeAttention
from bertc.ir.network.generator import GeneratorNetwork
from bertc.ir.network.layer import Dropout
from bertc.ir.network.norm import PreNorm
from bertc.ir.network.sharing import ShareAll
from bertc.ir.terms.masked import Mntp
from bertc.ir.terms.masking import AdaptiveUnit
from bertc.ir.vocabulary import TokenizerFile
from bertc.learn.step.step import TrainStep
from bertc.machine import process_group as ranks
from bertc.machine import signals
from bertc.machine.display import Watched
from bertc.machine.machine import make_plan
from bertc.run.train import phase
from bertc.run.train.loop import train
from tests.run.conftest import lines, same_run, train_farm

PAIRS = (Term(objective=Mlm()), Term(objective=Sop(), weight=0.5))
ELECTRA = (Term(objective=Rtd(), weight=50), Term(objective=Mlm()))
IN_TURN = {
    "tell": {"steps": 3, "objective": (Term(objective=Mlm()),)},
    "find": {"steps": 3, "objective": (Term(objective=Rtd()),)},
}
CALM = Dropout(hidden=0, attention=0)
SHORT = {"steps": 4, "eval_every": 2, "log_every": 1}
AT_THE_END = {"save_every": 100}  # that runs save on the way is held where they are killed
SECONDS = 600  # longer than any of these runs takes on a busy machine


def member(rank, size, ports, jobs, harm, said):
    """One process of some runs, one after another, as torchrun starts it.

    It ends with the code that the command would end with for the last run that did not finish.
    """
    torch.set_num_threads(1)
    ranks.GRACE_SECONDS, code = 0.1, 0
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
        ports = []
        with ExitStack() as sockets:
            for _ in programs:
                ports.append(free_port(sockets.enter_context(socket.socket())))
        options = {"cache": tmp_path / "cache", **options}
        jobs = [(resolved, tmp_path / name, options) for name, resolved in programs.items()]
        said = processes.SimpleQueue()
        members = [
            processes.Process(target=member, args=(rank, size, ports, jobs, harm, said))
            for rank in range(size)
        ]
        for process in members:
            process.start()
        end = time.monotonic() + SECONDS
        for process in members:
            process.join(max(0.0, end - time.monotonic()))
        hung = [process for process in members if process.exitcode is None]
        for process in hung:
            process.kill()
        assert not hung, "a process hangs"
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


def newest_step(run):
    """Of the newest checkpoint; 0 if there is none."""
    return max((int(path.name[5:]) for path in (run / "checkpoints").glob("step-*")), default=0)


def straight(resolved, tmp_path, name="one"):
    """The run in this process."""
    train(resolved, tmp_path / name, cache=tmp_path / "cache", quiet=True)
    return losses(tmp_path / name)


LEARNED = {
    "adam": {"microbatch": 4},
    "lamb": {"optimizer": Lamb(lr=1e-2, warmup=2), "share": ShareAll(), "norm": PreNorm()},
    "electra": {
        "objective": ELECTRA, "generator": GeneratorNetwork(size=0.5), "microbatch": 2,
        "average": Ema(half_life=2),
    },
    "directions": {
        "objective": (Term(objective=Mntp(), weight=3), Term(objective=Clm())), "microbatch": 2,
    },
    "adaptive": {
        "objective": (Term(objective=Mlm(p=0.4, p_end=0.15, unit=AdaptiveUnit(every=2))),),
        "microbatch": 2,
    },
    "in turn": {
        "generator": GeneratorNetwork(size=1), "stages": IN_TURN, "embedding": 16,
        "optimizer": StableAdam(lr=1e-2, warmup=2),
    },
    "adapted": {"adapt": Lora(rank=4, on=("attention", "outer")), "share": ShareAll()},
    "pruned": {"heads": 4, "prune": Heads(share=0.5, every=0.25, examples=24), "microbatch": 2},
    "by tensor": {
        "optimizer": Adam(lr=1e-2, warmup=2, clip=0.05, clip_per="tensor"),
        "stages": {
            "top": {"freeze": 1, "steps": 2}, "all": {"freeze": "positions", "steps": 2},
        },
    },
}  # fmt: skip


def test_two_processes_learn_what_one_does(together, tiny, tmp_path):
    train(tiny(steps=4), tmp_path / "first", cache=tmp_path / "cache", quiet=True)
    vocabulary = TokenizerFile(path=str(tmp_path / "first" / "tokenizer"), size=120)
    begun = {"init": FromRun(path=str(tmp_path / "first")), "vocab": vocabulary, "layers": 3}
    common = {"dropout": CALM, "objective": PAIRS, **SHORT, **AT_THE_END}
    rows = [f"a{n % 5} b{n % 3},{'odd' if n % 4 else 'even'}" for n in range(40)]
    (table := tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]))
    weighted = Classify(
        train=str(table), dev=str(table), examples=40, labels=("even", "odd"), dropout=0,
        loss=WeightedLoss(weights=(7, 0.5)),
    )  # fmt: skip
    learned = {**LEARNED, "begun": begun, "weighted": {"objective": (Term(objective=weighted),)}}
    alone = {name: straight(tiny(**common | own), tmp_path, name) for name, own in learned.items()}
    for strategy, harm in (("ddp", hold_gradients_in_place), ("fsdp", None)):
        programs = {
            f"{name} {strategy}": tiny(**common | own, strategy=strategy)
            for name, own in learned.items()
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
    "next": {
        "objective": (Term(objective=Clm()),), "attention": RelativeAttention(), "strategy": "fsdp",
    },
    "in order": {
        "objective": (Term(objective=Plm()),), "format": StreamPair(both_ways=True),
        "attention": RelativeAttention(untie=True, segments=True), "segments": 0,
        "strategy": "ddp",
    },
}  # fmt: skip


def test_a_stop_is_agreed_on_and_any_number_goes_on(together, tiny, tmp_path, capsys):
    """With a memory of each process's own rows; by three, which have 3, 3 and 2 of 8 examples."""
    common = {
        **AT_THE_END, "dropout": CALM, "memory": 30, "log_every": 1, "microbatch": 2, "steps": 7,
        "eval_every": 7,
    }  # fmt: skip
    stages = {"short": {"steps": 6, "objective": PAIRS}, "long": {"steps": 1, "seq": 16}}
    in_stages = partial(tiny, dropout=CALM, stages=stages, log_every=1)
    programs = {name: tiny(**common, **own) for name, own in REMEMBERING.items()}
    programs |= {"stages": in_stages(strategy="ddp")}
    alone = {name: straight(each, tmp_path, f"one {name}") for name, each in programs.items()}
    stopped = [143, 143], [(0, "stopped after step 5, and saved")] * 3
    assert together(2, programs, ask_one) == stopped
    shutil.copytree(tmp_path / "stages", tmp_path / "by one")
    # The weights are parted unevenly from here on.
    by_three = programs | {"stages": in_stages(strategy="fsdp")}
    assert together(3, by_three, resume=True) == ([0, 0, 0], [])
    train(in_stages(), tmp_path / "by one", cache=tmp_path / "cache", resume=True)
    assert "started on cpu in 2 processes, now on cpu:" in capsys.readouterr().err
    for name, one in {**alone, "by one": alone["stages"]}.items():
        assert losses(tmp_path / name) == pytest.approx(one, rel=1e-5, abs=1e-6), name


def harmed(rank, step, what):
    """Do ``what`` in the middle of a step."""
    real = TrainStep.__call__

    def call(self, inputs, at, *arguments):
        result = real(self, inputs, at, *arguments)
        if at == step - 1:
            what()
        return result

    TrainStep.__call__ = call


def hold_gradients_in_place(rank):
    """End where a gradient lies elsewhere than after the step before, once DDP has its buckets."""
    real, places = TrainStep.__call__, {}

    def call(self, inputs, at, *arguments):
        result = real(self, inputs, at, *arguments)
        own = {n: p.grad.data_ptr() for n, p in self.parameters.items() if p.grad is not None}
        if places.get(self, own) != own:
            sys.exit("gradients moved")
        assert own
        if at > self.stage.first_step:
            places[self] = own
        return result

    TrainStep.__call__ = call


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def kill_one(rank):
    if rank == 1:
        harmed(rank, 4, kill)


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


def ask_one(rank):
    if rank == 1:
        harmed(rank, 4, lambda: signal.raise_signal(signal.SIGTERM))


def test_killed_and_resumed_is_never_having_stopped(together, tiny, tmp_path):
    """Of networks that grow: at the boundary, where steps begin to be another's, with dropout."""
    stages = {
        "flat": {"layers": 1, "steps": 4},
        "deep": {"layers": 2, "steps": 4, "grow": Stack(moments="carry")},
    }
    settings = {"objective": PAIRS, "save_every": 2, "eval_every": 8, "stages": stages}
    programs = {
        "ddp": tiny(**settings, strategy="ddp", microbatch=2),
        "fsdp": tiny(**settings, strategy="fsdp", dropout=CALM),
    }
    one = straight(tiny(**settings, dropout=CALM), tmp_path)
    assert together(2, {f"{name} straight": of for name, of in programs.items()}) == ([0, 0], [])
    assert losses(tmp_path / "fsdp straight") == pytest.approx(one, rel=1e-5, abs=1e-6)
    for name, harm, saved in (("ddp", kill_one, 2), ("fsdp", kill_while_saving, 4)):
        codes, said = together(2, {name: programs[name]}, harm)
        assert (codes, said) == ([75, -9], [(0, "another process of this run ended")])
        assert newest_step(tmp_path / name) == saved
    assert together(2, programs, resume=True) == ([0, 0], [])
    for name in programs:
        same_run(tmp_path / f"{name} straight", tmp_path / name)


def ask_while_preparing(rank):
    real = Watched.begin

    def begin(self, *task):
        signal.raise_signal(signal.SIGINT)
        real(self, *task)

    Watched.begin = begin


def test_preparing_stops_though_the_others_only_wait(together, tiny, tmp_path):
    codes, said = together(2, tiny(), harm=ask_while_preparing)
    assert codes == [130, 75]
    assert said == [(0, f"stopped before the first step: there is no run in {tmp_path}/run yet")]
    assert not (tmp_path / "run" / "lock.json").exists()


def poison(rank):
    if rank == 1:
        real, calls = phase.make_objective, []

        def poisoned(*arguments):
            objective = real(*arguments)

            def call(batch, factors):
                calls.append(1)
                loss, statistics, memory = objective(batch, factors)
                # The first call is not yet of a step.
                factor = math.nan if len(calls) == 7 else 1
                return loss * factor, statistics * factor, memory

            return call

        phase.make_objective = poisoned


def test_a_loss_that_is_not_finite_in_one_stops_all(together, tiny, tmp_path):
    codes, said = together(2, tiny(eval_every=100), harm=poison)
    assert codes == [65, 65]
    ((rank, message),) = said
    assert rank == 0
    assert message.startswith("step 5: the loss of mlm is not a finite number")
    assert message.count(", ") == 4  # it names the four examples of the other process


def starve(rank):
    if rank == 1:
        harmed(rank, 3, lambda: (_ for _ in ()).throw(MemoryError()))


def test_memory_that_runs_out_in_one_stops_all(together, tiny, tmp_path):
    codes, said = together(2, tiny(), harm=starve)
    assert codes == [75, 78]
    assert dict(said)[1].endswith("4 examples of 24 tokens at once do not fit in memory; 2 might")


def test_more_processes_than_examples_are_refused(tiny):
    with pytest.raises(UsageError, match="batch of 8 examples cannot be shared by 9 processes"):
        make_plan(tiny(), World(9, 9))


TWO = ("--nproc", "2", "--resume")


def test_the_command_starts_processes_and_ends_with_the_code_of_the_run(
    processes, tmp_path, corpus_file
):
    """They go on with what one process began, and are stopped by a signal to the command."""
    spec, run, said = tmp_path / "farm.bertc", tmp_path / "run", tmp_path / "said"
    spec.write_text(
        "layers=2 hidden=32 heads=2 seq=24 batch=8 steps=4000 vocab=wordpiece(120) save_every=5\n"
        f'data=files("{corpus_file}", sentences=lines) holdout=20% device=cpu compile=off\n'
        "eval_every=4 eval_examples=16\n"
    )
    cache = tmp_path / "cache"
    with pytest.raises(GivenUpError):
        train(points(str(spec))[0], run, cache=cache, quiet=True, goes_on=lambda: False)
    began, end = newest_step(run), time.monotonic() + SECONDS
    assert began == 4
    # Compiled already, where there is a compiler.
    kernels = f"kernels-{os.geteuid()}"
    (cache / kernels).symlink_to(cache_folder() / kernels)
    launcher = processes.Process(target=train_farm, args=(said, *TWO))
    launcher.start()
    while launcher.is_alive() and newest_step(run) == began and time.monotonic() < end:
        time.sleep(0.02)
    members = members_of(launcher)
    assert len(members) == 2
    launcher.terminate()
    launcher.join(SECONDS)
    assert not [member for member in members if is_alive(member)]
    assert newest_step(run) > began
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
