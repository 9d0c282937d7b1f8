"""FLOPs and parameters against published figures, the weight table, and each other."""

import json
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import FlopCounterMode

from bertc.api import points, resolve
from bertc.base.diagnostics import UsageError
from bertc.cost import convention_named, estimate, flops
from bertc.ir.network.head import POOLINGS
from bertc.ir.program.resolved import model_weights, trained_names
from bertc.learn.objectives import MicroBatch, TaskTargets, corrupt
from bertc.learn.optim.optimizers import make_rule, zero_moments
from bertc.learn.step.feed import to_inputs
from bertc.learn.step.objective import make_objective
from bertc.model import EncoderInputs, build
from bertc.model.model import Frozen
from bertc.run.beginning.synthetic import RandomText, uniform_vocab
from bertc.run.beginning.teachers import frozen_networks
from tests.kinds import FORMAT_KINDS, OBJECTIVES, TEACHER, TEXT_KINDS, UNIT_KINDS
from tests.specs.test_flop_counter import BATCH, counted, micro_batch

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())


@pytest.mark.parametrize("line", GOLDEN["electra, train_total"])
def test_electra_s_counter(line):
    name, *settings = line.split()
    found = estimate(resolve(name, settings), convention="electra").flops.train_total
    assert found == pytest.approx(GOLDEN["electra, train_total"][line], rel=1e-9)


@pytest.mark.parametrize("seq", GOLDEN["electra, one example classified"])
def test_electra_s_counter_on_one_example(seq):
    encoder = resolve("bert-base").encoder
    found = flops.body_flops(encoder, int(seq)) + flops.binary_head_flops(encoder, int(seq))
    assert found == GOLDEN["electra, one example classified"][seq]


@pytest.mark.parametrize("name", GOLDEN["torch, all positions predicted, 128 tokens, forward"])
def test_products_of_one_example_with_every_position_predicted(name):
    resolved = resolve(name, ["objective=mlm(p=100%)", "seq=128"])
    expected = GOLDEN["torch, all positions predicted, 128 tokens, forward"][name]
    assert estimate(resolved).flops.forward_per_example == expected
    assert estimate(resolved).flops.train_per_example == 3 * expected


LINE = "layers=2 hidden=32 heads=2 vocab=100 seq=16"


def test_conventions_and_poolers_that_nothing_reads():
    with_pooler, without = (estimate(resolve(f"{LINE} pooler={p}")) for p in ("true", "false"))
    assert with_pooler.parameters.pooler
    assert with_pooler.flops == without.flops
    found = estimate(resolve("albert-base", ["steps=1", "batch=1"]), convention="6n")
    weights = found.parameters.applied - found.parameters.embeddings
    assert found.flops.train_total == 6 * 512 * weights
    resolved = resolve("bert-tiny")
    times = {estimate(resolved, convention=convention_named(c)).time for c in ("exact", "6n")}
    assert len(times) == 1
    pytest.raises(UsageError, convention_named, "8n").match("unknown convention 8n")


@pytest.mark.parametrize(("settings", "head", "read"), [
    *((f"pooler={str(p).lower()}", "", n) for p in (False, *POOLINGS) for n in (1, 16)),
    ("freeze=all features=concat(last=2)", "", 1),
    ("freeze=all features=weighted-sum(all)", ", head=bilstm(8, 2)", 16),
    ("freeze=all", "", 1),
    ("freeze=2 share=all pooler=false", "", 1),
    ("freeze=all features=second-to-last norm=pre", "", 16),
    ("features=sum(2)", ", head=bilstm(8)", 1),
    ("adapt=lora(4)", "", 1),
    ("adapt=lora(4, on=ffn) norm=pre share=all pooler=false", "", 16),
])  # fmt: skip
def test_torch_counts_the_same_of_heads_of_tasks(settings, head, read):
    kind = "classify" if read == 1 else "tag"
    task = f'{kind}("-", labels=[x, y], examples=9, dropout=0{head})'
    resolved = resolve(f"{LINE} batch=2 dropout=0 {settings} task={task}")
    (stage,) = resolved.stages
    (node,), learned = stage.tasks, trained_names(stage)
    with torch.device("meta"):
        ids_bs, at_bk = (torch.zeros(2, n, dtype=torch.long) for n in (16, read))
        answers = TaskTargets(at_bk, at_bk.float(), at_bk.float(), ids_bs[:, :0].bool(), ids_bs)
        few = None if node.reads_all else at_bk
        reading = EncoderInputs(ids_bs, attention_mask=ids_bs.bool(), output_positions=few)
        model = build(resolved, device="meta")
        for name, weight in model.named_parameters():
            weight.requires_grad_(name in learned)
        objective = make_objective(model, stage, False)
        forward, trained = counted(objective, MicroBatch(reading, ids_bs, {node.title: answers}))
    assert {name for name, weight in model.named_parameters() if weight.grad is not None} == learned
    found = estimate(resolved)
    assert found.parameters.total == sum(weight.numel() for weight in model.parameters())
    assert 2 * found.flops.forward_per_example == forward
    assert 2 * found.flops.train_per_example == trained


