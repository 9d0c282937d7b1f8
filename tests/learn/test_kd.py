"""Losses of distillation beside independent expressions, written from the papers."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from bertc.api import resolve
from bertc.ir.network.body_node import Wanted
from bertc.ir.terms.kd import KdLogits
from bertc.learn.objectives import MicroBatch, TaskTargets, corrupt, tensors_of
from bertc.learn.objectives.softmax import kd
from bertc.learn.objectives.softmax.kd import Comparison, Logits, soft_target_loss
from bertc.learn.objectives.targets import Taught
from bertc.learn.objectives.term import HeadInput
from bertc.learn.step.objective import counts, make_objective
from bertc.model import EncoderInputs, build
from bertc.run.beginning.teachers import frozen_networks
from tests.learn.material import rows, vocab

close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def hinton(own, goal, T):
    """T^2 KL(p_teacher || p_student) of each prediction (Hinton et al. 2015, section 2)."""
    p, q = torch.exp(goal / T), torch.exp(own / T)
    p, q = p / p.sum(1, keepdim=True), q / q.sum(1, keepdim=True)
    return T**2 * (p * torch.log(p / q)).sum(1)


def agree(model, found, wanted, rtol=1e-5):
    """Losses are equal, and their gradients by each weight."""
    close(found, wanted)
    weights = [p for p in model.parameters() if p.requires_grad]
    both = (torch.autograd.grad(loss, weights, allow_unused=True) for loss in (found, wanted))
    ours, theirs = both
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=rtol, atol=1e-5)


@pytest.mark.parametrize("rows_at_once", [1, 3, 100])
@pytest.mark.parametrize("loss", ["kl", "ce", "mse"])
def test_soft_targets_are_those_of_the_papers(loss, rows_at_once, monkeypatch):
    n, e, f, v, T = 7, 4, 6, 11, 2.0
    monkeypatch.setattr(kd, "SOFT_TARGETS", (rows_at_once * v, 0))
    x, table, bias = (drawn(*s).requires_grad_() for s in ((n, e), (v, e), (v,)))
    taught = Logits(drawn(n, f, seed=3), drawn(v, f, seed=4), drawn(v, seed=5))
    weights = (torch.arange(n) % 3 > 0).float()
    temperature, factor = (1.0, 1.0) if loss == "mse" else (T, T**2)
    how = Comparison(loss, temperature, factor)  # type: ignore[arg-type]
    found = soft_target_loss(Logits(x, table, bias), [taught], [1.0], weights, how)
    gradients = torch.autograd.grad(3 * found, (x, table, bias))

    own, goal = x @ table.T + bias, taught.features @ taught.table.T + taught.bias
    match loss:
        case "kl":
            each = hinton(own, goal, T)
        case "ce":
            each = T**2 * F.cross_entropy(own / T, (goal / T).softmax(1), reduction="none")
        case _:
            each = (own - goal).square().sum(1)  # Tang et al. 2019, section 3.2
    wanted = (each * weights).sum()
    close(found, wanted)
    close(gradients, torch.autograd.grad(3 * wanted, (x, table, bias)))


def test_an_ensemble_averages_probabilities():
    n, e, v = 5, 4, 9
    x, table, bias = drawn(n, e).requires_grad_(), drawn(v, e, seed=1), drawn(v, seed=2)
    taught = [Logits(drawn(n, e, seed=s), drawn(v, e, seed=s + 1), bias) for s in (5, 7, 9)]
    shares, how = [1.0, 2.0, 5.0], Comparison("kl", 2.0, 4.0)
    found = soft_target_loss(Logits(x, table, bias), taught, shares, torch.ones(n), how)
    chances = [((t.features @ t.table.T + bias) / 2).softmax(1) for t in taught]
    mean = sum(s * p for s, p in zip(shares, chances, strict=True)) / 8
    wanted = 4 * F.kl_div(((x @ table.T + bias) / 2).log_softmax(1), mean, reduction="sum")
    close(found, wanted)
    close(*(torch.autograd.grad(loss, x) for loss in (found, wanted)))


States = list[torch.Tensor]
SMALL = "vocab=1000 seq=12 batch=4 format=single-segment "
OWN = SMALL + "layers=2 hidden=16 heads=2 ffn=32 dropout=0"
WIDE, ALIKE = (f"{SMALL} layers=4 hidden={h} heads=2 ffn=48" for h in (24, 16))


def compared(resolved, inputs):
    """A network and its teacher's outputs, a batch, and the mean loss of its one term."""
    stage, model = resolved.stages[0], build(resolved)
    (teacher,) = frozen_networks(stage, model)
    batch = corrupt(stage, inputs, vocab(), 0)
    loss, _, _ = make_objective(model, stage, False, (teacher,))(batch, torch.ones(1))
    return model, teacher.read_on, batch, loss / counts(stage, [batch])[0]


