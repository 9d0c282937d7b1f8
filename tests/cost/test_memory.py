"""Memory: what it adds up to, what makes it grow, and what autograd really keeps.
Each operation's rule beside real tensors, and the walk over every kind of part.
"""

import itertools
import json
from collections.abc import Callable

import pytest
import torch

from bertc.api import resolve
from bertc.cost import device_named, estimate, largest_microbatches
from bertc.cost.figures import DeviceBudget, Execution
from bertc.cost.machines.device import Point, calibration_here, calibration_path, rate_at
from bertc.cost.memory import CHUNK, fit_of, stage_memory, whole_step
from bertc.cost.parameters import count
from bertc.cost.planning.plan import Machine
from bertc.cost.rules import cost, flash_bytes
from bertc.ir import operation as op
from bertc.ir.program.resolved import trained_names
from bertc.learn.objectives import Losses
from bertc.learn.objectives.softmax.cross_entropy import GPU_CHUNK
from bertc.learn.step.memory import beginning
from bertc.model import EncoderInputs, build
from bertc.model.attention.attend import attend
from bertc.model.attention.masks import kernel_mask
from bertc.model.body import Outputs
from bertc.run.calibrate import Sizes, measure_rates
from tests.bench.estimates import allocated_bytes
from tests.kinds import OBJECTIVES, PAIRS
from tests.specs.test_flop_counter import micro_batch

GIB = 2**30


def test_the_peak_holds_what_is_there_with_as_many_examples_as_fit():
    found = estimate(resolve("bert-base"))
    for memory in (found.memory, *(stage.memory for stage in found.stages)):
        states = memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes
        assert states < memory.peak_bytes
    assert found.memory.weights_bytes == 4 * found.parameters.total
    assert found.memory.optimizer_bytes == 8 * found.parameters.total
    assert found.memory.peak_bytes == max(stage.memory.peak_bytes for stage in found.stages)
    assert estimate(resolve("extends bert-base microbatch=8")).memory.microbatch == 8
    big = estimate(resolve("extends bert-large seq=512 batch=4096 steps=10k"), "l4").memory
    assert 0 < big.microbatch <= big.largest_microbatch < 4096
    assert 4096 % big.microbatch == 0
    assert big.peak_bytes <= 22 * GIB
    huge = estimate(resolve("layers=96 hidden=8192 seq=512 steps=10k"), "t4").memory
    assert (huge.largest_microbatch, huge.microbatch) == (0, 1)
    assert huge.peak_bytes > 14 * GIB


def test_layers_are_recomputed_where_memory_is_short_which_takes_longer():
    resolved = resolve("bert-base")
    machine = Machine("cuda", "a card", 12 * GIB, fast_bf16=True, cores=8)
    short, long = largest_microbatches(resolved, machine)
    assert short.examples > long.examples > 0
    slow = Machine("cuda", "a card", 12 * GIB, fast_bf16=False, cores=8)
    assert largest_microbatches(resolved, slow)[1].kept < long.kept
    spec = "layers=48 hidden=1024 seq=512 batch=64 steps=10k"
    roomy, tight = estimate(resolve(spec), "h100").memory, estimate(resolve(spec), "t4").memory
    assert not roomy.recompute
    assert tight.recompute
    refused = estimate(resolve(f"{spec} recompute=off"), "t4").memory
    assert refused.largest_microbatch < tight.largest_microbatch
    kept, again = (memory.activations_bytes / memory.microbatch for memory in (refused, tight))
    assert kept > 4 * again
    spec = "extends bert-large microbatch=8"
    plain, twice = (estimate(resolve(f"{spec} recompute={r}")) for r in ("off", "on"))
    assert plain.flops == twice.flops
    assert 1.2 < twice.time.seconds_total / plain.time.seconds_total < 4 / 3
    assert twice.time.assumed_mfu < plain.time.assumed_mfu
    assert twice.memory.peak_bytes < plain.memory.peak_bytes


