"""Runs that learn from a teacher: what is trained, saved, locked, resumed and refused."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertc.api import estimate, points
from bertc.base.diagnostics import DataError, ResumeRefusedError, SpecError, UsageError
from bertc.cost import as_json
from bertc.ir.program.resolved import Resolved
from bertc.ir.terms.masking import of_all_positions
from bertc.run.models.loading import load
from bertc.use.preview import preview
from tests.net.programs import TOY
from tests.run.conftest import lines, same_tensors, stop_after, text, weights

pytestmark = pytest.mark.usefixtures("in_the_farm")
TASK = 'glue(rte, "RTE")'
TEACHER = {**TOY, "layers": "4", "heads": "[1, 2, 2, 1]", "objective": "mlm", "steps": "2"}
INHERITED = dict.fromkeys(("layers", "hidden", "heads", "ffn", "vocab", "steps"), "")
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
def made(farm_run):
    """The spec of four stages with a teacher of text and one of the task."""
    general = farm_run(text(TEACHER))
    of_task = {**TEACHER, **INHERITED, "steps": "2", "objective": TASK, "init": f'"{general}"'}
    own = {"layers": "2", "eval_every": "4", "save_every": "1"}
    whole = text({**TOY, **INHERITED, **own}, init=f'layers("{general}", uniform)')
    return whole + STAGES.format(general=general, tuned=farm_run(text(of_task)), task=TASK)


def test_each_stage_has_its_own_teachers_and_their_vocabulary(made):
    stages = points(made)[0].stages
    frozen = [[n.body.depth for n in s.networks() if not n.learned] for s in stages]
    assert frozen == [[4], [], [4], [4]]
    assert [type(stage).__name__ for stage in stages] == 2 * ["TextStage"] + 2 * ["TaskStage"]
    before, _, stages = made.partition("init=")
    of_text = stages[stages.index("stage") : stages.index('stage "states"')]
    (resolved,) = points(f"{before} positions=32 {of_text}")
    assert resolved.encoder.vocab_size == 120


def test_a_run_goes_on_in_any_stage_to_the_same_bits(made, resumes):
    resumes(points(made)[0], *range(1, 8))


STUDENT = {**TOY, "layers": "1", "hidden": "16", "ffn": "32", "vocab": "", "steps": "4"}


@pytest.fixture
def bert(farm_run):
    """A teacher of two layers that learned mlm."""
    return farm_run(text(TOY, objective="mlm"))


def student(folder, objective="2*kd(logits, T=2) + mlm", **changed):
    return points(text(STUDENT, **{"teacher": f'"{folder}"', "objective": objective, **changed}))[0]


def test_a_student_is_trained_saved_and_resumed_without_its_teacher(bert, cache, tmp_path, resumes):
    before, run = {n: p.clone() for n, p in load(bert).state_dict().items()}, tmp_path / "broken"
    resumes(student(bert), 2)
    assert {name.split(".")[0] for name in weights(run)} == {"encoder", "heads"}
    same_tensors(before, load(bert).state_dict())
    for line in lines(run):
        assert {"kd(logits)", "mlm"} == {*of_all_positions(line["losses"])}
        assert "kd(logits)" not in line.get("accuracy", {})
    assert (run / "model" / "config.json").exists()


def test_the_estimate_lists_teacher_and_student(bert):
    taught, alone = student(bert), student(bert, "mlm", teacher="none", vocab="wordpiece(120)")
    found, without = estimate(taught), estimate(alone)
    teacher = sum(parameter.numel() for parameter in load(bert).parameters())
    assert found.parameters.frozen == teacher
    assert found.parameters.total == without.parameters.total
    assert found.flops.train_per_example > without.flops.train_per_example
    assert found.memory.peak_bytes > without.memory.peak_bytes + 4 * teacher
    assert "frozen" in str(found)
    assert 0 < found.flops.frozen_per_example < found.flops.forward_per_example
    printed = json.loads(as_json([found], where=True))
    assert printed["flops"]["frozen_per_example"] == found.flops.frozen_per_example
    assert "frozen_per_example" not in json.loads(as_json([without]))["flops"]
    costs = {cost.part: cost for cost in found.stages[0].where}
    assert costs["teacher"].state_bytes == 4 * teacher
    assert all(cost.state_bytes >= 0 for cost in costs.values())
    states = sum(costs[part].state_bytes for part in costs if part not in ("teacher", "optimiser"))
    assert states == 8 * found.parameters.total


def test_another_teacher_is_refused_when_the_run_goes_on(bert, tmp_path, monkeypatch, go):
    shutil.copytree(bert, tmp_path / "bert")
    resolved = student(tmp_path / "bert")
    stop_after(monkeypatch, 2, lambda: go(resolved))
    go(text(TOY, objective="mlm", seed="1"), "b")
    shutil.rmtree(tmp_path / "bert")
    shutil.copytree(tmp_path / "b", tmp_path / "bert")
    pytest.raises(ResumeRefusedError, go, resolved, resume=True).match("weights of teacher")


def test_several_teachers_are_averaged(bert, tmp_path, go):
    teachers = {"twice": f'3*"{bert}" + "{bert}"', "once": f'"{bert}"'}
    for name, teacher in teachers.items():
        go(text(STUDENT, objective="kd(logits)+mlm", teacher=teacher), name)
    one, other = (weights(tmp_path / name) for name in teachers)
    assert all(torch.allclose(one[name], other[name], atol=1e-6) for name in one)


def test_a_folder_whose_configuration_tells_of_no_pooler_teaches(bert, tmp_path, go):
    folder = shutil.copytree(bert / "model", tmp_path / "folder")
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = ["BertModel"]
    (folder / "config.json").write_text(json.dumps(config))
    width, tensors = config["hidden_size"], load_file(folder / "model.safetensors")
    kept = {n.removeprefix("bert."): t for n, t in tensors.items() if not n.startswith("cls.")}
    pooler = {"weight": torch.zeros(width, width), "bias": torch.zeros(width)}
    kept |= {f"pooler.dense.{name}": tensor for name, tensor in pooler.items()}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    resolved = student(folder, "mlm + kd(hidden, layers=last)", hidden="32", ffn="64")
    assert go(resolved).step == resolved.steps


def test_a_shape_is_enough_for_an_estimate_and_training_asks_for_weights(go):
    """But not where nothing is learned from it."""
    spec = text(STUDENT, objective="", teacher='spec("bert-tiny")')
    assert estimate(f"{spec} objective=kd(logits)+mlm").parameters.frozen > 4_000_000
    pytest.raises(UsageError, go, f"{spec} objective=kd(logits)+mlm").match("without weights")
    assert estimate(f"{spec} objective=mlm").parameters.frozen == 0
    assert go(f"{spec} objective=mlm", "other").step == 4


def test_a_teacher_of_other_tokens_or_tasks_is_refused(bert, go, tuned):
    pytest.raises(SpecError, student, bert, vocab="wordpiece(130)").match("E283")
    resolved = student(bert, vocab="wordpiece(120, lower=false)")
    pytest.raises(DataError, go, resolved).match("token [0-9]+ is")
    pytest.raises(SpecError, of_task, bert, "kd(logits)").match("the teacher learned mlm")
    with pytest.raises(SpecError, match="compares the scores of mlm"):
        student(tuned, "kd(logits) + mlm", seq="24")


TERMS = (
    ("kd(logits, loss=mse, over=masked)", "kd(embeddings)", "kd(attention, last)"),
    ("kd(hidden, loss=cosine, layers=last)", "kd(relations, heads=8)"),
    ("kd(hidden, layers=[0, 2], project=each, elements=sum)",
     "kd(attention, 1, over=masked, of=probabilities, loss=kl)"),
    ("kd(cls, layers=last, normalize=true)",
     "kd(relations, [attention, values], 2, layers=1)"),
)  # fmt: skip


def trained_as_counted(resolved, run, go):
    """Its weights, as many as the estimate says; written as JSON it is the same program."""
    again = Resolved.model_validate_json(resolved.model_dump_json())
    assert again.fingerprint() == resolved.fingerprint()
    go(resolved)
    learned = weights(run)
    assert estimate(resolved).parameters.total == sum(each.numel() for each in learned.values())
    return learned


@pytest.mark.parametrize("terms", TERMS, ids=str)
def test_every_term_is_counted_trained_and_exported(terms, bert, cache, tmp_path, go, monkeypatch):
    resolved = student(bert, " + ".join([*terms, "mlm"]))
    learned = trained_as_counted(resolved, tmp_path / "run", go)
    exported = load(tmp_path / "run" / "model").state_dict()
    assert {name for name in learned if "kd" not in name} == exported.keys()
    monkeypatch.setenv("BERTC_CACHE", str(cache))
    shown = preview(resolved, 1, color=False)
    assert all(term.split("(")[1].split(",")[0].rstrip(")") in shown for term in terms)


@pytest.mark.parametrize(("objective", "why"), [
    ("kd(logits)+clm", "E217"),
    ("kd(hidden, layers=[1, 2, 2]) + mlm", "names 3 layers"),
    ("kd(hidden, layers=skip) + mlm", "leaves out the last"),
])  # fmt: skip
def test_what_cannot_be_taught_is_refused(objective, why, bert):
    pytest.raises(SpecError, student, bert, objective).match(why)


ASKED = 'glue(rte, "RTE", dropout=0)'
TUNED = {**TOY, "recipe": "bert", "seq": "24", "steps": "4"}


@pytest.fixture
def tuned(farm_run):
    """A teacher that learned a task."""
    return farm_run(text(TUNED, objective=ASKED))


def of_task(folder, terms, **changed):
    own = {"layers": "1", "vocab": "", "hidden": "16", "ffn": "32", "teacher": f'"{folder}"'}
    return points(text(TUNED, **own, objective=f"{ASKED} + {terms}", **changed))[0]


@pytest.mark.parametrize("terms", [
    "0.5*kd(logits, T=10, classes=mean)", "kd(logits, loss=mse)",
    "kd(logits) + 100*kd(cls, layers=last, normalize=true)", "kd(hidden) + kd(embeddings)",
])  # fmt: skip
def test_a_task_is_learned_from_a_teacher_of_it(terms, tuned, tmp_path, go):
    resolved = of_task(tuned, terms)
    go(resolved)
    names = {term.name for term in resolved.stages[0].objective}
    assert all(line["losses"].keys() == names for line in lines(tmp_path / "run", "train"))
    assert lines(tmp_path / "run", "eval")
    assert (tmp_path / "run" / "model" / "config.json").exists()


QUESTIONS = {
    "spans": 'squad(".", version=2)', "choices": 'race("race")', "tags": 'tagging("tags")',
    "numbers": 'regress("score.train.tsv", "score.dev.tsv")',
    "two tasks": f'{ASKED} + glue(sst2, "SST-2")',
}  # fmt: skip
LSTM = {"layers": "", "hidden": "", "heads": "", "ffn": "", "body": "bilstm(8)"}


@pytest.mark.parametrize("kind", QUESTIONS)
def test_answers_of_every_kind_are_taught(kind, tmp_path, go):
    task = QUESTIONS[kind]
    go(text(TUNED, objective=task), "bert")
    own = {"layers": "1", "vocab": "", "teacher": f'"{tmp_path}/bert"'}
    alone = task.replace("glue", "0*glue") if kind == "two tasks" else f"0*{task}"
    loss = "loss=mse" if kind == "numbers" else "T=2"
    (resolved,) = points(text(TUNED, **own, objective=f"{alone} + kd(logits, {loss})"))
    go(resolved)
    names = {term.name for term in resolved.stages[0].objective}
    assert len(names) == (4 if kind == "two tasks" else 2)
    for line in lines(tmp_path / "run", "train"):
        assert line["losses"].keys() <= names
        assert min(line["losses"].values()) > 0
    held = lines(tmp_path / "run", "eval")
    assert all(line["loss"] > 0 for line in held)
    assert [line for line in held if line["scores"]]


@pytest.mark.parametrize("whose", ["student", "teacher"])
def test_an_lstm_is_taught_and_teaches(whose, tmp_path, go):
    first, second = (TUNED | LSTM, TUNED) if whose == "teacher" else (TUNED, TUNED | LSTM)
    go(text(first, objective=ASKED), "a")
    own = {"vocab": "", "teacher": f'"{tmp_path}/a"'}
    taught = "kd(logits, loss=mse) + kd(hidden, layers=last)"
    (resolved,) = points(text(second, **own, objective=f"0*{ASKED} + {taught}"))
    trained_as_counted(resolved, tmp_path / "run", go)


def test_what_weighs_nothing_is_refused_unless_another_term_trains_its_head(tuned):
    with pytest.raises(SpecError, match="E288"):
        points(text(TUNED, objective=f'0*{ASKED} + glue(sst2, "SST-2")'))
    with pytest.raises(SpecError, match="nothing is learned from it"):
        points(text(TUNED, vocab="", teacher=f'"{tuned}"', objective=f"{ASKED} + 0*kd(logits)"))
    own = {"layers": "1", "vocab": "", "teacher": f'"{tuned}"'}
    (alone,) = points(text(TUNED, **own, objective=f"0*{ASKED} + kd(logits)"))
    assert [term.weight for term in alone.stages[0].objective] == [0, 1]
    for other, why in (
        ('squad(".", version=2, head=conditioned)', "conditioned head follow"),
        (QUESTIONS["numbers"], "softmax of one number"),
    ):
        with pytest.raises(SpecError, match=why):
            points(text(TUNED, **own, objective=f"{other} + kd(logits)"))


IN_THREE_STAGES = f"""
stage "general" {{ objective = kd(attention) + kd(hidden, project=shared) }}
stage "intermediate" {{ objective = 0*{ASKED} + kd(attention) + kd(hidden, project=shared) }}
stage "predictions" {{ objective = 0*{ASKED} + kd(logits, loss=ce, classes=mean) }}
"""


def test_a_head_may_be_trained_by_a_later_stage(tuned, resumes):
    """TinyBERT: text, then a task's states and attention, then its predictions."""
    own = {"layers": "1", "vocab": "", "hidden": "16", "ffn": "32", "teacher": f'"{tuned}"'}
    settings = text({**TUNED, **own}, objective="", steps="", data=TOY["data"])
    stages = IN_THREE_STAGES.replace(" }", " steps = 2  seq = 24  batch = 4 }")
    (resolved,) = points(settings + stages)
    resumes(resolved, 3)
    with pytest.raises(SpecError, match="E288"):
        points(settings + stages.partition('stage "predictions"')[0])
