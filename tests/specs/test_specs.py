"""The shipped specs: short, sourced, and what the systems they are named after really are."""

import re

import pytest

from bertc.api import points, resolve
from bertc.base.resources import shipped_specs
from bertc.hub.families import family_for
from bertc.hub.families.family import Family
from bertc.ir.base import Normal
from bertc.ir.learning.objective import Mlm, Plm, Sbo
from bertc.ir.program.model import model_weights
from bertc.lang import format_text
from bertc.model import build
from tests.shipped import PROGRAMS

SPECS = shipped_specs()
SETTING = re.compile(r"(?:^|[{ ])([a-z_]+) ?= ?(?![=])")
MOST_SETTINGS = 15
ETTIN = {  # ModernBertDecoderForCausalLM, as many weights as the encoder with its head
    "17m": 16_913_600, "32m": 32_081_344, "68m": 68_457_664, "150m": 149_655_232,
    "400m": 395_881_664, "1b": 1_031_314_112,
}  # fmt: skip


def lines(name: str) -> list[str]:
    return SPECS[name].read_text().splitlines()


def settings(name: str) -> list[str]:
    """Every setting of a spec, those of stages included, not the arguments of calls."""
    code = "\n".join(line.partition("#")[0] for line in lines(name))
    while re.search(r"\([^()]*\)", code):
        code = re.sub(r"\([^()]*\)", "", code)
    return [match for line in code.splitlines() for match in SETTING.findall(line)]


def test_every_promised_system_is_there() -> None:
    promised = [f"bert-{size}" for size in ("tiny", "mini", "small", "medium", "base", "large")]
    promised += [f"albert-{size}" for size in ("base", "large", "xlarge", "xxlarge")]
    promised += [
        f"{family}-{size}" for family in ("roberta", "spanbert") for size in ("base", "large")
    ]
    promised += ["bert-stacked", "bert-stacked-paper"]
    promised += [f"electra-{size}" for size in ("small", "small-paper", "base", "large")]
    promised += [f"transformer-xl-{corpus}" for corpus in ("wt103-base", "wt103-large")]
    promised += ["xlnet-base", "xlnet-large"]
    promised += ["distilbert", "bert-pkd-6", "bert-pkd-3", "bilstm-soft"]
    promised += ["minilm-6", "minilmv2-6", "tinybert-general", "tinybert-6", "tinybert-4"]
    promised += ["xlm-r-base", "xlm-r-large", "camembert-base"]
    promised += ["modernbert-base", "modernbert-base-8k", "modernbert-large", "neobert"]
    promised += [f"ettin-{size}" for size in ETTIN]
    promised += [f"ettin-decoder-{size}" for size in ETTIN]
    promised += [f"ettin-{size}-{phase}" for size in ETTIN for phase in ("8k", "decay")]
    promised += [f"mmbert-{size}" for size in ("small", "base", "base-paper")]
    promised += [
        f"mmbert-{size}-{phase}" for size in ("small", "base") for phase in ("8k", "decay")
    ]
    promised += ["mosaicbert-base", "nomic-bert", "neobert-4k"]
    promised += ["eurobert-210m", "eurobert-610m"]
    promised += [f"deberta-v3-{size}" for size in ("xsmall", "small", "base", "large")]
    promised += [f"transformer-xl-enwik8-{layers}" for layers in (12, 24)]
    promised += [
        "gpt-small",
        "quickstart",
        "quickstart-bert",
        "albert-sharing-grid",
        "albert-groups-grid",
        "albert-sentence-grid",
    ]
    assert set(promised) <= set(SPECS)


@pytest.mark.parametrize("name", SPECS)
def test_short_and_sourced(name: str) -> None:
    assert 0 < len(settings(name)) <= MOST_SETTINGS
    above, depth = "", 0
    for line in lines(name):
        assert len(line) <= 100
        if SETTING.match(line.strip()) and not depth:
            assert "#" in line or above.lstrip().startswith("#"), f"no source: {line}"
        code = line.partition("#")[0]
        above, depth = line, depth + code.count("(") - code.count(")")


@pytest.mark.parametrize("name", SPECS)
def test_canonical(name: str) -> None:
    text = SPECS[name].read_text()
    assert format_text(text) == text


@pytest.mark.parametrize("name", SPECS)
def test_counted_is_built(name: str) -> None:
    for point in PROGRAMS[name]:
        model = build(point, device="meta")
        built = {name: tuple(p.shape) for name, p in model.named_parameters()}
        assert built == {weight.name: weight.shape for weight in model_weights(point)}


