"""The heads of tasks beside transformers' own modules and closed forms."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedConfig, XLNetConfig
from transformers.loss.loss_utils import ForSequenceClassificationLoss
from transformers.models.xlnet import modeling_xlnet

import bertc
from bertc.base.diagnostics import DataError
from bertc.hub.families.bert import BERT
from bertc.hub.gliner import class_of
from bertc.hub.keys import keys, prefix_key
from bertc.ir.learning import answer as answers
from bertc.ir.learning.custom_task import Choose, Classify, Many, Read, Regress, Spans, Tag
from bertc.ir.program import model_weights
from bertc.learn.objectives import TaskTargets
from bertc.learn.objectives.answers import TaskTensors, answer_losses, answer_scores, span_scores
from bertc.learn.step.feed import to_micro_batch
from bertc.model.heads import make_head
from bertc.run.evaluation.task_inference import outputs
from bertc.run.evaluation.task_lookup import task_of
from bertc.run.models.runs import import_run
from bertc.tasks.examples.encode import encode
from bertc.tasks.examples.task import gather
from bertc.tasks.layouts.example import TaggedExample
from tests.campaigns.spans_by_name import KNOWN, values, write_settings

B, S, H = 3, 11, 8


@pytest.fixture
def encoder():
    return bertc.resolve(f"layers=1 hidden={H} heads=1 vocab=100 norm=post(eps=1e-12)").encoder


def rand(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def asked(targets, weights, passage=None, positions=None, examples=None):
    return TaskTargets(
        torch.zeros(len(targets), 1).long() if positions is None else positions,
        torch.as_tensor(targets, dtype=torch.float32),
        torch.as_tensor(weights, dtype=torch.float32),
        torch.zeros(len(targets), 0, dtype=torch.bool) if passage is None else passage,
        torch.ones(len(targets), S).long() if examples is None else examples,
    )


def head_of(task, encoder, weights):
    """The head of a task called t, of these weights."""
    head = make_head(task, encoder)
    head.load_state_dict({name.removeprefix("t."): weight for name, weight in weights.items()})
    return head


def answer_loss(task, given, states, head):
    return TaskTensors(task).loss(answer_losses(task, given, states, head), given)


def test_labels_and_scores(encoder):
    weights = {"t.weight": rand(4, H), "t.bias": rand(4)}
    states, task = rand(B, 1, H), Classify(name="t", labels=("a", "b", "c", "d"))
    head = head_of(task, encoder, weights)
    logits = states[:, 0] @ weights["t.weight"].T + weights["t.bias"]
    torch.testing.assert_close(answer_scores(task.answer, states, head), logits)
    found = answer_loss(task, asked([[1], [3], [0]], [[1], [1], [0]]), states, head)
    torch.testing.assert_close(found.sum, -logits.log_softmax(1)[[0, 1], [1, 3]].sum())
    assert found.count == 2
    one = {"t.weight": rand(1, H), "t.bias": rand(1)}
    task = Regress(name="t")
    given = asked([[1.5], [-1], [0]], [[1]] * 3)
    found = answer_loss(task, given, states, head_of(task, encoder, one))
    said = (states[:, 0] @ one["t.weight"].T + one["t.bias"])[:, 0]
    torch.testing.assert_close(found.sum, (said - torch.tensor([1.5, -1, 0])).square().sum())


LOSSES = {
    "plain": answers.PlainLoss(), "smoothed": answers.PlainLoss(smoothing=0.1),
    "weights": answers.WeightedLoss(weights=(1, 5, 0.5)),
    "balanced": answers.BalancedLoss(weights=(0.2, 0.1, 0.3)),
    "weights smoothed": answers.WeightedLoss(weights=(1, 5, 0.5), smoothing=0.2),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_classes_weigh_as_in_torch_over_all_parts_of_a_batch(name, encoder):
    """The sums over two parts beside CrossEntropyLoss and BCEWithLogitsLoss of the whole batch."""
    loss = LOSSES[name]
    smoothing = getattr(loss, "smoothing", 0)
    names, weights = ("a", "b", "c"), {"t.weight": rand(3, H), "t.bias": rand(3)}
    vector = torch.tensor(loss.weights) if loss.weights else None
    flags = (rand(4, 1, 3) > 0).float()
    single = torch.nn.CrossEntropyLoss(vector, label_smoothing=smoothing)
    several = torch.nn.BCEWithLogitsLoss(pos_weight=vector)
    rows = (names, [[0], [1], [2], [1]], single), (Many(names=names), flags, several)
    for labels, targets, theirs in rows:
        task = Classify(name="t", labels=labels, loss=loss)
        head, states = head_of(task, encoder, weights), rand(4, 1, H)
        logits = head(states)[:, 0]
        likely = flags[:, 0] * (1 - smoothing) + smoothing / 2
        right = likely if targets is flags else torch.tensor(targets).flatten()
        wanted = theirs(logits, right)
        if name == "plain":  # what transformers' Trainer gets from a classifier
            wanted = ForSequenceClassificationLoss(right, logits, PreTrainedConfig(num_labels=3))
        parts = [(asked(targets[at], [[1]] * 2), states[at]) for at in (slice(2), slice(2, 4))]
        sums = [answer_loss(task, given, part, head).sum for given, part in parts]
        counts = [TaskTensors(task).count(given) for given, _ in parts]
        ours = sum(sums) / sum(counts)
        torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-6)
        gradients = [torch.autograd.grad(value, head.parameters()) for value in (ours, wanted)]
        torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-6)


def test_focal_losses_are_of_lin(encoder):
    states, names = rand(3, 1, H), ("a", "b")
    for labels in (names, Many(names=names)):
        task = Classify(name="t", labels=labels, loss=answers.FocalLoss(gamma=1.5))
        head = head_of(task, encoder, {"t.weight": rand(2, H), "t.bias": rand(2)})
        scores = head(states)[:, 0].detach()
        if labels is names:
            given = asked([[0], [1], [1]], [[1]] * 3)
            likely = scores.softmax(1)[range(3), [0, 1, 1]]
        else:
            flags = torch.tensor([[[1.0, 0]], [[0, 0]], [[1, 1]]])
            given = asked(flags, [[1]] * 3)
            likely = torch.where(flags[:, 0] > 0, scores.sigmoid(), 1 - scores.sigmoid())
        wanted = (-((1 - likely) ** 1.5) * likely.log()).reshape(3, -1).mean(1).sum()
        torch.testing.assert_close(answer_loss(task, given, states, head).sum, wanted)


def test_a_choice_that_is_not_there_is_never_right(encoder):
    weights = {"t.weight": rand(1, H), "t.bias": rand(1)}
    states, task = rand(6, 1, H), Choose(name="t", most=3)
    head = head_of(task, encoder, weights)
    given = asked([[1], [1], [1], [0], [0], [0]], [[1], [1], [0], [1], [1], [1]])
    found = answer_loss(task, given, states, head)
    logits = (states[:, 0] @ weights["t.weight"].T)[:, 0]
    wanted = -logits[:2].log_softmax(0)[1] - logits[3:].log_softmax(0)[0]
    torch.testing.assert_close(found.sum, wanted)
    assert found.count == TaskTensors(task).count(given) == 2


def test_tags_count_the_words_that_are_scored(encoder):
    weights = {"t.weight": rand(3, H), "t.bias": rand(3)}
    states, task = rand(2, 4, H), Tag(name="t", labels=("O", "B-X", "I-X"))
    head = head_of(task, encoder, weights)
    given = asked([[0, 1, 2, 0], [2, 0, 0, 0]], [[1, 1, 1, 0], [1, 0, 0, 0]])
    found = answer_loss(task, given, states, head)
    logs = (states @ weights["t.weight"].T + weights["t.bias"]).log_softmax(2)
    wanted = -(logs[0, 0, 0] + logs[0, 1, 1] + logs[0, 2, 2] + logs[1, 0, 2])
    torch.testing.assert_close(found.sum, wanted)
    assert found.count == TaskTensors(task).count(given) == 4


@pytest.fixture
def conditioned():
    """transformers' modules of SQuAD 2.0's head, and their weights as ours are called."""
    config = XLNetConfig(d_model=H, n_head=1, n_layer=1, d_inner=8, start_n_top=4, end_n_top=4)
    torch.manual_seed(3)
    parts = ("StartLogits", "EndLogits", "AnswerClass")
    modules = [getattr(modeling_xlnet, f"XLNetPooler{part}")(config) for part in parts]
    start, end, answered = modules
    parts = {
        "start": start.dense, "end.dense": end.dense_0, "end.norm": end.LayerNorm,
        "end": end.dense_1, "answered.dense": answered.dense_0, "answered": answered.dense_1,
    }  # fmt: skip
    weights = {
        f"t.{name}.{leaf}": torch.nn.init.normal_(parameter, std=0.5).detach()
        for name, part in parts.items()
        for leaf, parameter in part.named_parameters()
    }
    return modules, weights


def test_a_conditioned_span_is_that_of_xlnet(encoder, conditioned):
    (start, end, answered), weights = conditioned
    states, task = rand(B, S, H), Read(name="t", head=answers.Conditioned(), unanswerable=True)
    head = head_of(task, encoder, weights)
    passage = torch.zeros(B, S, dtype=torch.bool)
    passage[:, 4:9] = True
    hidden_from = (~(passage | (torch.arange(S) == 0))).float()
    with torch.no_grad():
        starts = start(states, p_mask=hidden_from)
        first, last = torch.tensor([[5, 0, 7], [6, 0, 7]])
        ends = end(states, start_positions=first, p_mask=hidden_from)
        none = answered(states, start_states=torch.einsum("bsh,bs->bh", states, starts.softmax(1)),
                        cls_index=torch.zeros(B).long())  # fmt: skip
        impossible = (first == 0).float()
        cross = torch.nn.functional.cross_entropy
        binary = torch.nn.functional.binary_cross_entropy_with_logits
        # Ours tells that there is an answer, theirs that there is none.
        wanted = (cross(starts, first) + cross(ends, last)) / 2 + 0.5 * binary(-none, impossible)
    given = asked(torch.stack([first, last], 1)[:, None], [[1]] * B, passage)
    found = answer_loss(task, given, states, head)
    torch.testing.assert_close(found.sum / B, wanted, rtol=1e-5, atol=1e-5)
    scores = span_scores(given, states, head)
    torch.testing.assert_close(scores.answered, none, rtol=1e-5, atol=1e-5)
    allowed = hidden_from == 0
    for nth, places in enumerate(scores.likeliest.unbind(1)):
        with torch.no_grad():
            expected = end(states, start_positions=places, p_mask=hidden_from)
        made = scores.ends[:, nth]
        torch.testing.assert_close(made[allowed], expected[allowed], rtol=1e-5, atol=1e-5)
        assert (made[~allowed] == float("-inf")).all()


def test_a_conditioned_span_may_have_units_of_its_own(encoder):
    """ELECTRA, qa_tasks.py: both states through 512 gelu units, and no norm, to a score."""
    task = Read(name="t", head=answers.Conditioned(width=5, units="gelu-tanh"), unanswerable=True)
    table = {
        weight.name: weight.shape
        for weight in answers.answer_head(task.answer).weights("t", encoder)
    }
    assert "t.end.norm.weight" not in table
    weights = {name: rand(*shape) for name, shape in table.items()}
    head = head_of(task, encoder, weights)
    states, passage = rand(1, S, H), torch.ones(1, S, dtype=torch.bool)
    given = asked(torch.tensor([[[2, 4]]]), [[1]], passage)

    def through(x, name):
        inner = x @ weights[f"t.{name}.dense.weight"].T + weights[f"t.{name}.dense.bias"]
        return torch.nn.functional.gelu(inner, approximate="tanh") @ weights[f"t.{name}.weight"].T

    starts = (states @ weights["t.start.weight"].T + weights["t.start.bias"])[0, :, 0]
    begun = states[0, 2].expand(S, H)
    ends = (through(torch.cat([states[0], begun], 1), "end") + weights["t.end.bias"])[:, 0]
    mean = starts.softmax(0) @ states[0]
    answered = through(torch.cat([mean, states[0, 0]]), "answered")[0]
    wanted = -(starts.log_softmax(0)[2] + ends.log_softmax(0)[4]) / 2
    wanted = wanted + 0.5 * torch.nn.functional.softplus(-answered)
    torch.testing.assert_close(answer_loss(task, given, states, head).sum, wanted)
    scores = span_scores(given, states, head)
    torch.testing.assert_close(scores.ends[0, scores.likeliest[0].tolist().index(2)], ends)


def test_a_plain_span_competes_with_every_token(encoder):
    weights, task = {"t.weight": rand(2, H), "t.bias": rand(2)}, Read(name="t")
    head = head_of(task, encoder, weights)
    states, passage = rand(B, S, H), torch.zeros(B, S, dtype=torch.bool)
    passage[:, 3:8] = True
    logits = states @ weights["t.weight"].T + weights["t.bias"]
    targets = torch.tensor([[3, 4], [0, 0], [7, 7]])
    given = asked(targets[:, None], [[1]] * B, passage)
    found = answer_loss(task, given, states, head)
    logs = logits.log_softmax(1)
    wanted = -sum(logs[row, targets[row, end], end] / 2 for row in range(B) for end in (0, 1))
    torch.testing.assert_close(found.sum, wanted)
    scores = span_scores(given, states, head)
    assert (scores.starts[:, 8:] == float("-inf")).all()
    torch.testing.assert_close(scores.starts[:, 3:8], logits[:, 3:8, 0])


SETTINGS, TAGGED, NAMES = (KNOWN[name] for name in ("settings", "tagged", "names"))
NETWORK = "layers=1 hidden=8 heads=2 ffn=16 seq=64 pooler=transform vocab=16 steps=1 "


@pytest.fixture
def folder(tmp_path):
    """A folder as the gliner package writes it, without ``config.json``."""
    write_settings(at := tmp_path / "theirs")
    resolved = bertc.resolve(NETWORK + "task=spans(units=6, widest=4, labels=[a], examples=9)")
    shapes = {w.name: w.shape for w in model_weights(resolved)}
    theirs, of = class_of("spans"), {}
    for name, key in keys(BERT, resolved.encoder, shapes, theirs.named).items():
        key = prefix_key(BERT, theirs, name, key)
        of[key] = torch.tensor(values(key, math.prod(shapes[name]))).view(shapes[name])
    save_file(of, at / "model.safetensors")
    return at


def test_scores_losses_and_answers_are_those_of_gliner_and_its_folder_comes_and_goes(
    folder, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    import_run(folder, Path("mine"))
    model = bertc.load("mine")
    stage, task = task_of(model.resolved, "")
    tagged = [TaggedExample(t, (*t.split(),), (*tags.split(),)) for t, tags in TAGGED.items()]
    rows = encode(task.judged, tagged, model.tokenizer.vocabulary, 64, 2)
    batch = to_micro_batch(gather(task.judged, rows, np.arange(3), 0), torch.device("cpu"))
    with torch.no_grad():
        scores, sums = outputs(model, stage, task.judged, batch)
    expected = torch.tensor(KNOWN["scores"])
    by_span = scores.transpose(2, 3)
    torch.testing.assert_close(by_span[by_span > -600].view(-1, 3), expected, atol=1e-5, rtol=0)
    assert float(sums[0]) == pytest.approx(KNOWN["loss"], rel=1e-5)
    (answer,) = model.predict(["ann lee of oslo sang."], f"spans(labels={NAMES})")
    scored = [{**s, "score": pytest.approx(s["probability"], abs=1e-5)} for s in answer["spans"]]
    found = [{name: s[name] for name in KNOWN["found"][0]} for s in scored]
    assert found == KNOWN["found"]
    left = json.loads(Path("mine/model/gliner_config.json").read_text())
    assert {n for n, value in SETTINGS.items() if left[n] != value} == {"encoder_config", "name"}
    assert left["encoder_config"].items() >= SETTINGS["encoder_config"].items()
    for init in ("mine", "mine/model"):
        (again,) = bertc.resolve(f"init='{init}' steps=1 task=spans(widest=5)").stages[0].tasks
        assert again == Spans(widest=5, units=6, marker="[MASK]", separator="[SEP]")
    before, after = (load_file(at / "model.safetensors") for at in (folder, Path("mine/model")))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    with pytest.raises(DataError, match="spans: no labels to find"):
        model.predict(["ann lee"])


@pytest.mark.parametrize(("change", "message"), [
    ({"span_mode": "token_level"}, 'span_mode = "token_level"'),
    ({"max_width": 0}, "max_width = 0"),
    ({"encoder_config": None}, "no encoder_config"),
])  # fmt: skip
def test_a_folder_of_another_architecture_is_refused(folder, tmp_path, change, message):
    (folder / "gliner_config.json").write_text(json.dumps({**SETTINGS, **change}))
    pytest.raises(DataError, import_run, folder, tmp_path / "mine").match(message)
