"""Stages of one spec with teachers of their own, of text and then of a task, or without any."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bertc.api import points
from bertc.diagnostics import StoppedError
from bertc.train import finish
from bertc.train.loop import train
from tests.net.programs import FARM, TOY
from tests.train.test_chosen_layers import text
from tests.train.test_training import stop_after

TASK = 'glue(rte, "RTE")'
TEACHER = {**TOY, "layers": "4", "steps": "2"}
STUDENT = dict.fromkeys(("layers", "hidden", "heads", "ffn", "vocab", "steps"), "")
STAGES = """
stage "general" {{ teacher = "{general}"  objective = kd(hidden) + kd(embeddings)  steps = 2 }}
stage "alone" {{ objective = mlm  steps = 2 }}
stage "states" {{ teacher = "{tuned}"  objective = 1e-6*{task} + kd(hidden)  steps = 2
    optimizer = adamw(1e-3, warmup=0, schedule=constant) }}
stage "answers" {{ teacher = "{tuned}"  objective = 0.5*{task} + 0.5*kd(logits)  steps = 2 }}
"""


@pytest.fixture(autouse=True)
def in_the_farm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FARM)
    monkeypatch.setattr(finish, "plot", lambda lines, path: path.touch())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A cache, and the spec of four stages with a teacher of text and one of the task."""
    folder = tmp_path_factory.mktemp("teachers")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(FARM)
        patched.setattr(finish, "plot", lambda lines, path: path.touch())
        general, tuned = folder / "general", folder / "tuned"
        options = {"cache": folder / "cache", "quiet": True}
        train(points(text(TEACHER, objective="mlm"))[0], general, **options)
        of_task = {**TEACHER, **STUDENT, "steps": "2", "objective": TASK, "init": f'"{general}"'}
        train(points(text(of_task))[0], tuned, **options)
    begun = f'init=layers("{general}", uniform)'
    own = {"layers": "2", "eval_every": "4", "save_every": "1"}
    whole = f"{text({**TOY, **STUDENT, **own})} {begun}"
    return folder / "cache", whole + STAGES.format(general=general, tuned=tuned, task=TASK)


def weights(run: Path) -> dict[str, torch.Tensor]:
    last = max((run / "checkpoints").glob("step-*"))
    return load_file(last / "weights.safetensors")


@pytest.fixture(scope="module")
def straight(made: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("straight") / "run"
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(FARM)
        patched.setattr(finish, "plot", lambda lines, path: path.touch())
        train(points(made[1])[0], run, cache=made[0], quiet=True)
    return run


def test_each_stage_has_its_own_teachers(made: tuple[Path, str]) -> None:
    stages = points(made[1])[0].stages
    frozen = [[n.body.depth for n in s.networks() if not n.learned] for s in stages]
    assert frozen == [[4], [], [4], [4]]
    assert [type(stage).__name__ for stage in stages] == 2 * ["TextStage"] + 2 * ["TaskStage"]


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 6, 7])
def test_a_run_goes_on_in_any_stage_to_the_same_bits(
    step: int,
    made: tuple[Path, str],
    straight: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache, spec = made
    run, resolved = tmp_path / "run", points(spec)[0]
    with pytest.raises(StoppedError):
        stop_after(monkeypatch, step, lambda: train(resolved, run, cache=cache, quiet=True))
    train(resolved, run, cache=cache, quiet=True, resume=True)
    one, other = weights(straight), weights(run)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_network_reads_with_the_vocabulary_of_a_stage_s_teacher(made: tuple[Path, str]) -> None:
    before, _, stages = made[1].partition("init=")
    (resolved,) = points(f"{before} positions=32 {stages[stages.index('stage') :]}")
    assert resolved.encoder.vocab_size == 120
