"""Several examples in a row give what each gives in a row of its own: of text, and of tasks."""

import functools
import random

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

import bertc
from bertc.api import resolve
from bertc.learn.objectives import corrupt
from bertc.learn.objectives.targets import Boundaries, PairTargets, Predictions, ReplacedTokens
from bertc.learn.objectives.terms import with_output_positions
from bertc.learn.step.feed import examples_at_once, to_micro_batch
from bertc.learn.step.objective import make_objective
from bertc.model import EncoderInputs, build
from bertc.model.attention.masks import end_to_end
from bertc.tasks.examples.encode import encode
from bertc.tasks.examples.task import MIN_SHARED_ROW_TOKENS, TaskData, TaskSet, gather, shared
from bertc.tasks.layouts.example import QuestionExample, TaggedExample, TextExample
from tests.learn.material import VOCAB, rows, vocab
from tests.text.test_encode import bert_vocabulary, text, word_tokenizer

NEAR = {"atol": 1e-5, "rtol": 1e-5}
PACKS = [[0, 1, 2], [3, 4], [5], [6, 7, 8, 9]]
ROOM = 48
LENGTHS = (12, 9, 20, 30, 18, 48, 7, 8, 11, 5)
SPECS = [
    "objective=mlm+sop",
    "objective=span+sbo+nsp norm=pre share=all E=16",
    "objective=mlm positions=learned(50, offset=2) segments=0 format=doc-sentences",
    "objective=50*rtd+mlm generator=network(hidden=16, heads=1) format=doc-sentences",
    "objective=rtd(over=masked)+mlm(unit=span)+sop generator=network(0.5, tie=none)",
]


def program(extra):
    toy = f"layers=2 hidden=32 heads=2 vocab={VOCAB} seq={ROOM} batch=4 dropout=0 pack=true"
    return resolve(f"{toy} {extra}")


def examples():
    return rows(len(LENGTHS), ROOM, long=LENGTHS)


def packed(stage, batch):
    """The batch of padded rows, moved with all their predictions into packed ones."""
    before = {i: [n for n in members if n < i] for members in PACKS for i in members}
    offsets = {i: sum(LENGTHS[n] for n in others) for i, others in before.items()}

    def tokens(rows):
        joined = [torch.cat([rows[i, : LENGTHS[i]] for i in members]) for members in PACKS]
        return torch.stack([torch.nn.functional.pad(r, (0, ROOM - len(r))) for r in joined])

    def slots(values, shift):
        """Each example's entries beside each other; ``shift`` moves positions with the text."""
        moved = [values[i] + (offsets[i] if shift else 0) for i in range(len(LENGTHS))]
        rows = [torch.cat([moved[i] for i in members]) for members in PACKS]
        return pad_sequence(rows, batch_first=True)

    numbers = [torch.full((ROOM,), n) for members in PACKS for n in range(1, len(members) + 1)]

    def reading(padded):
        both = tokens(padded.token_ids), tokens(padded.segment_ids)
        return EncoderInputs(*both, sequence_ids=tokens(torch.stack(numbers)))

    def replacements(padded):
        weights, classified = slots(padded.weights, False), padded.classified
        whole = classified.shape == batch.originals.shape
        used = weights.long()  # slots not used hold position 0 of the row, wherever the text is
        return ReplacedTokens(
            slots(padded.positions, True) * used, weights, slots(padded.chances, False),
            tokens(classified) if whole else weights,
        )  # fmt: skip

    def moved(own):
        match own:
            case ReplacedTokens():
                return replacements(own)
            case PairTargets() | Predictions():
                others = (slots(each, False) for each in own[1:3])
                return type(own)(slots(own.positions, True), *others)
            case Boundaries():
                beside = (slots(own.left, True), slots(own.right, True))
                return Boundaries(*beside, *(slots(each, False) for each in own[2:]))
            case _:
                raise AssertionError(own)

    packed = batch._replace(
        reading=reading(batch.reading), masked=batch.masked and reading(batch.masked),
        originals=tokens(batch.originals),
        terms={name: moved(own) for name, own in batch.terms.items()},
    )  # fmt: skip
    return with_output_positions(stage, packed)