def test_bert_as_released() -> None:
    resolved = resolve("bert-base")
    short, long = resolved.stages
    assert (short.steps, short.seq, long.steps, long.seq) == (900_000, 128, 100_000, 512)
    assert (short.predictions(), long.predictions()) == (20, 77)
    assert short.warmup_steps == 10_000
    assert short.schedule_steps == 1_000_000
    assert short.pairs == "random-next"
    rule = short.optimizer
    assert not rule.bias_correction
    assert (rule.lr, rule.betas, rule.eps, rule.decay) == (1e-4, (0.9, 0.999), 1e-6, 0.01)
    assert resolved.encoder.ffn.activation == "gelu-tanh"
    paper = resolve("bert-base-paper")
    assert paper.stages[0].optimizer.bias_correction
    assert paper.encoder.ffn.activation == "gelu"


@pytest.mark.parametrize(
    ("name", "layers", "hidden", "heads"),
    [
        ("bert-tiny", 2, 128, 2), ("bert-mini", 4, 256, 4), ("bert-small", 4, 512, 8),
        ("bert-medium", 8, 512, 8), ("bert-base", 12, 768, 12), ("bert-large", 24, 1024, 16),
        ("roberta-large", 24, 1024, 16), ("spanbert-large", 24, 1024, 16),
        ("albert-large", 24, 1024, 16), ("albert-xlarge", 24, 2048, 16),
        ("albert-xxlarge", 12, 4096, 64),
    ],
)  # fmt: skip
def test_sizes(name: str, layers: int, hidden: int, heads: int) -> None:
    encoder = resolve(name).encoder
    assert (len(encoder.layers), encoder.hidden) == (layers, hidden)
    assert {(w.heads, w.heads * w.head_dim, w.ffn) for w in encoder.layers} == {
        (heads, hidden, 4 * hidden)
    }


@pytest.mark.parametrize(("name", "warmup"), [("roberta-base", 24_000), ("roberta-large", 30_000)])
def test_roberta_as_released(name: str, warmup: int) -> None:
    resolved = resolve(name)
    (stage,) = resolved.stages
    assert (stage.warmup_steps, stage.steps, stage.batch) == (warmup, 500_000, 8192)
    assert stage.format.kind == "full-sentences"
    assert (stage.optimizer.clip, stage.optimizer.decay_exempt) == (0, "none")
    assert stage.optimizer.betas == (0.9, 0.98)
    (term,) = stage.objective
    assert isinstance(term.objective, Mlm)
    assert term.objective.mask_specials
    assert term.objective.masking.kind == "dynamic"
    positions = resolved.encoder.positions
    assert (positions.rows, positions.offset) == (514, 2)


def test_albert_as_released() -> None:
    resolved = resolve("albert-base")
    (stage,) = resolved.stages
    assert stage.optimizer.kind == "lamb"
    assert (stage.warmup_steps, stage.steps, stage.batch) == (3125, 125_000, 4096)
    assert stage.pairs == "swapped"
    assert stage.predictions() == 20, "--max_predictions_per_seq of the released command"
    assert resolve("albert-base-paper").stages[0].predictions() == 77
    dropout = resolved.encoder.dropout
    assert (dropout.hidden, dropout.attention) == (0, 0)
    assert resolve("albert-base-paper").encoder.dropout.hidden == 0.1
    assert set(resolved.encoder.attention_owner) == set(resolved.encoder.ffn_owner) == {0}


def test_xlnet_as_released() -> None:
    (stage,) = resolve("xlnet-large").stages
    encoder, (term,) = stage.encoder, stage.objective
    assert isinstance(term.objective, Plm)
    assert (stage.seq, stage.predictions(), term.objective.block) == (512, 85, 256)
    assert (stage.warmup_steps, stage.steps) == (40_000, 500_000)
    assert (stage.format.kind, stage.format.parts(stage.seq), stage.format.directions) == (
        "stream-pair",
        (256, 256),
        2,
    )
    assert stage.memory == 384
    assert encoder.positions.kind == "none"
    assert (encoder.segments, encoder.pooler) == (0, False)
    assert encoder.attention.kind == "relative"
    (printed,) = resolve("xlnet-large-paper").stages
    assert (stage.batch, printed.batch) == (2048, 8192)
    units = (s.objective[0].objective.unit for s in (stage, printed))
    assert tuple(units) == ("pieces", "words")


def test_spanbert_as_released() -> None:
    (stage,) = resolve("spanbert-base").stages
    assert (stage.warmup_steps, stage.steps) == (10_000, 2_400_000)
    assert stage.batch * stage.seq == 32 * 4096
    assert (stage.format.kind, stage.pairs) == ("doc-sentences", "none")
    span, boundary = (term.objective for term in stage.objective)
    assert isinstance(span, Mlm)
    assert isinstance(boundary, Sbo)
    assert (span.replace_per, span.count, span.random_from) == ("span", "up", "corpus")
    rule = stage.optimizer
    assert rule.decay == 0.01
    assert rule.schedule.decay_from == "start"
    # Its gradients are divided twice, by the predictions of 4,096 tokens once more.
    assert (rule.eps, rule.clip) == (pytest.approx(1e-8 * 0.15 * 4096, rel=0.01), 0)
    printed = resolve("spanbert-base-paper").stages[0].optimizer
    assert (printed.decay, printed.eps) == (0.1, 1e-8)