LEDGER = [
    "", "precision=bf16 dropout=0 optimizer=lamb", "microbatch=4 share=all E=32",
    "batch=1 ffn=1024 optimizer=muon", "recompute=on", "generator=0.5 objective=rtd*50+mlm",
    "batch=8 precision=bf16 objective=span+sbo format=single-segment",
    "microbatch=4 precision=bf16 generator=1 E=32 objective=rtd(over=masked)+mlm",
    "objective=plm attention=relative(untie=true)",
    "objective=plm attention=relative(untie=true, segments=true) "
    "segments=0 format=stream-pair(both_ways=true) memory=48",
    "objective=clm attention=relative memory=48", "residual=dwa norm=pre recompute=on",
    "attention=full(norm=layer, over=width) residual=plain(30) norm=pre table=whole(dropped=5)",
    f"precision=bf16 vocab=20k objective=tlm {PAIRS}",
    "precision=bf16 vocab=20k objective=plm",
    "vocab=20k objective=clm table=adaptive(cutoffs=[2k, 6k])",
    "precision=bf16 vocab=20k objective=clm table=adaptive(cutoffs=[2k, 6k], div=1)",
    "vocab=20k objective=15*mntp+clm", "microbatch=4 vocab=20k generator=unigram objective=rtd",
    "microbatch=8 precision=bf16 vocab=20k objective=mntp+15*clm",
    "microbatch=4 precision=bf16 task=embed('-', positive=b, pooling=tokens, examples=16)",
    "microbatch=4 precision=bf16 task=embed('-', positive=b, pooling=sparse, examples=16)",
    "task=embed('-', positive=b, negative=c, pooling=sparse, examples=16)",
    "microbatch=4 task=embed('-', positive=b, dense=[96, 32], pooling=last, examples=16) "
    "causal=true norm=pre(function=rms, after_attention=true, after_ffn=true) positions=rotary",
    # What the frozen layers need forward, and a device without bf16 beside each product.
    "batch=64 precision=bf16 freeze=3 objective=mlm(1%)", "dropout=0 adapt=lora(4)",
    "microbatch=4 precision=bf16 adapt=lora(8, on=attention+ffn) optimizer=lamb",
]  # fmt: skip
LSTM = [
    "body=bilstm(64) embedding=64", "body=bilstm(64, layers=2) embedding=64 dropout=0",
    "body=bilstm(150) embedding=300", "body=bilstm(64) embedding=64 precision=bf16",
    "body=bilstm(64) embedding=64 objective=mlm+nsp",
]  # fmt: skip
TEACHER = "teacher=spec('layers=6 hidden=128 heads=4 vocab=2k seq=64')"
TAUGHT = [
    f"objective=mlm+kd(logits,T=2) {TEACHER}",
    f"microbatch=4 precision=bf16 objective=kd(logits,loss=mse)+mlm {TEACHER}",
    f"objective=kd(hidden)+kd(attention) {TEACHER}",
    f"precision=bf16 objective=mlm+kd(relations,heads=16) {TEACHER}",
]


@pytest.mark.parametrize("extra", LEDGER + LSTM + TAUGHT)
def test_the_peak_is_what_the_allocator_gave_out(extra):
    size = "" if extra in LSTM else "layers=3 hidden=64 heads=4"
    usual = "batch=16 precision=fp32 seq=64 vocab=2k steps=100 compile=off device=cpu"
    asked = resolve(f"{usual} {size}", [extra]).stages[0]
    resolved = resolve(f"{usual} {size}", [extra, f"microbatch={asked.microbatch or asked.batch}"])
    peak, near = estimate(resolved, "cpu").memory.peak_bytes, 0.05 if extra in TAUGHT else 0.1
    steps = 1 + (extra in LSTM or "memory" in extra)  # the second of others takes as much
    assert peak == pytest.approx(allocated_bytes(resolved, steps), rel=near)


KEPT = {
    "0": [
        "", "norm=pre", "share=all E=16", "activation=relu segments=0", "ffn=[64, 512, 128]",
        "activation=geglu(bias=false) norm=pre(bias=false, embeddings=true, first=false)",
        "residual=elc norm=pre", "residual=dwa",
        "objective=mlm+sop",
        "objective=span+sbo format=single-segment", "attention=relative objective=mlm(p=100%)",
        "attention=disentangled(16, 32)",
        "attention=disentangled(16, 32, gate=gelu) head=transform(affine=false, dropout=0.1) "
        "activation=geglu-tanh norm=pre(affine=false, context=true, inner=true)",
        "positions=bucketed(64)", "norm=pre adapt=lora(8)",
        "attention=disentangled(16, 32) adapt=lora(8, on=attention)",
        "attention=relative objective=mlm(p=100%) adapt=lora(8, on=attention)", "objective=plm",
        "objective=plm attention=relative(untie=true, segments=true) head=linear",
    ],
    "0.1": [
        "", "activation=swiglu norm=pre(function=rms) head=linear(tied=false)",
        "residual=dwa norm=pre", "attention=disentangled(16, 32)",
        "attention=full(gate=sigmoid, norm=rms, kv_heads=2) "
        "norm=pre(inner=true, after_attention=true, after_ffn=true)",
        "attention=local(8, norm=layer, over=width) residual=plain(30) table=whole(dropped=5)",
        "positions=bucketed(64)", "activation=swiglu adapt=lora(8, on=ffn, dropout=0.1)",
        "objective=plm+sop norm=pre E=16",
        "objective=plm attention=relative segments=0 format=stream-pair(both_ways=true)",
        "objective=plm attention=relative(segments=true) segments=0 memory=48 "
        "format=stream-pair(both_ways=true)",
    ],
    "dropout(0.1, 0)": [""],
    "dropout(0, 0, 0.1)": [""],
}  # fmt: skip


