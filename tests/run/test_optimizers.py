"""Updates and rates follow the published formulas."""

import math

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from bertc.cost.planning import schedules
from bertc.ir.base import ONES, ZEROS, Normal, Weight
from bertc.ir.learning.optimizer import Adam, Lamb, Muon, Polynomial, StableAdam, moments_of
from bertc.learn.optim import by_tensor
from bertc.learn.optim.by_tensor import orthogonal
from bertc.learn.optim.optimizers import clip, gradient_norm, guard, make_rule, zero_moments
from bertc.learn.step.engines import shard_like

TABLE = (
    Weight("dense.weight", (2, 2), ("hidden", "hidden"), Normal(), "ffn", "matrix"),
    Weight("dense.bias", (2,), ("hidden",), ZEROS, "ffn", "bias"),
    Weight("token.weight", (2, 2), ("vocab", "embedding"), Normal(), "embeddings", "table"),
    Weight("norm.weight", (2,), ("hidden",), ONES, "norm", "norm"),
)
START = {
    "dense.weight": [[1.0, -2.0], [0.5, 3.0]], "dense.bias": [0.25, -0.5],
    "token.weight": [[0.5, 1.0], [-1.5, 2.0]], "norm.weight": [1.0, 1.5],
}  # fmt: skip
RATES = (0.1, 0.05, 0.2)


def parameters():
    return {name: torch.nn.Parameter(torch.tensor(value)) for name, value in START.items()}


def gradients(step):
    return {
        name: (torch.tensor(value) * 0.3 + 0.1 * step - 0.2 * (step == 1))
        for name, value in START.items()
    }


def first_rule(optimizer, weights, table=TABLE):
    """The rule of these weights before any update."""
    own = tuple(weight for weight in table if weight.name in weights)
    return make_rule(optimizer, own, weights, zero_moments(optimizer, own, weights), 0)


def update(rule, weights, gradients, rate):
    """One update of a rule by gradients of some of its weights."""
    for name, gradient in gradients.items():
        weights[name].grad = gradient.clone()
    rule.update(rate)


def run(optimizer, steps=3, resume_at=None):
    weights = parameters()
    moments = zero_moments(optimizer, TABLE, weights)
    rule = make_rule(optimizer, TABLE, weights, moments, 0)
    for step in range(steps):
        if step == resume_at:
            moments = {name: tensor.clone() for name, tensor in moments.items()}
            rule = make_rule(optimizer, TABLE, weights, moments, step)
        update(rule, weights, gradients(step), RATES[step])
    return weights, moments


def by_hand(optimizer, name, role):
    """The published formula in plain Python floats, one tensor at a time."""
    weight = torch.tensor(START[name]).double().flatten().tolist()
    first, second = [0.0] * len(weight), [0.0] * len(weight)
    roles = {"none": [], "norms-and-biases": ["norm", "bias"]}

    def exempt(how):
        return role in roles.get(how, ["norm", "bias", "table"])

    decay = 0.0 if exempt(optimizer.decay_exempt) else optimizer.decay
    decay /= optimizer.lr if getattr(optimizer, "decoupled", False) else 1
    beta1, beta2 = optimizer.betas
    for step, rate in enumerate(RATES):
        gradient = gradients(step)[name].double().flatten().tolist()
        update, surprises = [], []
        for i, g in enumerate(gradient):
            first[i] = beta1 * first[i] + (1 - beta1) * g
            second[i] = beta2 * second[i] + (1 - beta2) * g * g
            m, v = first[i], second[i]
            if optimizer.bias_correction:
                m, v = m / (1 - beta1 ** (step + 1)), v / (1 - beta2 ** (step + 1))
            surprises.append((g / max(math.sqrt(v), optimizer.eps)) ** 2)
            update.append(m / (math.sqrt(v) + optimizer.eps) + decay * weight[i])
        ratio = 1.0
        if isinstance(optimizer, StableAdam):
            ratio = 1 / max(1, math.sqrt(sum(surprises) / len(surprises)))
        elif isinstance(optimizer, Lamb) and not exempt(optimizer.adapt_exempt):
            ratio = math.hypot(*weight) / math.hypot(*update)
        weight = [w - rate * ratio * u for w, u in zip(weight, update, strict=True)]
    return weight


