"""Short examples that share a row are read as if each had one of its own."""

import functools
import random

import numpy as np
import pytest
import torch

import bertc
from bertc.learn.step.feed import examples_at_once, to_micro_batch
from bertc.learn.step.objective import make_objective
from bertc.tasks.examples.encode import encode
from bertc.tasks.examples.task import MIN_SHARED_ROW_TOKENS, TaskData, TaskSet, gather, shared
from bertc.tasks.layouts.example import QuestionExample, TaggedExample, TextExample
from tests.text.test_encode import bert_vocabulary, text, word_tokenizer

NETWORK = "layers=2 hidden=32 heads=2 vocab=47 seq=48 dropout=0 initializer=normal(0.3) "
TAGS = ("O", "B-X", "I-X")
TASKS = {
    "labels": "classify('-', labels=[x, y, z], examples=20)", "score": "regress('-', examples=20)",
    "tags": "tag('-', labels=[O, B-X, I-X], examples=20)", "span": "read('-', examples=20)",
    "conditioned": "read('-', head=conditioned, unanswerable=true, examples=20)",
}  # fmt: skip


@pytest.fixture
def bert():
    return bert_vocabulary(word_tokenizer())


def examples(kind, count, longest):
    draw = random.Random(longest)
    texts = [text(draw, 1, longest) for _ in range(count)]
    match kind:
        case "labels":
            return [TextExample(t, (t, text(draw, 1, 4)), draw.choice("xyz")) for t in texts]
        case "score":
            return [TextExample(t, (t,), draw.random()) for t in texts]
        case "span" | "conditioned":
            return [asked(draw, t, text(draw, 1, 4), kind == "span") for t in texts]
        case _:
            words = [t.split() for t in texts]
            return [
                TaggedExample(str(w), tuple(w), tuple(draw.choices(TAGS, k=len(w)))) for w in words
            ]


def asked(draw, passage, question, surely):
    """A question that some words of a passage answer; not surely: or none."""
    if not surely and draw.random() < 0.4:
        return QuestionExample(passage, passage, question, (), False)
    words = passage.split()
    first = draw.randrange(len(words))
    said = " ".join(words[first : first + draw.randint(1, 3)])
    before = len(" ".join(words[:first])) + (first > 0)
    return QuestionExample(passage, passage, question, ((said, before),), True)


def batches(kind, resolved, vocabulary, longest=24):
    """One batch both ways."""
    stage = resolved.stages[0]
    (task,) = stage.tasks
    rows = encode(task, examples(kind, 20, longest), vocabulary, stage.seq, stage.encoder.segments)
    order = np.argsort(rows.lengths, kind="stable")[::-1]
    return (make(task, rows, order, 0) for make in (gather, shared))


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize(
    "network",
    [
        "",
        "norm=pre positions=sinusoidal share=all E=16",
        "positions=learned(50, offset=2) pooler=false segments=0",
        "attention=relative(segments=true) positions=none segments=0",
    ],
)
def test_losses_and_gradients_are_those_of_rows_of_their_own(bert, kind, network):
    resolved = bertc.resolve(f"{NETWORK}{network} task={TASKS[kind]}")
    model, stage = bertc.build(resolved).eval(), resolved.stages[0]  # heads have dropout
    objective = make_objective(model, stage, compiled=False)
    found = []
    for batch in batches(kind, resolved, bert):
        loss, statistics, _ = objective(to_micro_batch(batch, torch.device("cpu")), torch.ones(1))
        grads = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        found.append((batch, loss, statistics, [g for g in grads if g is not None]))
    (alone, loss, statistics, grads), (packed, same, like, others) = found
    assert packed.token_ids.size < alone.token_ids.size
    torch.testing.assert_close(loss, same)
    torch.testing.assert_close(statistics, like)
    torch.testing.assert_close(grads, others, rtol=1e-4, atol=5e-5)