def results(resolved, batch):
    """Sums and hits of the terms, and the gradient of every weight."""
    model = build(resolved).train()
    stage = resolved.stages[0]
    factors = torch.full((len(stage.objective),), 0.01)
    loss, statistics, _ = make_objective(model, stage, compiled=False)(batch, factors)
    loss.backward()
    return statistics, {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def both(extra):
    resolved = program(extra)
    apart = resolved.stages[0].model_copy(update={"pack": False, "padded": True})
    padded = corrupt(apart, examples(), vocab(), 1)
    return resolved, padded, packed(resolved.stages[0], padded)


@pytest.mark.parametrize("extra", SPECS)
def test_losses_and_gradients_equal_those_of_padded_rows(extra):
    resolved, padded, together = both(extra)
    statistics, gradients = results(resolved, padded)
    torch.testing.assert_close(results(resolved, together), (statistics, gradients), **NEAR)
    assert statistics[0].min() > 1


def one_by_one(
    query, key, value,
    offsets, other, longest, longest_other,
):  # fmt: skip
    """What the kernel for sequences of any length does, on (t, n, d), sequence by sequence."""
    assert torch.equal(offsets, other)
    assert offsets.diff().max() <= longest == longest_other
    assert (offsets.dtype, int(offsets[0]), int(offsets[-1])) == (torch.int32, 0, len(query))
    parts = []
    for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        q, k, v = (x[start:end].transpose(0, 1) for x in (query, key, value))
        parts.append(torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(0, 1))
    return torch.cat(parts)


def test_the_kernel_for_any_length_sees_the_same(monkeypatch):
    resolved, _, together = both(SPECS[1])
    expected = results(resolved, together)
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", one_by_one)
    monkeypatch.setattr("bertc.model.attention.kinds.can_varlen", lambda *_: True)
    torch.testing.assert_close(results(resolved, together), expected, **NEAR)


def test_sequences_lie_end_to_end_and_corruption_asks_about_each():
    starts = torch.tensor([[0, 2, 3, 5], [0, 6, 6, 6], [0, 1, 4, 6]])
    offsets = end_to_end(starts, 6).offsets.tolist()
    assert offsets == [0, 2, 3, 5, 6, 12, 12, 12, 12, 13, 16, 18, 18]
    assert len(offsets) == 3 * 4 + 1
    stage = program("objective=mlm+sop").stages[0]
    plain = examples()
    starts = torch.full((1, stage.texts), ROOM)
    starts[0, :3] = torch.tensor([0, 12, 21])
    row = torch.cat([plain.token_ids[i, : LENGTHS[i]] for i in (0, 1, 2)])
    inputs = plain._replace(
        token_ids=torch.nn.functional.pad(row, (0, ROOM - len(row)))[None],
        segment_ids=torch.zeros(1, ROOM, dtype=torch.long), lengths=torch.tensor([41]),
        example_ids=torch.tensor([7]), copies=torch.tensor([0]), starts=starts,
        pair_labels=torch.zeros_like(starts), languages=torch.zeros(1, 2, dtype=torch.long),
        following=torch.full_like(starts[:, 0], -1),
    )  # fmt: skip
    batch = corrupt(stage, inputs, vocab(), 1)
    assert batch.reading.sequence_ids[0].tolist() == [1] * 12 + [2] * 9 + [3] * 20 + [0] * 7
    assert batch.reading.attention_mask is None
    starts = batch.reading.starts
    # As many places as a row may hold examples, and padding; those not used are empty.
    assert starts[0].tolist() == [0, 12, 21] + [41] * (stage.texts - 2)
    bounds = end_to_end(starts, ROOM)
    assert (bounds.offsets.dtype, bounds.longest) == (torch.int32, ROOM)
    assert bounds.offsets.tolist() == [*starts[0].tolist(), ROOM]
    (pairs,) = (own for own in batch.terms.values() if isinstance(own, PairTargets))
    assert pairs.positions[0].tolist() == [0, 12, 21, 0, 0, 0]
    assert pairs.weights[0].tolist() == [1, 1, 1, 0, 0, 0]


NETWORK = "layers=2 hidden=32 heads=2 vocab=47 seq=48 dropout=0 initializer=normal(0.3) "
TAGS = ("O", "B-X", "I-X")
TASKS = {
    "labels": "classify('-', labels=[x, y, z], examples=20)", "score": "regress('-', examples=20)",
    "tags": "tag('-', labels=[O, B-X, I-X], examples=20)", "span": "read('-', examples=20)",
    "conditioned": "read('-', head=conditioned, unanswerable=true, examples=20)",
}  # fmt: skip


BERT = bert_vocabulary(word_tokenizer())


def drawn_examples(kind, count, longest):
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
            tags = (tuple(draw.choices(TAGS, k=len(each))) for each in words)
            return [TaggedExample(str(w), tuple(w), t) for w, t in zip(words, tags, strict=True)]


def asked(draw, passage, question, surely):
    """A question that some words of a passage answer; not surely: or none."""
    if not surely and draw.random() < 0.4:
        return QuestionExample(passage, passage, question, (), False)
    words = passage.split()
    first = draw.randrange(len(words))
    said = " ".join(words[first : first + draw.randint(1, 3)])
    before = len(" ".join(words[:first])) + (first > 0)
    return QuestionExample(passage, passage, question, ((said, before),), True)


def encoded(resolved, examples):
    stage = resolved.stages[0]
    return encode(stage.tasks[0], examples, BERT, stage.seq, stage.encoder.segments)


def batches(kind, resolved):
    """One batch both ways."""
    (task,) = resolved.stages[0].tasks
    rows = encoded(resolved, drawn_examples(kind, 20, 24))
    order = np.argsort(rows.lengths, kind="stable")[::-1]
    return (make(task, rows, order, 0) for make in (gather, shared))


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("network", [
    "",
    "norm=pre positions=sinusoidal share=all E=16",
    "positions=learned(50, offset=2) pooler=false segments=0",
    "attention=relative(segments=true) positions=none segments=0",
])  # fmt: skip
def test_losses_and_gradients_are_those_of_rows_of_their_own(kind, network):
    resolved = bertc.resolve(f"{NETWORK}{network} task={TASKS[kind]}")
    model, stage = bertc.build(resolved).eval(), resolved.stages[0]  # heads have dropout
    objective = make_objective(model, stage, compiled=False)
    found = []
    for batch in batches(kind, resolved):
        loss, statistics, _ = objective(to_micro_batch(batch, torch.device("cpu")), torch.ones(1))
        grads = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        found.append((batch, loss, statistics, [g for g in grads if g is not None]))
    (alone, loss, statistics, grads), (packed, same, like, others) = found
    assert packed.token_ids.size < alone.token_ids.size
    torch.testing.assert_close(loss, same)
    torch.testing.assert_close(statistics, like)
    torch.testing.assert_close(grads, others, rtol=1e-4, atol=5e-5)


@pytest.mark.parametrize("kind", TASKS)
def test_nothing_is_lost_or_read_twice(kind):
    alone, packed = batches(kind, bertc.resolve(f"{NETWORK} task={TASKS[kind]}"))
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
        assert (heads == BERT.cls).all() == (kind != "tags")
    assert relative(packed) == pytest.approx(relative(alone))


def relative(batch):
    """What is asked for, of spans from the beginning of each, in order."""
    targets = batch.targets
    if batch.passage.size:
        targets = (targets - batch.positions[..., None]) @ [1000, 1]
    return np.sort(targets[batch.weights > 0]).tolist()


def test_long_examples_have_rows_of_their_own():
    resolved = bertc.resolve(f"{NETWORK} task={TASKS['score']}".replace("seq=48", "seq=90"))
    (task,) = resolved.stages[0].tasks
    words = " ".join(["w1"] * 80)
    rows = encoded(resolved, [TextExample(str(n), (words,), 1.0) for n in range(32)])
    for count in (1, 2, 31, 32):
        batch = shared(task, rows, np.arange(count), 0)
        assert not batch.shared
        assert len(batch.token_ids) == count


@pytest.mark.filterwarnings("ignore")  # The compiler's own.
def test_compiled_layers_read_batches_of_any_shape(monkeypatch):
    resolved = bertc.resolve(f"{NETWORK} task={TASKS['labels']}".replace("layers=2", "layers=1"))
    model, stage = bertc.build(resolved).eval(), resolved.stages[0]
    (task,), plain = stage.tasks, make_objective(model, stage, compiled=False)
    rows = encoded(resolved, drawn_examples("labels", 60, 24))
    order = np.argsort(rows.lengths, kind="stable")[::-1]
    read = [
        to_micro_batch(make(task, rows, order[first : first + count], 0), torch.device("cpu"))
        for first, count in ((0, 20), (40, 1))
        for make in (gather, shared)
    ]
    wanted = [plain(batch, torch.ones(1))[0].item() for batch in read]
    torch.compiler.reset()
    graphs = []
    backend = lambda graph, inputs: graphs.append(graph) or graph.forward  # noqa: E731
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    compiled = make_objective(model, stage, compiled=True)
    found = [compiled(batch, torch.ones(1))[0].item() for batch in read]
    assert found == pytest.approx(wanted, rel=1e-5)
    before = len(graphs)
    again = [compiled(batch, torch.ones(1))[0].item() for batch in reversed(read)]
    assert again[::-1] == pytest.approx(wanted, rel=1e-5)
    assert len(graphs) == before < 3 * 4


@pytest.mark.parametrize(("longest", "batch", "settings", "device", "wanted"), [
    (24, 32, "", "cpu", 32),  # short ones together
    (100, 32, "", "cpu", 16),  # longer ones in parts that have enough tokens
    (240, 32, "", "cpu", 8),  # or enough rows
    (240, 8, "", "cpu", 8),
    (240, 32, "microbatch=16", "cpu", 16),
    (240, 32, "", "cuda", 32),
])  # fmt: skip
def test_how_many_are_read_together(longest, batch, settings, device, wanted):
    spec = f"{NETWORK} task={TASKS['span']} batch={batch} {settings}"
    resolved = bertc.resolve(spec.replace("seq=48", "seq=256"))
    stage = resolved.stages[0]
    (task,) = stage.tasks
    words = " ".join(["w1"] * (longest - 7))
    asked = [QuestionExample(str(n), words, "w2 w2 w2 w2", (("w1", 0),), True) for n in range(64)]
    data = TaskData(BERT, 0, batch, stage.seq, (TaskSet(task, encoded(resolved, asked), {}),), 1.0)
    assert examples_at_once(data, stage, stage.microbatch or batch, torch.device(device)) == wanted