def test_text_is_read_as_released() -> None:
    formats = {name: resolve(name).stages[0].format for name in ("electra-small", "xlm-en")}
    assert [form.kind for form in formats.values()] == ["segment-pair", "blocks"]
    assert (formats["electra-small"].short, formats["electra-small"].short_per) == (0.05, "example")
    mixing = resolve("xlm-15").stages[0].mixing
    assert (mixing.kind, mixing.translations, mixing.both_orders) == ("batches", 0.5, True)
    assert resolve("mbert").vocabulary.alphabet == 9997
    assert not any(resolve(name).vocabulary.accents for name in ("albert-base", "xlnet-base"))


@pytest.mark.parametrize(
    ("name", "total", "inner"),
    [
        ("transformer-xl-wt103-base", 151_107_538, 41_066_400),
        ("transformer-xl-wt103-large", 285_170_506, 245_532_672),
        ("transformer-xl-enwik8-12", 41_055_436, None),
        ("transformer-xl-enwik8-24", 277_231_820, None),
        ("gpt-small", 124_439_808, None),
    ],
)
def test_language_models_to_the_parameter(name: str, total: int, inner: int | None) -> None:
    resolved = resolve(name)
    table = model_weights(resolved)
    assert sum(weight.numel for weight in table) == total
    layers = ("encoder.attention.", "encoder.ffn.")
    within = sum(weight.numel for weight in table if weight.name.startswith(layers))
    assert inner is None or within == inner


def test_transformer_xl_as_released() -> None:
    (stage,) = resolve("transformer-xl-wt103-base").stages
    assert (stage.batch, stage.seq, stage.memory, stage.steps) == (60, 150, 150, 200_000)
    rule = stage.optimizer
    assert (rule.lr, rule.decay, rule.clip, rule.schedule.kind) == (2.5e-4, 0, 0.25, "cosine")
    assert (stage.warmup_steps, rule.bias_correction) == (0, True)
    assert [w.head_dim for w in stage.encoder.layers] == [41] * 16
    for name, warmup in (("wt103-large", 16_000), ("enwik8-24", 4000)):
        (large,) = resolve(f"transformer-xl-{name}").stages
        assert (large.warmup_steps, large.optimizer.schedule.decay_from) == (warmup, "start")
    norms = [w for w in model_weights(resolve("transformer-xl-enwik8-12")) if w.role == "norm"]
    assert {w.init.std for w in norms if w.name.endswith("weight")} == {0.02}
    assert {w.init.value for w in norms if w.name.endswith("weight")} == {1}


def test_initial_values_as_released() -> None:
    """Those of ELECTRA, XLNet and GPT-2 that are not as the others of the same network."""
    found = {
        name: {w.name.removeprefix("encoder."): w.init for w in model_weights(resolve(name))}
        for name in ("electra-small", "electra-base", "xlnet-large", "gpt-small", "albert-base")
    }
    glorot = {
        name: [weight for weight, init in table.items() if init.kind == "glorot"]
        for name, table in found.items()
    }
    maps = ["generator.embeddings.project.weight", "heads.rtd.weight"]
    assert glorot["electra-base"] == maps
    assert glorot["electra-small"] == ["embeddings.project.weight", *maps]
    assert glorot["xlnet-large"] == ["embeddings.unseen"]
    assert glorot["albert-base"] == []
    assert {i.kind for n, i in found["xlnet-large"].items() if "attention" in n} >= {"normal"}
    assert found["gpt-small"]["embeddings.position.weight"] == Normal(std=0.01)
    assert found["gpt-small"]["embeddings.token.weight"].std == 0.02


def test_the_sentence_grid_changes_the_question_and_not_the_rows() -> None:
    found = points("albert-sentence-grid")
    assert [point.stages[0].pairs for point in found] == ["consecutive", "random-next", "swapped"]
    assert {point.stages[0].format.kind for point in found} == {"segment-pair"}


def test_the_quickstart_is_small_and_compared_on_the_same_text() -> None:
    for name in ("quickstart", "quickstart-bert"):
        resolved = resolve(name)
        assert sum(weight.numel for weight in model_weights(resolved)) < 10_000_000
        (stage,) = resolved.stages
        assert stage.data[0].corpus.kind == "docstrings"
        rows = stage.seq, stage.format.kind, resolved.encoder.vocab_size
        assert rows == (128, "blocks", 8000)