Note = Callable[[torch.Tensor], torch.Tensor]


def saved_bytes(function):
    """Bytes of all distinct tensors that autograd saves, or that the function notes."""
    found: dict[int, torch.UntypedStorage] = {}

    def note(tensor):
        storage = tensor.untyped_storage()
        found[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        function(note)
    return sum(storage.nbytes() for storage in found.values())


def bytes_saved(model, stage, count):
    """Bytes of all distinct tensors that autograd saves in a forward pass, and of its states."""
    batch = micro_batch(stage, count)
    reading = batch.reading._replace(
        segment_ids=torch.zeros_like(batch.reading.token_ids), attention_mask=None,
        memory=beginning(model, stage, count, torch.device("cpu")),
    )  # fmt: skip

    def forward(note):
        hidden = note(model.read(reading))
        Losses(model, stage, stage.networks()[-1])(batch._replace(reading=reading), Outputs(hidden))

    return saved_bytes(forward)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("dropout", "extra"), [(rate, e) for rate in KEPT for e in KEPT[rate]])
def test_what_autograd_keeps_of_an_example(dropout, extra, dtype):
    toy = "layers=3 hidden=64 heads=4 vocab=500 seq=64"
    resolved = resolve(f"{toy} dropout={dropout} {extra}")
    stage = resolved.stages[0]
    precision = "fp32" if dtype == torch.float32 else "bf16"
    budget = DeviceBudget(2**40, Execution("cpu", precision, False), "off")
    step = whole_step(stage, count(stage, resolved.terms()), budget)
    ids = 2 * 8 * stage.seq  # of tokens and segments, which belong to the batch
    model, learned = build(resolved), trained_names(stage)
    model.compute_dtype = dtype
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in learned)
    saved = (bytes_saved(model, stage, 4) - bytes_saved(model, stage, 2)) / 2
    assert step.kept + ids == pytest.approx(saved, rel=0.02)


ON_A_GPU = Execution("cuda", "bf16", compiled=True)
BASE = "layers=12 hidden=768 heads=12 vocab=30522 seq=512 batch=128 microbatch=128"


def as_base(settings=""):
    """BERT-base, but for these settings."""
    given = dict(setting.split("=", 1) for setting in f"{BASE} {settings}".split())
    return resolve(" ".join(f"{name}={value}" for name, value in given.items()))


def on_a_gpu(settings, *, strategy="single", compiled=True):
    """The peak on a GPU, in bf16."""
    resolved = as_base(settings)
    budget = DeviceBudget(2**40, Execution("cuda", "bf16", compiled), "off", strategy)
    stage = resolved.stages[0]
    return stage_memory(stage, count(stage, resolved.terms()), budget).peak_bytes


def test_backward_of_flash_attention_adds_up_in_fp32_for_each_sequence():
    # 4 bytes for each of 12 x 64 numbers and 12 sums of all 65,536 tokens.
    assert flash_bytes(512, 12, 64, 0) * 128 == 4 * 65_536 * 12 * (64 + 1)
    assert flash_bytes(500, 12, 64, 0) == flash_bytes(512, 12, 64, 0)
    # End to end every place counts, even an empty one, as 128 tokens more.
    assert flash_bytes(512, 12, 64, 65) * 128 == 4 * (65_536 + 128 * 128 * 65) * 12 * 65
    packed = as_base("pack=true dropout=0").stages[0]
    working = [
        one.layers[0][0].transient
        for stage in (packed, packed.model_copy(update={"pack": False}))
        for one in whole_step(
            stage, count(packed, packed.objective), DeviceBudget(2**40, ON_A_GPU, "off")
        ).passes
    ]
    assert 128 * (working[0] - working[1]) == 4 * 128 * 128 * (packed.texts + 1) * 12 * 65


