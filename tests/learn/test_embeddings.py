"""Losses of vectors beside closed forms, and a batch in parts beside the whole of it."""

import random
import weakref

import numpy as np
import pytest
import torch
from torch import Tensor

import bertc
from bertc.cost.planning.plan import Plan
from bertc.ir.address import key
from bertc.ir.learning.pooling import TokenVectors
from bertc.ir.learning.vector_task import Embed
from bertc.learn.objectives.softmax.similarities import cosent, info_nce, pooled, related_losses
from bertc.learn.step.feed import to_micro_batch
from bertc.model import build
from bertc.run.beginning import synthetic
from bertc.tasks.examples.encode import encode
from bertc.tasks.examples.task import cut, gather
from bertc.tasks.layouts.example import TextExample
from tests.text.test_encode import bert_vocabulary, text, word_tokenizer

NETWORK = "layers=2 hidden=16 heads=2 vocab=47 seq=16 initializer=normal(0.3) batch=8 compile=off "
TASKS = {
    "pairs": "embed('-', text=a, positive=b, both=true, dense=[8, 4], examples=8)",
    "triplets": "embed('-', text=a, positive=b, negative=c, pooling=max, examples=8)",
    "scored": "embed('-', text=a, positive=b, score=s, dropout=0.2, pooling=last, examples=8)",
    "taught": "embed('-', text=a, positive=b, negative=c, negatives=column(2), score=s, loss=kl, "
    "widths=[16, 8], examples=8)",
    "late": "embed('-', text=a, positive=b, negative=c, pooling=tokens(4, query=8), both=true, "
    "examples=8)",
    "late taught": "embed('-', text=a, positive=b, negative=c, score=s, loss=margin, "
    "pooling=tokens(4, query=6, fill=none), widths=[4, 2], examples=8)",
    "sparse": "embed('-', text=a, positive=b, negative=c, pooling=sparse(9, 4, warmup=0), "
    "examples=8)",
    "alone": "embed('-', pooling=cls, mlp=true, examples=8)",
}
TEXTS = {
    "pairs": 2, "triplets": 3, "scored": 2, "taught": 4, "late": 3, "late taught": 3, "sparse": 3,
    "alone": 1,
}  # fmt: skip


def units(count, texts):
    drawn = torch.randn(count, texts, 6, generator=torch.Generator().manual_seed(texts))
    return torch.nn.functional.normalize(drawn.double(), dim=2).requires_grad_()


def gradient(loss, vectors):
    (found,) = torch.autograd.grad(loss, vectors)
    return found


@pytest.mark.parametrize("texts", [2, 3])
@pytest.mark.parametrize("both", [False, True])
def test_info_nce_is_a_cross_entropy_of_cosines(texts, both):
    vectors = units(5, texts)
    losses = []
    for i in range(5):
        near = vectors[i, 0] @ vectors[i, 1] / 0.1
        others = [vectors[j, t] for j in range(5) for t in range(1, texts)]
        every = torch.stack([vectors[i, 0] @ other for other in others]) / 0.1
        back = torch.stack([vectors[j, 0] @ vectors[i, 1] for j in range(5)]) / 0.1
        one = every.exp().sum().log() - near
        losses.append((one + back.exp().sum().log() - near) / 2 if both else one)
    found = info_nce(vectors[:, 0], vectors[:, 1:], 0.1, both=both)
    torch.testing.assert_close(found.losses, torch.stack(losses))
    expected = gradient(torch.stack(losses).mean(), vectors)
    torch.testing.assert_close(gradient(found.losses.mean(), vectors), expected)


def test_max_sim_adds_up_the_best_cosine_of_each_token_of_the_query():
    task = Embed(text="a", positive="b", both=True, temperature=0.5, pooling=TokenVectors(query=4))
    lengths = torch.tensor([[4, 7], [2, 1], [3, 5]])
    there = (torch.arange(7) < lengths[..., None])[..., None]
    vectors = ((units(6, 7).detach().view(3, 2, 7, 6) - 0.2) * there).requires_grad_()
    cosines = torch.nn.functional.normalize(vectors, dim=3)
    tokens = [[cosines[row, text, : lengths[row, text]] for text in (0, 1)] for row in range(3)]
    scores = [[sum(max(q @ t for t in b) for q in a) for _, b in tokens] for a, _ in tokens]
    table = torch.stack([torch.stack(row) for row in scores]) / 0.5
    losses = (table.logsumexp(1) + table.logsumexp(0)) / 2 - table.diagonal()
    found = related_losses(task, vectors, None).losses
    torch.testing.assert_close(found, losses, rtol=1e-5, atol=1e-5)
    slopes = [gradient(loss.mean(), vectors) * there for loss in (found, losses)]
    torch.testing.assert_close(*slopes, rtol=1e-5, atol=1e-5)


