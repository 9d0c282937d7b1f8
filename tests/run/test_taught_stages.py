"""Stages of one spec with teachers of their own, of text and then of a task, or without any."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bertc.api import points
from tests.net.programs import TOY
from tests.run.conftest import text

pytestmark = pytest.mark.usefixtures("in_the_farm")
TASK = 'glue(rte, "RTE")'
TEACHER = {**TOY, "layers": "4", "heads": "[1, 2, 2, 1]", "objective": "mlm", "steps": "2"}
STUDENT = dict.fromkeys(("layers", "hidden", "heads", "ffn", "vocab", "steps"), "")
STAGES = """
stage "general" {{ teacher = "{general}"  steps = 2
    objective = mlm + kd(logits, T=2) + kd(hidden) + kd(embeddings) + kd(relations, heads=2) }}
stage "alone" {{ objective = mlm  steps = 2 }}
stage "states" {{ teacher = "{tuned}"  steps = 2
    objective = 1e-6*{task} + kd(hidden) + kd(cls, layers=last) + kd(attention, layers=[2, 4])
    optimizer = adamw(1e-3, warmup=0, schedule=constant) }}
stage "answers" {{ teacher = "{tuned}"  objective = 0.5*{task} + 0.5*kd(logits)  steps = 2 }}
"""


@pytest.fixture(scope="module")
def made(farm_run: Callable[[str], Path]) -> str:
    """The spec of four stages with a teacher of text and one of the task."""
    general = farm_run(text(TEACHER))
    of_task = {**TEACHER, **STUDENT, "steps": "2", "objective": TASK, "init": f'"{general}"'}
    tuned = farm_run(text(of_task))
    begun = f'init=layers("{general}", uniform)'
    own = {"layers": "2", "eval_every": "4", "save_every": "1"}
    whole = f"{text({**TOY, **STUDENT, **own})} {begun}"
    return whole + STAGES.format(general=general, tuned=tuned, task=TASK)


def test_each_stage_has_its_own_teachers(made):
    stages = points(made)[0].stages
    frozen = [[n.body.depth for n in s.networks() if not n.learned] for s in stages]
    assert frozen == [[4], [], [4], [4]]
    assert [type(stage).__name__ for stage in stages] == 2 * ["TextStage"] + 2 * ["TaskStage"]


def test_a_run_goes_on_in_any_stage_to_the_same_bits(made, resumes):
    resumes(points(made)[0], *range(1, 8))


def test_a_network_reads_with_the_vocabulary_of_a_stage_s_teacher(made):
    before, _, stages = made.partition("init=")
    of_text = stages[stages.index("stage") : stages.index('stage "states"')]
    (resolved,) = points(f"{before} positions=32 {of_text}")
    assert resolved.encoder.vocab_size == 120