@pytest.mark.parametrize(("pooling", "extra"), [
    ("cls", "both=true, mlp=true"), ("mean", "negative=c"), ("max", "score=s"),
    ("last", "both=true, dense=[8, 4]"),
    ("tokens(8, query=9)", "negative=c"),
    ("tokens(8, query=16)", "negative=c, score=s, loss=margin"),
    ("sparse", "negative=c"), ("sparse", "score=s"),
])  # fmt: skip
def test_torch_counts_the_same_of_texts_that_are_compared(pooling, extra):
    task = f'embed("-", positive=b, {extra}, pooling={pooling}, examples=9)'
    resolved = resolve(f"{LINE} batch=4 dropout=0 task={task}")
    (stage,) = resolved.stages
    rows = stage.batch * stage.rows_an_example
    with torch.device("meta"):
        ids_bs, first_b1 = (torch.zeros(rows, n, dtype=torch.long) for n in (16, 1))
        targets = TaskTargets(first_b1, first_b1.float(), first_b1.float(), ids_bs.bool(), ids_bs)
        at_bk = first_b1 if pooling == "cls" else None
        reading = EncoderInputs(ids_bs, attention_mask=ids_bs.bool(), output_positions=at_bk)
        objective = make_objective(build(resolved, device="meta"), stage, False)
        forward, trained = counted(objective, MicroBatch(reading, ids_bs, {"embed": targets}))
    found = estimate(resolved).flops
    assert found.forward_per_example * stage.batch == pytest.approx(forward, rel=1e-3)
    assert found.train_per_example * stage.batch == pytest.approx(trained, rel=1e-3)


@pytest.mark.parametrize(
    "extra", ["", "(ns_steps=3)", " share=all E=16", " generator=0.5 objective=rtd*50+mlm"]
)
def test_products_of_an_update_are_those_that_torch_counts(extra):
    resolved = resolve(f"layers=3 hidden=32 heads=2 vocab=100 seq=16 optimizer=muon{extra}")
    stage, model = resolved.stages[0], build(resolved)
    weights, names = dict(model.named_parameters()), trained_names(stage)
    for name, weight in weights.items():
        weight.grad = torch.ones_like(weight) if name in names else None
    table = model_weights(resolved)
    moments = zero_moments(stage.optimizer, table, weights)
    rule = make_rule(stage.optimizer, table, weights, moments, 0)
    with FlopCounterMode(display=False) as counter:
        rule.update(1e-3)
    found, update = estimate(resolved), counter.get_total_flops()
    assert found.flops.update_per_step == update
    assert found.flops.train_per_step == 256 * found.flops.train_per_example + update
    assert found.memory.optimizer_bytes == sum(moment.nbytes for moment in moments.values())


def corrupted(stage):
    """A batch of random tokens of a vocabulary of 500."""
    cpu = torch.device("cpu")
    inputs = to_inputs(RandomText(stage, 500).train(0), cpu)
    return corrupt(stage, inputs, uniform_vocab(500, cpu), 1)