@pytest.mark.parametrize("bias_correction", [True, False])
@pytest.mark.parametrize("exempt", ["norms-and-biases", "norms-biases-and-tables", "none"])
@pytest.mark.parametrize("kind", [Adam, Lamb, StableAdam])
def test_three_updates_follow_the_formula(kind, exempt, bias_correction):
    options = {"decay": 0.1, "decay_exempt": exempt, "bias_correction": bias_correction}
    if kind is Lamb:
        options["adapt_exempt"] = exempt
    optimizer = kind(**options)
    weights, _ = run(optimizer)
    for weight in TABLE:
        expected = by_hand(optimizer, weight.name, weight.role)
        found = weights[weight.name].flatten().tolist()
        assert found == pytest.approx(expected, rel=3e-6, abs=3e-7)


@pytest.mark.parametrize(
    "optimizer",
    [StableAdam(lr=0.01, decay=0.01, decoupled=False), StableAdam(lr=0.01, decay=1e-4)],
    ids=["by the rate", "decoupled"],
)
def test_stable_adamw_is_that_of_optimi(optimizer):
    """Weights as torch-optimi 0.3.3 has them in fp64: at its second step the rate is divided."""
    start, steps = [1.0, -2.0, 3.0], [[0.1, 0.2, 0.3], [-0.1, 0.4, 0.0], [1.0, 1.0, 1.0]]
    expected = [
        [0.989900099999, -2.00979995, 2.989700033333],
        [0.990327420515, -2.019223088278, 2.982668097536],
        [0.986475840373, -2.024477069401, 2.977879888329],
    ]
    table = (Weight("w", (3,), ("hidden",), Normal(), "ffn", "matrix"),)
    weights = {"w": torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))}
    rule = first_rule(optimizer, weights, table)
    for gradient, after in zip(steps, expected, strict=True):
        update(rule, weights, {"w": torch.tensor(gradient, dtype=torch.float64)}, 0.01)
        assert weights["w"].tolist() == pytest.approx(after, abs=1e-11, rel=0)


def test_decoupled_decay_takes_its_share_at_the_peak_rate():
    """MosaicBERT: 1e-5 of each weight a step at any rate; less where the rate is lower."""
    weights = {"dense.weight": torch.nn.Parameter(torch.ones(2, 2))}
    rule = first_rule(Adam(lr=0.5, decay=0.1, decoupled=True), weights)
    for rate, left in ((0.5, 0.9), (0.25, 0.9 * 0.95)):
        update(rule, weights, {"dense.weight": torch.zeros(2, 2)}, rate)
        assert weights["dense.weight"].flatten().tolist() == pytest.approx([left] * 4)


def test_smaller_gradients_below_are_those_of_the_layers_times_a_factor():
    """XLNet, model_utils.py: the lowest of three layers has 0.5^2 of its gradient, others all."""
    names = ["encoder.embeddings.token.weight", "heads.t.weight"]
    names += [f"encoder.attention.{layer}.query.weight" for layer in range(3)]
    factors = dict(zip(names, (1.0, 1.0, 0.25, 0.5, 1.0), strict=True))
    table = tuple(Weight(n, (2,), ("hidden",), Normal(), "attention", "matrix") for n in names)

    def trained(optimizer, factors):
        weights = {name: torch.nn.Parameter(torch.ones(2)) for name in names}
        rule = first_rule(optimizer, weights, table)
        for step, rate in enumerate(RATES):
            own = {n: factors[n] * torch.tensor([3e-3, -1e-3 * step]) for n in names}
            update(rule, weights, own, rate)
        return {name: weight.detach() for name, weight in weights.items()}

    trained_alone = trained(Adam(eps=1e-3, gradient_decay=0.5), dict.fromkeys(names, 1.0))
    made = trained(Adam(eps=1e-3), factors)
    for name in names:
        torch.testing.assert_close(trained_alone[name], made[name])