def squared(one, other):
    """Mean squared error of each vector, over its elements."""
    return (one - other).pow(2).mean(-1)


def tinybert(own, goal, maps):
    """Embeddings and layers m from m N/M, by one map for all (section 3.2; fit_dense)."""
    (weight, bias) = maps
    return sum(squared(own[m] @ weight.T + bias, goal[2 * m]) for m in range(3))  # type: ignore[return-value]


def tinybert_as_printed(own, goal, maps):
    """A map W_e for embeddings and W_h for each layer (section 3.2)."""
    pairs = [(maps[2 * m], maps[2 * m + 1]) for m in range(3)]
    each = [squared(own[m] @ w.T + b, goal[2 * m]) for m, (w, b) in enumerate(pairs)]
    return torch.stack(each).sum(0)


def distilbert(own, goal, maps):
    """1 - cos of last states (section 3; CosineEmbeddingLoss with targets 1)."""
    a, b = own[2], goal[4]
    return 1 - (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1))


def patient(own, goal, maps):
    """Squared distance of normalised [CLS] states, summed over layers 1 to M-1 (section 3.2)."""
    a, b = own[1][:, 0], goal[2][:, 0]
    return (a / a.norm(dim=-1, keepdim=True) - b / b.norm(dim=-1, keepdim=True)).pow(2).sum(-1)


@pytest.mark.parametrize(("term", "teacher", "paper"), [
    ("kd(hidden)", WIDE, tinybert),
    ("kd(hidden, project=each)", WIDE, tinybert_as_printed),
    ("kd(hidden, loss=cosine, layers=last)", ALIKE, distilbert),
    ("kd(cls, normalize=true, elements=sum)", ALIKE, patient),
])  # fmt: skip
def test_states_are_compared_as_in_the_papers(term, teacher, paper):
    resolved = resolve(f"{OWN} objective={term} teacher=spec({teacher!r})")
    model, teacher_read, batch, found = compared(resolved, rows(4, 12, pairs=False))
    every = Wanted((0, 1, 2)), Wanted((0, 1, 2, 3, 4))
    own = model.read_on(batch.reading, request=every[0]).by_layer or {}
    goal = teacher_read(batch.reading, every[1]).by_layer or {}
    maps = [p for name, p in model.named_parameters() if "kd" in name]
    each = paper([own[n] for n in range(3)], [goal[n] for n in range(5)], maps)
    real = batch.reading.attention_mask
    wanted = each.mean() if each.ndim == 1 else (each * real).sum() / real.sum()
    agree(model, found, wanted)


def scaled(left, right, heads):
    """Products of the vectors of one text, (heads, seq, seq), over sqrt(d)."""
    a, b = (torch.stack(x.chunk(heads, dim=-1)) for x in (left, right))
    return torch.einsum("nqd,nkd->nqk", a, b) / a.shape[-1] ** 0.5


def divergence(goal, own):
    """KL of each row of products, averaged over heads (MiniLM, equations 6 and 7)."""
    p, q = torch.exp(goal), torch.exp(own)
    p, q = p / p.sum(-1, keepdim=True), q / q.sum(-1, keepdim=True)
    return (p * torch.log(p / q)).sum(-1).mean(0)


Parts = list[torch.Tensor]
"""Queries, keys and values of one text in one layer, (seq, width) each."""


def minilm(own, goal):
    """Attention distributions and value relations (Wang et al. 2020, 3.1 and 3.2)."""
    attention = divergence(scaled(goal[0], goal[1], 2), scaled(own[0], own[1], 2))
    return attention + divergence(scaled(goal[2], goal[2], 2), scaled(own[2], own[2], 2))


def minilm_v2(own, goal):
    """Relations of queries, of keys and of values in 4 heads (Wang et al. 2021, 3.1 and 3.2)."""
    each = [divergence(scaled(b, b, 4), scaled(a, a, 4)) for a, b in zip(own, goal, strict=True)]
    return torch.stack(each).sum(0)


def tinybert_scores(own, goal):
    """Squared error of scores before the softmax, mean over elements (section 3.2)."""
    return squared(scaled(own[0], own[1], 2), scaled(goal[0], goal[1], 2)).mean(0)