@pytest.mark.parametrize("kind", TASKS)
def test_nothing_is_lost_or_read_twice(bert, kind):
    resolved = bertc.resolve(f"{NETWORK} task={TASKS[kind]}")
    alone, packed = batches(kind, resolved, bert)
    assert packed.shared
    for starts, numbers in zip(packed.starts, packed.examples, strict=True):
        begins = [0, *(np.flatnonzero(np.diff(numbers)) + 1)]
        unused = [len(numbers)] * (len(starts) - len(begins))
        assert starts.tolist() == begins + unused
    assert not alone.shared
    assert sorted(packed.rows) == sorted(alone.rows) == list(range(20))
    assert packed.token_ids.shape[1] <= MIN_SHARED_ROW_TOKENS + 24
    for batch in (alone, packed):
        assert np.array_equal(batch.token_ids > 0, batch.examples > 0)
        predicted = batch.weights > 0
        row, _ = np.nonzero(predicted)
        heads = batch.token_ids[row, batch.positions[predicted]]
        assert (heads == bert.cls).all() == (kind != "tags")
    assert relative(packed) == pytest.approx(relative(alone))


def relative(batch):
    """What is asked for, of spans from the beginning of each, in order."""
    targets = batch.targets
    if batch.passage.size:
        targets = (targets - batch.positions[..., None]) @ [1000, 1]
    return np.sort(targets[batch.weights > 0]).tolist()


def test_long_examples_have_rows_of_their_own(bert):
    resolved = bertc.resolve(f"{NETWORK} task={TASKS['score']}".replace("seq=48", "seq=90"))
    (task,) = resolved.stages[0].tasks
    words = " ".join(["w1"] * 80)
    rows = encode(task, [TextExample(str(n), (words,), 1.0) for n in range(32)], bert, 90, 2)
    for count in (1, 2, 31, 32):
        batch = shared(task, rows, np.arange(count), 0)
        assert not batch.shared
        assert len(batch.token_ids) == count


@pytest.mark.filterwarnings("ignore")  # The compiler's own.
def test_compiled_layers_read_batches_of_any_shape(bert, monkeypatch):
    resolved = bertc.resolve(f"{NETWORK} task={TASKS['labels']}".replace("layers=2", "layers=1"))
    model, stage = bertc.build(resolved).eval(), resolved.stages[0]
    (task,), plain = stage.tasks, make_objective(model, stage, compiled=False)
    rows = encode(task, examples("labels", 60, 24), bert, stage.seq, stage.encoder.segments)
    order = np.argsort(rows.lengths, kind="stable")[::-1]
    read = [
        to_micro_batch(make(task, rows, order[first : first + count], 0), torch.device("cpu"))
        for first, count in ((0, 20), (40, 1))
        for make in (gather, shared)
    ]
    wanted = [plain(batch, torch.ones(1))[0].item() for batch in read]
    torch.compiler.reset()
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    compiled = make_objective(model, stage, compiled=True)
    found = [compiled(batch, torch.ones(1))[0].item() for batch in read]
    assert found == pytest.approx(wanted, rel=1e-5)
    before = len(graphs)
    again = [compiled(batch, torch.ones(1))[0].item() for batch in reversed(read)]
    assert again[::-1] == pytest.approx(wanted, rel=1e-5)
    assert len(graphs) == before < 3 * 4


@pytest.mark.parametrize(
    ("longest", "batch", "settings", "device", "wanted"),
    [
        (24, 32, "", "cpu", 32),  # short ones together
        (100, 32, "", "cpu", 16),  # longer ones in parts that have enough tokens
        (240, 32, "", "cpu", 8),  # or enough rows
        (240, 8, "", "cpu", 8),
        (240, 32, "microbatch=16", "cpu", 16),
        (240, 32, "", "cuda", 32),
    ],
)
def test_how_many_are_read_together(bert, longest, batch, settings, device, wanted):
    spec = f"{NETWORK} task={TASKS['span']} batch={batch} {settings}"
    stage = bertc.resolve(spec.replace("seq=48", "seq=256")).stages[0]
    (task,) = stage.tasks
    words = " ".join(["w1"] * (longest - 7))
    asked = [QuestionExample(str(n), words, "w2 w2 w2 w2", (("w1", 0),), True) for n in range(64)]
    rows = encode(task, asked, bert, stage.seq, stage.encoder.segments)
    data = TaskData(bert, 0, batch, stage.seq, (TaskSet(task, rows, {}),), 1.0)
    fitting = stage.microbatch or batch
    assert examples_at_once(data, stage, fitting, torch.device(device)) == wanted