def test_adam_with_bias_correction_is_torch_adamw_to_the_bit():
    weights, moments = run(Adam(decay=0.01, decay_exempt="none"))
    reference = parameters()
    optimizer = torch.optim.AdamW(reference.values(), eps=1e-6, weight_decay=0.01, fused=True)
    for step, rate in enumerate(RATES):
        for name, gradient in gradients(step).items():
            reference[name].grad = gradient.clone()
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
    for name, weight in reference.items():
        assert torch.equal(weights[name], weight)
        assert torch.equal(moments[f"v.{name}"], optimizer.state[weight]["exp_avg_sq"])


MATRICES = (
    Weight("wide.weight", (3, 7), ("ffn", "hidden"), Normal(), "ffn", "matrix"),
    Weight("tall.weight", (7, 3), ("hidden", "ffn"), Normal(), "ffn", "matrix"),
    Weight("alike.weight", (3, 7), ("ffn", "hidden"), Normal(), "ffn", "matrix"),
    Weight("head.weight", (4, 3), ("hidden", "hidden"), Normal(), "head", "matrix"),
    Weight("words.weight", (5, 3), ("vocab", "hidden"), Normal(), "embeddings", "table"),
    Weight("norm.weight", (3,), ("hidden",), ONES, "norm", "norm"),
)


def drawn(seed):
    draw = torch.Generator().manual_seed(seed)
    return {w.name: torch.randn(w.shape, generator=draw) for w in MATRICES}


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="newer than the oldest torch")
@pytest.mark.parametrize("settings", [{}, {"adjust": "original", "nesterov": False}])
def test_muon_is_that_of_torch_to_the_bit(settings):
    """Matrices by torch.optim.Muon, alike or not, all others by its AdamW at their own rate."""
    muon = Muon(lr=0.1, adamw_lr=0.05, decay=0.1, decay_exempt="none", momentum=0.9, **settings)
    own, theirs = ({n: torch.nn.Parameter(w) for n, w in drawn(0).items()} for _ in range(2))
    rule = first_rule(muon, own, MATRICES)
    matrices = ("wide.weight", "tall.weight", "alike.weight")
    orthogonal = torch.optim.Muon(
        [theirs[name] for name in matrices], momentum=0.9, weight_decay=0.1, nesterov=muon.nesterov,
        adjust_lr_fn=muon.adjust,
    )  # fmt: skip
    others = [weight for name, weight in theirs.items() if name not in matrices]
    adamw = torch.optim.AdamW(others, eps=1e-6, weight_decay=0.1, fused=True)
    for step, rate in enumerate(RATES, 1):
        for name, gradient in drawn(step).items():
            own[name].grad, theirs[name].grad = gradient, gradient.clone()
        rule.update(rate)
        orthogonal.param_groups[0]["lr"], adamw.param_groups[0]["lr"] = rate, rate / 2
        orthogonal.step()
        adamw.step()
        for name, weight in own.items():
            assert torch.equal(weight, theirs[name]), name


def test_muon_in_fp32_brings_singular_values_near_1():
    """As in bf16 to its rounding, and closer to one matrix at a time."""
    matrices = torch.randn(3, 24, 40, generator=torch.Generator().manual_seed(0))
    together = orthogonal(matrices, Muon())
    assert together.dtype == torch.float32
    for matrix, step in zip(matrices, together, strict=True):
        torch.testing.assert_close(step, orthogonal(matrix[None], Muon())[0])
        torch.testing.assert_close(step.T, orthogonal(matrix.T[None], Muon())[0])
        rounded = orthogonal(matrix.bfloat16()[None], Muon())[0]
        torch.testing.assert_close(step, rounded.float(), atol=0.05, rtol=0.05)
        values = torch.linalg.svdvals(step)
        assert values.min() > 0.5
        assert values.max() < 1.3