def test_the_quickstart_leaves_as_modernbert() -> None:
    """What it learned is read by AutoModelForMaskedLM."""
    family = family_for(resolve("quickstart"), pad=0)
    assert isinstance(family, Family)
    assert family.model_type == "modernbert"


@pytest.mark.parametrize("name", SPECS)
def test_shrinks_to_thirty_steps(name: str) -> None:
    (first, *_) = points(name)
    # What begins with another network, has another body, or learns from a teacher's heads, keeps
    # its sizes.
    fixed = first.run.init.kind != "random" or first.encoder.body_kind != "transformer"
    fixed |= any(stage.allocated != stage.learned for stage in first.stages if stage.teacher)
    # Heads that share keys stay as many as share them.
    shares = not fixed and first.encoder.attention.shares_keys
    sizes = ["hidden=96", "heads=6"] if shares else ["hidden=64", "heads=2"]
    small = [] if fixed else [*sizes, "layers=12"]
    # Stages of epochs have no proportions that they could keep: each takes the 30.
    stages = len(first.stages) if any(stage.tasks for stage in first.stages) else 1
    for point in points(name, [*small, "steps=30", "batch=4", "batch_warmup=none"]):
        assert point.steps == 30 * stages
        assert all(stage.warmup_steps <= stage.schedule_steps for stage in point.stages)


def test_stacking_as_released() -> None:
    resolved = resolve("bert-stacked")
    assert [len(stage.encoder.layers) for stage in resolved.stages] == [3, 6, 12]
    assert [stage.steps for stage in resolved.stages] == [50_000, 70_000, 280_000]
    assert [stage.tokens_per_step for stage in resolved.stages] == [102_400, 114_688, 122_880]
    assert [stage.grow and stage.grow.moments for stage in resolved.stages] == [
        None, "reset", "reset",
    ]  # fmt: skip
    assert [stage.counted_from for stage in resolved.stages] == [0, 50_000, 120_000]
    norms = [w.name for w in model_weights(resolved) if w.role == "norm"]
    assert norms == ["heads.mlm.norm.weight", "heads.mlm.norm.bias"]
    assert not [w for w in model_weights(resolved) if "position" in w.name]
    whole = resolve("bert-unstacked")
    assert whole.encoder == resolved.encoder
    assert resolved.steps == whole.steps == 400_000


def test_stacking_as_printed_is_of_bert() -> None:
    resolved = resolve("bert-stacked-paper")
    assert resolved.encoder.layers == resolve("bert-base").encoder.layers
    assert resolved.encoder.norm.kind == "post"
    assert resolved.steps == 400_000


@pytest.mark.parametrize("size", ETTIN)
def test_ettin_s_decoders_and_phases(size: str) -> None:
    decoder, *encoders = (
        resolve(f"ettin-{name}")
        for name in (f"decoder-{size}", size, f"{size}-8k", f"{size}-decay")
    )
    for resolved in (decoder, *encoders):
        assert sum(weight.numel for weight in model_weights(resolved)) == ETTIN[size]
        (stage,) = resolved.stages
        assert (stage.batch, stage.pack, stage.format.kind) == (4608, False, "doc-sentences")
    assert decoder.encoder.causal
    assert decoder.encoder.attention.at(1).reach == 64
    first, long, last = (resolved.stages[0] for resolved in encoders)
    assert (first.seq, long.seq, last.seq) == (1024, 7999, 7999)
    assert long.optimizer.lr == first.optimizer.lr == 2 * last.optimizer.lr
    assert [stage.objective[0].objective.p for stage in (first, long, last)] == [0.3, 0.3, 0.15]
    thetas = [
        (each.encoder.positions.theta, each.encoder.positions.local_theta) for each in encoders
    ]
    assert thetas == [(10_000, 10_000), (160_000, 10_000), (160_000, 160_000)]


def test_mmbert_s_batches_rise_and_its_masks_fall() -> None:
    base, long, last = (resolve(f"mmbert-base{name}") for name in ("", "-8k", "-decay"))
    assert [stage.batch for stage in base.stages] == list(range(384, 4609, 384))
    rising = sum(stage.batch * stage.seq * stage.steps for stage in base.stages[:-1])
    assert rising == pytest.approx(60e9, rel=1e-3)
    masked = [each.stages[-1].objective[0].objective.p for each in (base, long, last)]
    assert masked == [0.25, 0.15, 0.05]
    tokens = [sum(s.batch * s.seq * s.steps for s in each.stages) for each in (base, long, last)]
    assert tokens == pytest.approx([400e9, 600e9, 100e9], rel=1e-3)
