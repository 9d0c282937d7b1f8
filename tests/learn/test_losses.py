"""Losses against loops over predictions, and gradients against those of the plain formula."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from bertc.api import resolve
from bertc.learn.objectives import Losses, corrupt, token_logits
from bertc.learn.objectives.softmax import cross_entropy
from bertc.learn.objectives.softmax.cross_entropy import Scorer, adaptive_logits, adaptive_loss
from bertc.learn.objectives.terms import with_output_positions
from bertc.learn.step.objective import make_objective
from bertc.model import build
from bertc.model.body import Outputs
from bertc.model.model import drawn
from tests.learn.material import losses, program, rows, vocab
from tests.model import material

Activation = Callable[[torch.Tensor], torch.Tensor]


def weights(model):
    """The weights of the heads by name, and the token table."""
    token = model.encoder.embeddings.token.get_parameter("weight")
    return {**dict(model.heads.named_parameters()), "token": token}


def everywhere(batch):
    """The same, of an encoder that was asked for the states of every position."""
    return batch._replace(reading=batch.reading._replace(output_positions=None))


def setting(objective, extra=""):
    resolved = program(objective, 40, f"E=12 pooler=true format=segment-pair {extra}")
    batch = everywhere(corrupt(resolved.stages[0], rows(6, 40), vocab(), 0))
    generator, model = torch.Generator().manual_seed(9), build(resolved)
    with torch.no_grad():
        for tensor in weights(model).values():
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.3)
    return batch, torch.randn(6, 40, 16, generator=generator).requires_grad_(), model


def layer(x, w, dense, norm, f, eps):
    x = f(w[f"{dense}.weight"] @ x + w[f"{dense}.bias"])
    x = (x - x.mean()) / (x.var(unbiased=False) + eps).sqrt()
    return x * w[f"{norm}.weight"] + w[f"{norm}.bias"]


def test_states_that_were_asked_for_give_the_losses_of_all_states():
    batch, hidden, model = setting("span+sbo+sop")
    stage = model.resolved.stages[0]
    asked = with_output_positions(stage, batch)
    places = asked.reading.output_positions
    assert places.shape[1] == stage.networks()[-1].num_outputs == 3 * stage.predictions() + 1 < 40
    found = losses(model, asked, hidden.gather(1, places[:, :, None].expand(-1, -1, 16)))
    for kind, term in losses(model, batch, hidden).items():
        assert torch.equal(found[kind].sum, term.sum)


@pytest.mark.parametrize(("terms", "few"), [
    ("kd(cls, layers=[1])", True),
    ("kd(embeddings) + kd(attention, layers=[1])", True),
    ("kd(cls, layers=last)", False),
    ("kd(relations, heads=2)", False),
])  # fmt: skip
def test_terms_of_lower_layers_leave_the_last_one_to_the_tokens_that_others_read(terms, few):
    teacher = "teacher=spec('layers=2 hidden=16 heads=2 ffn=32 vocab=1000 seq=40')"
    size = "layers=2 hidden=16 heads=2 ffn=32 vocab=1000 dropout=0 seq=40"
    resolved = resolve(f"{size} objective=mlm+{terms} {teacher}")
    (stage,), model = resolved.stages, build(resolved)
    frozen, own = stage.networks()
    assert (own.num_outputs == stage.predictions()) == few
    assert (own.num_outputs is None) == (not few)
    batch = corrupt(stage, rows(6, 40), vocab(), 0)
    objective = make_objective(model, stage, compiled=False, frozen=(drawn(frozen, 3),))
    gradients = []
    for each in (batch, everywhere(batch)):
        model.zero_grad()
        loss, *_ = objective(each, torch.ones(len(stage.objective)))
        loss.backward()
        gradients.append({n: w.grad for n, w in model.named_parameters() if w.grad is not None})
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(("name", "f"), [("gelu", F.gelu), ("relu", F.relu), ("tanh", torch.tanh)])
def test_mlm_is_the_sum_over_predicted_tokens(name, f):
    batch, hidden, model = setting("mlm", f"activation={name} norm=post(1e-3)")
    w = weights(model)
    total, count, correct = 0.0, 0, 0
    for row in range(6):
        asked = zip(*(part[row].tolist() for part in batch.terms["mlm"][:3]), strict=True)
        for position, target, weight in asked:
            if not weight:
                continue
            x = layer(hidden[row, position], w, "mlm.dense", "mlm.norm", f, 1e-3)
            scores = w["token"] @ x + w["mlm.bias"]
            state, head = hidden[row, position][None], model.heads["mlm"]
            one_row = token_logits(state, head, model.encoder)[0]
            torch.testing.assert_close(one_row, scores, atol=1e-5, rtol=1e-5)
            total -= scores.log_softmax(0)[target].item()
            count += 1
            correct += int(scores.argmax() == target)
    term = losses(model, batch, hidden)["mlm"]
    assert term.sum.item() == pytest.approx(total, rel=1e-5)
    assert (term.count.item(), term.correct.item()) == (count, correct)


def test_sbo_is_the_sum_over_the_pairs():
    batch, hidden, model = setting("span+sbo")
    asked, eps, w = batch.terms["sbo"], model.resolved.encoder.norm.eps, weights(model)
    total, count = 0.0, 0
    for row in range(6):
        for slot in asked.weights[row].nonzero()[:, 0].tolist():
            left = hidden[row, asked.left[row, slot]]
            right = hidden[row, asked.right[row, slot]]
            x = torch.cat([left, right, w["sbo.position.weight"][asked.place[row, slot]]])
            x = layer(x, w, "sbo.first", "sbo.first_norm", F.gelu, eps)
            x = layer(x, w, "sbo.second", "sbo.second_norm", F.gelu, eps)
            scores = w["token"] @ x + w["sbo.bias"]
            total -= scores.log_softmax(0)[asked.targets[row, slot]].item()
            count += 1
    term = losses(model, batch, hidden)["sbo"]
    assert count > 5
    assert term.sum.item() == pytest.approx(total, rel=1e-5)
    assert term.count.item() == count


@pytest.mark.parametrize("kind", ["nsp", "sop"])
def test_pairs_are_judged_by_the_pooled_token(kind):
    batch, hidden, model = setting(f"mlm+{kind}")
    w = weights(model)
    scores = model.pool(hidden) @ w[f"{kind}.weight"].t() + w[f"{kind}.bias"]
    labels = batch.terms[kind].labels[:, 0]
    wanted = -scores.log_softmax(1).gather(1, labels[:, None]).sum()
    term = losses(model, batch, hidden)[kind]
    torch.testing.assert_close(term.sum, wanted)
    assert term.count.item() == 6
    assert term.correct.item() == (scores.argmax(1) == labels).sum()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_head_weight_the_table_and_the_hidden_states_get_gradients(dtype):
    batch, hidden, model = setting("span+sbo+sop")
    terms = losses(model, batch, hidden.to(dtype))
    assert set(terms) == {"mlm", "sbo", "sop"}
    assert all(term.sum.dtype == torch.float32 for term in terms.values())
    torch.stack([term.sum for term in terms.values()]).sum().backward()  # type: ignore[no-untyped-call]
    for name, tensor in {**weights(model), "hidden": hidden}.items():
        assert tensor.grad is not None, name
        assert 0 < tensor.grad.abs().sum() < torch.inf, name


def test_losses_are_one_graph_with_the_same_values_and_gradients():
    batch, hidden, model = setting("span+sbo+sop")
    torch.compiler.reset()
    stage = model.resolved.stages[0]
    scored = Losses(model, stage, stage.networks()[-1])
    traced = torch.compile(scored.__call__, fullgraph=True, dynamic=False, backend="aot_eager")
    leaves = [*weights(model).values(), hidden]
    terms = scored(batch, Outputs(hidden)), traced(batch, Outputs(hidden))
    plain, compiled = ([(t.sum, t.count, t.correct) for t in each.values()] for each in terms)
    torch.testing.assert_close(compiled, plain)
    sums = (torch.stack([term.sum for term in each.values()]).sum() for each in terms)
    ours, theirs = (torch.autograd.grad(total, leaves) for total in sums)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def operands(dtype):
    generator = torch.Generator().manual_seed(2)
    shapes = ((37, 24), (501, 24), (501,))
    leaves = [torch.randn(s, generator=generator).to(dtype).requires_grad_() for s in shapes]
    targets = torch.randint(0, 501, (37,), generator=generator)
    return leaves, targets, torch.rand(37, generator=generator)


@pytest.mark.parametrize(("chunk", "multiple"), [(1, 1), (5 * 501, 1), (2**19, 1), (2**11, 128)])
def test_vocabulary_loss_is_the_plain_formula(monkeypatch, chunk, multiple):
    monkeypatch.setattr(cross_entropy, "CPU_CHUNK", chunk)
    monkeypatch.setattr(cross_entropy, "CPU_MULTIPLE", multiple)
    (x, table, bias), targets, scale = operands(torch.float32)
    logits = x @ table.t() + bias
    plain = F.cross_entropy(logits, targets, reduction="none")
    wanted = torch.autograd.grad((plain * scale).sum(), (x, table, bias))
    value, hits, _ = cross_entropy.vocabulary_loss(x, table, bias, targets)
    torch.testing.assert_close(value, plain)
    assert torch.equal(hits, logits.argmax(1) == targets)
    given = torch.autograd.grad((value * scale).sum(), (x, table, bias))
    for a, b in zip(given, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        value, *_ = cross_entropy.vocabulary_loss(x, table, bias, targets)
        torch.testing.assert_close(value, plain)


def test_in_half_precision_only_the_products_are_rounded():
    leaves, targets, scale = operands(torch.bfloat16)
    x, table, bias = leaves
    exact = [leaf.detach().float().requires_grad_() for leaf in leaves]
    plain = F.cross_entropy(exact[0] @ exact[1].t() + exact[2], targets, reduction="none")
    value, _, _ = cross_entropy.vocabulary_loss(x, table, bias, targets)
    assert value.dtype == torch.float32
    # A logit of size 16 is off by 2^-5 at most.
    torch.testing.assert_close(value, plain, atol=0.1, rtol=0.01)
    given = torch.autograd.grad((value * scale).sum(), leaves)
    wanted = torch.autograd.grad((plain * scale).sum(), exact)
    for a, b in zip(given, wanted, strict=True):
        assert a.dtype == torch.bfloat16
        assert (a.float() - b).norm() < 0.02 * b.norm()


BASE = "objective=clm layers=1 hidden=16 heads=2 segments=0 vocab=words(90) seq=8 "
KINDS = [f"table=adaptive({how})" for how in ("[20, 50], div=1", "[20, 50]", "[10, 30, 60], div=2")]


def plain(model, hidden_nh):
    """log p of every token (n, v), by the definition, cluster after cluster."""
    encoder, weights = model.resolved.encoder, dict(model.named_parameters())
    table = encoder.table
    clusters, token = table.clusters(90, 16), "encoder.embeddings.token"

    def scores(number, low, high):
        if table.div == 1:
            return hidden_nh @ weights[f"{token}.weight"][low:high].T
        own = "heads.clm.project" if number == 0 else f"{token}.{number}.project"
        return hidden_nh @ weights[f"{own}.weight"] @ weights[f"{token}.{number}.weight"].T

    bias = weights["heads.clm.bias"]
    first = hidden_nh @ weights["heads.clm.project.weight"] if table.div > 1 else hidden_nh
    choice = first @ weights["heads.clm.cluster.weight"].T + weights["heads.clm.cluster.bias"]
    own = [scores(n, low, high) + bias[low:high] for n, (low, high, _) in enumerate(clusters)]
    head = torch.cat([own[0], choice], dim=1).log_softmax(1)
    size = own[0].shape[1]
    rest = [x.log_softmax(1) + head[:, size + n, None] for n, x in enumerate(own[1:])]
    return torch.cat([head[:, :size], *rest], dim=1)


@pytest.mark.parametrize("most", [90, 10])  # all tokens, or of one cluster alone
@pytest.mark.parametrize("extra", KINDS)
def test_the_loss_and_its_gradients_are_those_of_a_plain_softmax(extra, most):
    model = material.drawn(resolve(BASE + extra), 0.3)
    hidden_nh = torch.randn(200, 16, requires_grad=True)
    targets_n = torch.arange(200) % most
    scorer = Scorer(model.heads["clm"], model.encoder, hidden_nh.dtype)
    losses_n, hits_n = adaptive_loss(scorer, hidden_nh, targets_n)
    logs_nv = plain(model, hidden_nh)
    expected_n = -logs_nv.gather(1, targets_n[:, None])[:, 0]
    torch.testing.assert_close(logs_nv.exp().sum(1), torch.ones(200))
    torch.testing.assert_close(losses_n, expected_n)
    torch.testing.assert_close(adaptive_logits(scorer, hidden_nh), logs_nv)
    wanted = [hidden_nh, *(w for n, w in model.named_parameters() if "heads" in n or "token" in n)]
    made, right = (
        torch.autograd.grad(loss_n.sum(), wanted, allow_unused=True, retain_graph=True)
        for loss_n in (losses_n, expected_n)
    )
    for one, other in zip(made, right, strict=True):
        if one is not None or most == 90:
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    size = model.resolved.encoder.table.cutoffs[0]
    frequent_n = targets_n < size
    expected_n = logs_nv[:, :size].argmax(1) == targets_n
    assert torch.equal(hits_n[frequent_n], expected_n[frequent_n])


@pytest.mark.parametrize("extra", KINDS)
def test_vectors_are_scaled_and_mapped_by_cluster(extra):
    model = material.drawn(resolve(BASE + extra), 0.3)
    encoder, weights = model.resolved.encoder, dict(model.named_parameters())
    found = model.encoder.embeddings.token(torch.arange(90)[None])[0]
    for number, (low, high, width) in enumerate(encoder.table.clusters(90, 16)):
        name = "encoder.embeddings.token"
        if encoder.table.div == 1:
            expected = weights[f"{name}.weight"][low:high]
        else:
            assert weights[f"{name}.{number}.weight"].shape == (high - low, width)
            project = weights[f"{name}.{number}.project.weight"]
            expected = weights[f"{name}.{number}.weight"] @ project.T
        torch.testing.assert_close(found[low:high], expected)