def test_with_dropout_packed_rows_keep_their_mask_as_numbers_in_every_layer():
    masks = on_a_gpu("pack=true") - on_a_gpu("")
    assert 0.9 < masks / (12 * 128 * 512 * 512 * 2) < 1.2


def test_ddp_keeps_gradients_and_lamb_two_copies():
    small = "optimizer=lamb seq=128 microbatch=1"
    weights = count(as_base().stages[0], as_base().terms()).total
    assert on_a_gpu(small) == on_a_gpu(small, compiled=False)
    assert on_a_gpu(small) > weights * 4 * (4 + 2)
    more = on_a_gpu("", strategy="ddp") - on_a_gpu("")
    assert more == pytest.approx(4 * weights, rel=0.1)
    assert on_a_gpu("", strategy="fsdp") == on_a_gpu("")


def test_a_gpu_is_not_all_free():
    resolved = as_base("batch=10k microbatch=1")
    stage, parameters = resolved.stages[0], count(resolved.stages[0], resolved.terms())
    rooms = ((16, "fsdp", True), (17, "fsdp", True), (15, "single", True), (15.5, "single", False))
    budgets = (
        DeviceBudget(int(size * GIB), ON_A_GPU, "off", strategy, begun=begun)
        for size, strategy, begun in rooms
    )
    sharing, more, alone, whole = (
        fit_of(whole_step(stage, parameters, budget)).examples for budget in budgets
    )
    assert sharing == alone == whole < more


def test_an_eager_loss_turns_as_many_scores_at_once_as_the_estimate_says():
    assert CHUNK == {"cpu": 0, "cuda": GPU_CHUNK}
    eager, compiled = on_a_gpu("", compiled=False), on_a_gpu("")
    assert eager - compiled < 3 * 4 * GPU_CHUNK


EAGER = Execution("cpu", "fp32", compiled=False)


def test_windows_keep_what_autograd_keeps():
    """All other rules are held by what whole networks keep (test_memory.py)."""
    far = [torch.randn(2, 3, 384, 4, requires_grad=True) for _ in range(3)]
    blocks = kernel_mask(EncoderInputs(torch.zeros(2, 384, dtype=torch.long)), False, 8)
    for rate, result in ((0.0, 4 * far[0].numel()), (0.1, 0)):  # the next product's input
        attention = op.Attention(2, 384, 384, 3, 4, dropout=rate > 0, reach=8)
        saved = saved_bytes(lambda _, rate=rate: attend(*far, blocks, rate)) - result
        assert cost(attention, EAGER).kept == pytest.approx(saved, rel=0.05)
    found = cost(op.Product(6, 16, 8, constant=True, keeps_rows=False), EAGER)
    assert (found.train_flops, found.kept) == (2 * found.flops, 0)


@pytest.mark.parametrize("device", ["cpu", "h200"])
@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_every_kind_has_time_in_every_part(objective, device):
    toy = "layers=2 hidden=32 heads=2 vocab=500 seq=64 batch=4 steps=10"
    (stage,) = estimate(resolve(f"{toy} {objective}"), device).stages
    times = {part.part: part.seconds for part in stage.where}
    assert all(times[part] > 0 for part in ("embeddings", "attention", "ffn", "head", "optimiser"))


def test_rates_lie_between_those_measured_which_estimates_use(monkeypatch, tmp_path):
    points = (Point(at=(64,), rate=1e9), Point(at=(256,), rate=4e9))
    assert rate_at(points, 64) == pytest.approx(1e9, rel=0.01)
    assert rate_at(points, 128) == pytest.approx(2e9)
    assert 1e9 < rate_at(points, 100) < 2e9
    monkeypatch.setenv("BERTC_CACHE", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert device_named("cpu").time_within == 2
    ticks = itertools.count(0, 1)
    monkeypatch.setattr("time.process_time", lambda: next(ticks) * 1e-3)
    found = measure_rates((1,), Sizes(scale=32))
    path = calibration_path()
    path.parent.mkdir(parents=True)
    path.write_text(found.as_json())
    assert calibration_here() == found
    device = device_named("cpu")
    assert device.rates == found.threads[1]
    assert "measured here" in device.source
    assert estimate(resolve("bert-tiny"), device).time.within is None
    assert found.at(2).bandwidth_bytes == 2 * found.threads[1].bandwidth_bytes
    path.write_text(json.dumps({"schema": 1, "torch": "x", "threads": {"1": {}}}))
    assert calibration_here() is None