OF_LAYERS = {
    "projections": f"objective=kd(relations, heads=4) {TEACHER}",
    "a lower one": f"objective=kd(relations, heads=4, layers=3)+kd(embeddings) norm=pre {TEACHER}",
    "embeddings": f"objective=kd(embeddings) {TEACHER}",
    "states": f"objective=kd(hidden, layers=last) norm=pre {TEACHER}",
}
"""Terms that read no last states, alone."""
TAUGHT = {name: each for name, each in OBJECTIVES.items() if name.startswith("kd")} | OF_LAYERS


@pytest.mark.parametrize("name", TAUGHT)
def test_torch_counts_the_same_of_a_step_with_a_teacher(name):
    line = "layers=2 hidden=32 heads=2 vocab=500 seq=64 batch=4 steps=10 dropout=0"
    resolved = resolve(f"{line} {TAUGHT[name]}")
    (stage,), (teacher, _) = resolved.stages, resolved.stages[0].networks()
    batch = tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), corrupted(stage))
    with torch.device("meta"):
        model, frozen = build(resolved, device="meta"), Frozen(teacher)
        objective = make_objective(model, stage, False, (frozen,))
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            objective(batch, torch.ones(len(stage.objective)))
        _, trained = counted(objective, batch, len(stage.objective))
    # The gradient of a bias is run as a product with one column, which is none of the model's.
    masked = any(term.name == "mlm" for term in stage.objective)
    bias = 2 * masked * stage.batch * stage.encoder.token_head.scores(stage.predictions())
    found, forward = estimate(resolved).flops, counter.get_total_flops()
    assert found.forward_per_example * stage.batch == pytest.approx(forward, rel=1e-3)
    assert found.train_per_example * stage.batch == pytest.approx(trained - bias, rel=1e-3)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", [*OF_LAYERS, "shared"])
def test_weights_of_uncomputed_layers_have_no_gradient(name, recompute):
    line = "layers=3 hidden=32 heads=2 vocab=500 seq=64 batch=2 steps=10"
    own = OF_LAYERS.get(name, f"objective=kd(relations, heads=4) share=attention {TEACHER}")
    resolved = resolve(f"{line} {own}")
    (stage,) = resolved.stages
    model = build(resolved)
    for network in model.networks():
        network.recompute = recompute
    frozen, factors = frozen_networks(stage, model), torch.ones(len(stage.objective))
    loss, *_ = make_objective(model, stage, False, frozen)(corrupted(stage), factors)
    loss.backward()  # type: ignore[no-untyped-call]
    moved = {name for name, weight in model.named_parameters() if weight.grad is not None}
    assert moved == trained_names(stage)
    assert name == "states" or len(moved) < len(list(model.parameters()))


@pytest.mark.parametrize(
    "extra",
    [
        "freeze=embeddings norm=pre(first=false) activation=geglu", "freeze=2 norm=pre E=16",
        "freeze=1 share=attention", "freeze=1 share=all",
        "freeze=2 attention=full(gate=gelu, norm=rms)",
        "freeze=2 attention=relative", "freeze=2 attention=disentangled(8,16)",
        "freeze=1 attention=relative(untie=true,segments=true) share=attention",
        "freeze=1 attention=disentangled(8,16) share=attention",
        "freeze=2 positions=bucketed(64)", "freeze=2 head=transform(decoder=32)",
        "freeze=2 head=transform(decoder=32) norm=pre attention=disentangled(8,16)",
        "adapt=lora(4, on=attention+ffn) activation=geglu norm=pre",
        "adapt=lora(4, on=[query, outer]) attention=full(kv_heads=1) E=16",
        "adapt=lora(4, on=attention) attention=full(kv_heads=1, norm=layer, over=width)",
        "adapt=lora(4, on=output) share=attention positions=bucketed(64)",
        "adapt=lora(4) attention=relative(untie=true,segments=true)",
        "adapt=lora(4, on=attention) attention=disentangled(8,16) head=transform(decoder=32)",
        "adapt=lora(4, on=ffn) attention=disentangled(8,16)",
        "adapt=lora(4) head=linear(tied=false)", "freeze=1 head=linear(tied=false)",
        "freeze=1 head=transform(tied=false) residual=plain(30) table=whole(dropped=5)",
    ],
)  # fmt: skip
def test_torch_counts_the_same_where_layers_are_frozen(extra):
    resolved = resolve(f"layers=3 hidden=32 heads=2 vocab=100 seq=32 batch=2 dropout=0 {extra}")
    (stage,) = resolved.stages
    learned = trained_names(stage)
    # What frozen layers use stays as it is, though other layers use it too.
    assert not any(name.startswith("encoder.relative") for name in learned)
    with torch.device("meta"):
        model = build(resolved, device="meta")
        for name, weight in model.named_parameters():
            weight.requires_grad_(name in learned)
        _, trained = counted(make_objective(model, stage, False), micro_batch(stage))
    bias = 2 * stage.encoder.token_head.scores(stage.predictions())
    found = estimate(resolved).flops
    assert found.train_per_example == pytest.approx(trained / BATCH - bias, rel=1e-3)
    assert found.train_per_example < 3 * found.forward_per_example