def tinybert_released(own, goal):
    """The same with scores at or below a bound as 0 in both (task_distill.py, -1e2 there)."""
    a, b = (scaled(x[0], x[1], 2) for x in (own, goal))
    zero = torch.zeros(())
    return squared(torch.where(a <= -1, zero, a), torch.where(b <= -1, zero, b)).mean(0)


def probabilities(own, goal):
    a, b = (scaled(x[0], x[1], 2).softmax(-1) for x in (own, goal))
    return squared(a, b).mean(0)


@pytest.mark.parametrize("pack", ["false", "true"])
@pytest.mark.parametrize(("term", "teacher", "paper", "pairs"), [
    ("kd(relations, of=[attention, values])", WIDE, minilm, [(2, 4)]),
    ("kd(relations, heads=4, layers=3)", WIDE, minilm_v2, [(2, 3)]),
    ("kd(attention)", WIDE, tinybert_scores, [(1, 2), (2, 4)]),
    ("kd(attention, zero_below=-1)", ALIKE, tinybert_released, [(1, 2), (2, 4)]),
    ("kd(attention, of=probabilities)", ALIKE, probabilities, [(1, 2), (2, 4)]),
])  # fmt: skip
def test_attention_is_compared_as_in_the_papers(term, teacher, paper, pairs, pack, monkeypatch):
    """Text by text, so that padding and the other texts of a row are not even there."""
    monkeypatch.setattr(kd, "TOKEN_PAIRS", (3 * 4 * 12 * 12, 0))
    wide = "initializer=normal(0.5)"
    taught = f"objective={term} teacher=spec('{teacher} {wide}')"
    resolved, inputs = resolve(f"{OWN} {wide} pack={pack} {taught}"), rows(4, 12, pairs=False)
    if pack == "true":  # two texts in each row
        starts = torch.tensor([[0, 3]] * 4)
        inputs = inputs._replace(starts=starts, pair_labels=torch.zeros_like(starts))
    model, teacher_read, batch, found = compared(resolved, inputs)
    every = Wanted(projections=(1, 2)), Wanted(projections=(2, 3, 4))
    own = model.read_on(batch.reading, request=every[0]).projections or {}
    goal = teacher_read(batch.reading, every[1]).projections or {}
    numbers = batch.reading.sequence_ids
    if numbers is None:
        numbers = batch.reading.attention_mask.long()
    assert numbers.min() == 0
    assert numbers.max() == (2 if pack == "true" else 1)
    each = []
    for row, ids in enumerate(numbers):
        for text in range(1, int(ids.max()) + 1):
            at = ids == text
            cut = [([x[row, at] for x in own[a]], [x[row, at] for x in goal[b]]) for a, b in pairs]
            each.append(torch.stack([paper(*both) for both in cut]).sum(0))
    agree(model, found, torch.cat(each).mean(), rtol=1e-4)


@pytest.mark.parametrize("classes", ["sum", "mean"])
def test_starts_and_ends_are_compared_within_their_examples(classes):
    """Soft targets of both, half each, over the tokens of each example (run_squad.py's loss)."""
    b, s, m, T = 2, 9, 2, 2.0
    node = KdLogits(T=T, classes=classes, head="squad", labels=2, spans=True)
    examples = torch.tensor([[1, 1, 1, 1, 2, 2, 2, 0, 0], [1, 1, 1, 1, 1, 1, 0, 0, 0]])
    zeros = torch.zeros(b, m)
    there = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    own = TaskTargets(zeros.long(), zeros, there, examples > 0, examples)
    states, goal = drawn(b, s, 4).requires_grad_(), drawn(b, s, 2, seed=1)
    head, taught = torch.nn.Linear(4, 2), {node.title: (Taught(1.0, (goal,)),)}
    batch = MicroBatch(EncoderInputs(examples), examples, {}, taught=taught)
    tensors: Any = tensors_of(node)
    pooled = SimpleNamespace(of_tokens=False)
    network = SimpleNamespace(training=False, node=SimpleNamespace(pooled=pooled))
    found = tensors.loss(tensors.score(own, HeadInput((states,), batch, head, network)), own).sum

    scores, each = head(states), []
    for row, example in ((0, 1), (0, 2), (1, 1)):
        at = examples[row] == example
        both = [hinton(scores[row, at, e][None], goal[row, at, e][None], T) for e in (0, 1)]
        each.append(sum(both) / 2 / (at.sum() if classes == "mean" else 1))
    wanted = torch.cat(each).sum()
    close(found, wanted)
    close(*(torch.autograd.grad(loss, states, retain_graph=True) for loss in (found, wanted)))