@pytest.mark.parametrize("iterations", [2, 3])
@pytest.mark.parametrize("shape", [(24, 96), (96, 24)])
def test_iterations_on_the_gram_matrix_alone_are_those_of_the_matrix(iterations, shape):
    rule, (linear, cubic, quintic) = Muon(ns_steps=iterations), by_tensor.QUINTIC
    assert rule.by_gram(24, 96)
    x = torch.randn(1, *shape, generator=torch.Generator().manual_seed(0))
    (found,), y = orthogonal(x.double(), rule), x[0].double() / x[0].double().norm()
    for _ in range(iterations):
        gram = y @ y.T
        y = linear * y + cubic * gram @ y + quintic * gram @ gram @ y
    torch.testing.assert_close(found, y)
    assert (orthogonal(x.bfloat16(), rule)[0].double() - found).norm() < 0.03 * found.norm()


@pytest.mark.parametrize(
    ("precision", "products"), [("fp32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_muon_multiplies_on_a_cpu_in_the_precision_of_the_step(precision, products, monkeypatch):
    seen = set()

    def noted(matrices, rule):
        seen.add(matrices.dtype)
        return orthogonal(matrices, rule)

    monkeypatch.setattr(by_tensor, "orthogonal", noted)
    weights = {name: torch.nn.Parameter(weight) for name, weight in drawn(0).items()}
    moments = zero_moments(Muon(), MATRICES, weights)
    rule = make_rule(Muon(), MATRICES, weights, moments, 0, precision=precision)
    update(rule, weights, drawn(1), 0.1)
    assert seen == {products}


@pytest.fixture
def mesh():
    """A mesh of this process alone."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()


def test_muon_gathers_sharded_matrices(mesh):
    muon = Muon(lr=0.1)
    whole = {name: torch.nn.Parameter(weight) for name, weight in drawn(0).items()}
    cut = {
        name: torch.nn.Parameter(distribute_tensor(weight, mesh, [Shard(0)]))
        for name, weight in drawn(0).items()
    }
    for weights in (whole, cut):
        rule = first_rule(muon, weights, MATRICES)
        for step, rate in enumerate(RATES, 1):
            parts = {name: shard_like(of, weights[name]) for name, of in drawn(step).items()}
            update(rule, weights, parts, rate)
    for name, weight in cut.items():
        assert torch.equal(weight.full_tensor(), whole[name]), name


def test_muon_keeps_one_moment_of_matrices_and_has_another_rate_of_others():
    assert Muon(lr=0.02, adamw_lr=3e-4, schedule=Polynomial(end_lr=1e-3)).of_others.lr == 3e-4
    assert set(moments_of(Muon(), MATRICES)) == {
        *(f"m.{weight.name}" for weight in MATRICES),
        *(f"v.{name}.weight" for name in ("head", "words", "norm")),
    }


@pytest.mark.parametrize(
    "optimizer", [Adam(), Adam(bias_correction=False), Lamb(), StableAdam(), Muon()]
)
def test_a_rule_made_anew_on_the_same_moments_goes_on_to_the_bit(optimizer):
    straight, resumed = run(optimizer), run(optimizer, resume_at=2)
    for one, other in zip(straight, resumed, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("optimizer", [Adam(), Lamb(), StableAdam(), Muon()])
def test_a_weight_without_gradient_stays(optimizer):
    weights = parameters()
    update(first_rule(optimizer, weights), weights, {"dense.weight": torch.ones(2, 2)}, 0.1)
    assert weights["norm.weight"].tolist() == START["norm.weight"]
    assert weights["dense.weight"].tolist() != START["dense.weight"]


def test_lamb_of_zero_weights_takes_the_plain_update():
    weights = {"dense.weight": torch.nn.Parameter(torch.zeros(2, 2))}
    weights["dense.weight"].grad = torch.full((2, 2), 0.5)
    first_rule(Lamb(betas=(0.0, 0.0)), weights).update(0.1)
    assert weights["dense.weight"].flatten().tolist() == pytest.approx([-0.1] * 4, rel=1e-5)


def test_clipping_scales_the_whole_gradient_to_the_limit():
    weights = parameters()
    for weight in weights.values():
        weight.grad = torch.full_like(weight, 3.0)
    norm = gradient_norm(weights).item()
    assert norm == pytest.approx(3 * math.sqrt(12))
    clip(weights, norm, 0.0)
    assert gradient_norm(weights).item() == pytest.approx(norm)
    clip(weights, norm, 1.0)
    assert gradient_norm(weights).item() == pytest.approx(1.0)
    clip(weights, 1.0, 5.0)
    assert gradient_norm(weights).item() == pytest.approx(1.0)


@pytest.mark.parametrize("limit", [0.0, 0.5, 100.0])
def test_a_guarded_update_is_that_of_clipped_gradients(limit):
    def moved(guarded, bad=False):
        weights = parameters()
        moments = zero_moments(Adam(), TABLE, weights)
        rule = make_rule(Adam(), TABLE, weights, moments, 0)
        for step, rate in enumerate(RATES):
            for name, gradient in gradients(step).items():
                weights[name].grad = gradient.clone()
            norm = gradient_norm(weights)
            if guarded:
                losses = torch.tensor([1.0, math.inf if bad and step == 1 else 1.0])
                rule.update(rate, guard(losses.double(), norm.double().square(), limit))
            else:
                clip(weights, norm.item(), limit)
                if not (bad and step == 1):
                    rule.update(rate)
        return [*weights.values(), *moments.values()]

    for bad in (False, True):  # a step that was skipped counts for nothing
        torch.testing.assert_close(moved(True, bad), moved(False, bad), rtol=1e-6, atol=1e-7)
    for infinite in (math.inf, -math.inf, math.nan):
        assert guard(torch.zeros(2), torch.tensor(infinite), limit).bad == 1
        assert guard(torch.tensor([0.0, infinite]), torch.tensor(1.0), limit).bad == 1


PLANS = {
    # BERT's decay has run since step 0: the rate jumps down by 1% where warm-up ends.
    "bert": (
        1_000_000, "1e-4, warmup=10k, schedule=polynomial(decay_from=start)",
        {0: 0.0, 1: 1e-8, 5_000: 5e-5, 9_999: 9.999e-5, 10_000: 9.9e-5, 500_000: 5e-5,
         999_999: 1e-10},
    ),
    # ELECTRA's decays within warm-up too.
    "electra": (
        1_000_000, "2e-4, warmup=10k, schedule=polynomial(decay_from=throughout)",
        {0: 0.0, 1: 2e-8 * (1 - 1e-6), 5_000: 1e-4 * 0.995, 10_000: 2e-4 * 0.99, 999_999: 2e-10},
    ),
    "from warm-up": (100, "1, warmup=12", {0: 0.0, 6: 0.5, 12: 1.0, 56: 0.5, 99: 1 / 88}),
    # Past the end the rate stays.
    "power and end": (
        10, "2, warmup=0, schedule=polynomial(power=2, end=10%)",
        {0: 2.0, 5: 2 * (0.1 + 0.9 * 0.25), 10: 0.2, 11: 0.2},
    ),
    "cosine": (99, "1, warmup=19, schedule=cosine(end=10%)", {19: 1, 59: 0.55, 99: 0.1}),
    # Transformer-XL, train.py: CosineAnnealingLR gets the number of the step.
    "cosine from the start": (
        120, "1, warmup=20, schedule=cosine(decay_from=start)",
        {10: 0.5, 40: 0.75, 60: 0.5, 120: 0},
    ),
    # GPT-BERT, utils.py: the last step of ten has a tenth of the final rate.
    "cool-down": (
        120, "1, warmup=20, schedule=cosine(end=10%, cooldown=10%)",
        {20: 1, 70: 0.55, 107: 0.1 + 0.45 * (1 + math.cos(0.87 * math.pi)), 108: 0.1, 114: 0.05,
         119: 0.1 / 12, 121: 0},
    ),
    "constant": (9, "0.3, warmup=2, schedule=constant", {0: 0, 1: 0.15, 2: 0.3, 3: 0.3}),
    "inverse root": (100, "1, warmup=16, schedule=inverse-sqrt", {4: 0.25, 16: 1, 64: 0.5}),
    # The decay of a run ends above zero, and before its schedule.
    "half of a cosine": (20, "1, warmup=0, schedule=cosine(end_lr=0.2, over=40)", {20: 0.6}),
    "no decay": (12, "1e-4, warmup=0, schedule=wsd(0)", {99: 1e-4}),
}  # fmt: skip
# ModernBERT, warmup_stable_decay.py: one_minus_sqrt(.25) to .001 is .5005.
for _schedule, _end, _quarter, _half in (
    ("end=0.001", 0.001, 0.5005, 0.001 + 0.999 * (1 - 0.5**0.5)),
    ("end=0.5", 0.5, 0.75, 1 - 0.5 * 0.5**0.5),
    ("20, shape=linear, end=0.04", 0.04, 0.76, 0.52),
    ("shape=cosine", 0, (1 + 0.5**0.5) / 2, 0.5),
):
    _rates = {0: 0, 5: 0.5, 10: 1, 79: 1, 80: 1, 85: _quarter, 90: _half, 100: _end, 200: _end}
    PLANS[f"wsd({_schedule})"] = (100, f"1, warmup=10, schedule=wsd({_schedule})", _rates)


def rates_at(stage, steps):
    return {step: schedules.rate(stage, step) for step in steps}


@pytest.mark.parametrize("name", PLANS)
def test_rates_of_steps(tiny, name):
    steps, rule, rates = PLANS[name]
    stage = tiny(optimizer=f"adamw({rule})", steps=steps).stages[0]
    assert rates_at(stage, rates) == pytest.approx(rates, rel=1e-11)


def test_a_stage_may_end_above_zero_and_before_its_schedule(tiny):
    """The three rates of StackingBERT's reproduce_bert.sh."""
    plans = (
        (50_000, "8e-4, warmup=10k", "end_lr=5.5e-4", {5_000: 4e-4, 10_000: 8e-4, 50_000: 5.5e-4}),
        (70_000, "5.5e-4, warmup=1", "end_lr=3e-4", {50_001: 5.5e-4, 120_000: 3e-4}),
        (280_000, "3e-4, warmup=1", "over=800k", {120_001: 3e-4, 400_000: 1.95e-4}),
    )
    stages = " ".join(
        f'stage "{n}" {{ steps={n} optimizer=adamw({rule}, schedule=polynomial({end})) }}'
        for n, rule, end, _ in plans
    )
    for stage, (*_, rates) in zip(tiny(stages).stages, plans, strict=True):
        assert rates_at(stage, rates) == pytest.approx(rates, rel=2e-6)


def test_one_schedule_spans_the_stages_unless_one_brings_its_own(tiny):
    # Before its decay the rate of a longer run is the same.
    rule = "optimizer=adamw(1, warmup=3, schedule=wsd(10))"
    short, long = (tiny(rule, steps=steps).stages[0] for steps in (20, 1000))
    assert rates_at(short, range(11)) == rates_at(long, range(11))
    stages = 'optimizer=adamw(1, warmup=0) stage "a" { steps=30 } stage "b" { steps=10 }'
    assert rates_at(tiny(stages).stages[1], [30]) == pytest.approx({30: 0.25})
    own = tiny(stages.replace("steps=10", "steps=10 optimizer=adamw(4, warmup=2)"))
    wanted = {30: 0, 31: 2, 32: 4, 36: 2}
    assert rates_at(own.stages[1], wanted) == pytest.approx(wanted)