SHARED = [
    "share=all E=16", "share=attention norm=pre", "share=ffn segments=0",
    "share=groups(2) E=48 pooler=true", "share=map([0, 0, 2, 2], [0, 1, 1, 3])",
]  # fmt: skip


def applied_weights(encoder):
    """A shared tensor once for every layer that applies it."""
    yield from encoder.embedding_weights()
    yield from encoder.common_weights()
    for attention, ffn in zip(encoder.attention_owner, encoder.ffn_owner, strict=True):
        yield from encoder.part_weights("attention", attention)
        yield from encoder.part_weights("ffn", ffn)
    yield from (w for w in encoder.weights() if w.name.startswith(("norm.", "pooler.")))


@pytest.mark.parametrize("extra", SHARED)
def test_what_layers_share_is_applied_by_each(extra):
    resolved = resolve(f"layers=4 hidden=32 vocab=100 seq=16 {extra}")
    found = estimate(resolved).parameters
    assert found.applied == sum(w.numel for w in applied_weights(resolved.encoder)) + found.heads


def test_a_stage_counts_what_it_trains():
    size = "layers=2 hidden=32 vocab=100 seq=16 generator=1 objective=mlm"
    stages = 'stage "tell" { objective=mlm } stage "find" { objective=rtd }'
    found = estimate(resolve(f"{size} {stages}"))
    tell, find = (stage.parameters for stage in found.stages)
    assert (tell.encoder, find.generator) == (0, 0)
    assert tell.total == find.encoder + tell.heads
    first, second = (stage.flops for stage in found.stages)
    alone = first.forward_per_example
    assert first.train_per_example == 3 * alone
    # The generator works in the second stage too, and learns nothing there.
    assert second.train_per_example == 3 * second.forward_per_example - 2 * alone


@pytest.mark.parametrize("line", GOLDEN["parameters"])
def test_published_systems(line):
    name, *settings = line.split()
    found = estimate(resolve(name, settings)).parameters
    for part, expected in GOLDEN["parameters"][line].items():
        assert getattr(found, part) == expected


def test_every_cell_of_the_sharing_grid_and_number_of_groups():
    found = {
        (str(p.encoder.embedding), p.encoder.attention_owner[-1], p.encoder.ffn_owner[-1]): p
        for p in points("albert-sharing-grid")
    }
    assert len(found) == 16
    owners = {"all": (0, 0), "attention": (0, 11), "ffn": (11, 0), "none": (11, 11)}
    for embedding, row in GOLDEN["sharing grid, encoder"].items():
        for shared, expected in row.items():
            point = found[embedding, *owners[shared]]
            assert estimate(point).parameters.encoder == expected
    found = [estimate(point).parameters.encoder for point in points("albert-groups-grid")]
    assert found == list(GOLDEN["groups, encoder"].values())


def test_the_walk_meets_every_objective_unit_of_masking_and_format():
    toy = "layers=2 hidden=32 heads=2 vocab=500 seq=64 batch=4 steps=10"
    stages = [resolve(f"{toy} {objective}").stages[0] for objective in OBJECTIVES.values()]
    masks = [term.objective.masks for stage in stages for term in stage.objective]
    assert {each.unit.kind for each in masks if each} == UNIT_KINDS
    assert {term.objective.kind for stage in stages for term in stage.objective} == TEXT_KINDS
    assert {stage.format.kind for stage in stages} == FORMAT_KINDS