def test_cosent_adds_up_the_pairs_in_the_wrong_order():
    vectors, scores = units(6, 2), torch.tensor([1.0, 3, 2, 3, 0, 5])
    cosines = (vectors[:, 0] * vectors[:, 1]).sum(1)
    wrong = [(i, j) for i in range(6) for j in range(6) if scores[i] < scores[j]]
    total = 1 + sum(((cosines[i] - cosines[j]) * 20).exp() for i, j in wrong)
    found = cosent((vectors[:, 0] * vectors[:, 1]).sum(1) * 20, scores.double())
    torch.testing.assert_close(found.losses, total.log().expand(6))
    expected = gradient(total.log(), vectors)
    torch.testing.assert_close(gradient(found.losses.mean(), vectors), expected)


def test_padding_has_no_part_in_a_vector():
    states = units(3, 5).float()
    real = torch.tensor([[1, 1, 0, 0, 0], [1] * 5, [1, 0, 0, 0, 0]]).bool()
    for row, length in enumerate((2, 5, 1)):
        alone = states[row, :length]
        torch.testing.assert_close(pooled("mean", states, real)[row], alone.mean(0))
        torch.testing.assert_close(pooled("max", states, real)[row], alone.amax(0))
        torch.testing.assert_close(pooled("cls", states, real)[row], alone[0])
        torch.testing.assert_close(pooled("last", states, real)[row], alone[-1])


def parts_of(kind, resolved, at_once):
    """A batch of eight examples in parts of ``at_once``."""
    draw, stage, examples = random.Random(3), resolved.stages[0], []
    for n in range(8):
        texts = tuple(text(draw, 1, 9) for _ in range(TEXTS[kind]))
        score = (n % 3, 0.5, -1.0)[: TEXTS[kind] - 1] if "taught" in kind else float(n % 3)
        examples.append(TextExample(str(n), texts, score))
    (task,), each = stage.tasks, stage.rows_an_example
    rows = encode(task, examples, bert_vocabulary(word_tokenizer()), stage.seq, 2)
    parts = cut(rows.lengths, np.arange(8), each, at_once * each)
    cpu = torch.device("cpu")
    return [to_micro_batch(gather(task, rows, part, 0), cpu, stage) for part in parts]


def begun(settings, at_once):
    """A task and its first step, in parts of so many examples."""
    resolved = bertc.resolve(f"{NETWORK} {settings}")
    plan = Plan("cpu", "fp32", (at_once,), (False,), False, ())
    return resolved, synthetic.first_step(resolved, build(resolved), plan)


def gradients(step, parts):
    sums, _, _ = step.gradients([*parts], 0)
    found = {n: p.grad.clone() for n, p in step.parameters.items() if p.grad is not None}
    return torch.stack(sums).sum(0), found


@pytest.mark.parametrize("kind", TASKS)
def test_micro_batches_change_neither_loss_nor_gradient(kind):
    resolved, step = begun(f"dropout=0 task={TASKS[kind].replace('0.2', '0')}", 8)
    whole, expected = gradients(step, parts_of(kind, resolved, 8))
    compared, made = step._batch_vectors, list[weakref.ref[Tensor]]()

    def alone(part):
        assert not any(vectors() is not None for vectors in made), "one graph at a time"
        vectors, scores = compared(part)
        made.append(weakref.ref(vectors))
        return vectors, scores

    step._batch_vectors = alone
    for at_once in (3, 1):
        found, own = gradients(step, parts_of(kind, resolved, at_once))
        torch.testing.assert_close(found, whole, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(own, expected, rtol=1e-4, atol=1e-5)
    assert len(made) == 3 + 8


@pytest.mark.parametrize("kind", ["alone", "scored"])
def test_parts_have_the_same_dropout_both_times(kind):
    resolved, step = begun(f"dropout=0.3 task={TASKS[kind]}", 3)
    parts = parts_of(kind, resolved, 3)
    found, _ = gradients(step, parts)
    made = []
    for index, part in enumerate(parts):
        torch.manual_seed(key(0, "dropout", 0, index))
        made.append(step._batch_vectors(part))
    (task,) = resolved.stages[0].tasks
    vectors, scores = map(torch.cat, zip(*made, strict=True))
    expected = related_losses(task, vectors, scores if kind == "scored" else None)
    torch.testing.assert_close(found, expected.losses.sum()[None], rtol=1e-5, atol=1e-5)
    if kind == "alone":
        first, second = vectors.unbind(1)
        assert not torch.allclose(first[:3], second[:3]), "a text is read twice, with other dropout"


def test_a_prompt_precedes_each_text_and_longest_cuts_it():
    vocabulary, found = bert_vocabulary(word_tokenizer()), []
    for arguments, before in ((', prompt="w9 w8 ", longest=6', ""), ("", "w9 w8 ")):
        head = "layers=1 hidden=8 heads=1 vocab=64 seq=32"
        spec = f"{head} task=embed('-', positive=b, examples=1{arguments})"
        stage = bertc.resolve(spec).stages[0]
        example = TextExample("0", tuple(before + each for each in ("w10 w11 w12", "w13")), None)
        found.append(encode(stage.tasks[0], [example], vocabulary, stage.seq, 2))
    one, other = found
    assert (one.lengths.tolist(), other.lengths.tolist()) == ([6, 5], [7, 5])
    assert one.token_ids[:5].tolist() == other.token_ids[:5].tolist()
    assert one.token_ids[6:].tolist() == other.token_ids[7:].tolist()
