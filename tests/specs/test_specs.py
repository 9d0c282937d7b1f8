"""The shipped specs: listed, short, sourced, and what their systems really are."""

import json
import math
import re
from typing import Any

import pytest

from bertc.api import points, resolve, show
from bertc.base.storage.paths import shipped_specs
from bertc.hub.families import family_for
from bertc.ir.program.resolved import model_weights
from bertc.lab.starting.gallery import Shipped, gallery_json, gallery_table, paper_of, sentence_of
from bertc.lang import format_text
from bertc.model import build
from tests.shipped import PROGRAMS


@pytest.mark.parametrize("name", shipped_specs())
def test_every_shipped_spec_says_what_it_is_and_whose(name):
    text = shipped_specs()[name].read_text(encoding="utf-8")
    assert len(sentence_of(text)) > 3
    assert not set("#()") & set(sentence_of(text))
    assert paper_of(text), "the first comment of it, or of what it extends, names a paper"


def test_a_paper_is_that_of_the_base_where_none_is_named():
    assert paper_of("# Mine, of 2024.\nextends ettin-17m-8k\n") == "Weller et al. 2025"
    assert paper_of("# Mine (Chen and Lee 2031; code).\nextends bert-base\n") == "Chen and Lee 2031"
    assert paper_of("layers = 2\n") == ""


def test_the_table_and_json_say_the_same():
    grid = Shipped("a-grid", "What it is", "Who 2020", (9_800_000, 109_700_000))
    assert gallery_table([grid]) == "a-grid  9.8M to 109.7M  Who 2020  What it is"
    (read,) = json.loads(gallery_json([grid]))["specs"]
    assert read["parameters"] == [9_800_000, 109_700_000]


def test_arguments_that_nobody_wrote_are_shown_with_their_values():
    text = str(show("bert-base"))
    assert "dropout = dropout(hidden=0.1, attention=0.1, ffn=0, last=0)" in text
    optimizer = text[text.index("optimizer = adamw(") :].partition(")\n")[0]
    for argument in ("lr=0.0001", "betas=[0.9, 0.999]", "clip=1"):
        assert argument in optimizer
    assert max(map(len, text.split("\n"))) <= 100


def test_every_setting_says_where_it_comes_from(tmp_path):
    base = tmp_path / "base.bertc"
    base.write_text("# Above\n# it.\nlayers = 3\nhidden = 128  # because \x1b[31m\n")
    mine = tmp_path / "mine.bertc"
    mine.write_text('extends "base.bertc"\nseq = 64  # short texts\nstage "a" { steps = 5 }\n')
    text = str(show(str(mine), ["batch=8"]))
    said = {" ".join(line.split()) for line in text.split("\n")}
    assert {
        "layers = 3 # base.bertc: Above it.", "hidden = 128 # base.bertc: because \\x1b[31m",
        "seq = 64 # here: short texts", "heads = 2 # derived: hidden / 64", "steps = 5 # here",
    } <= said  # fmt: skip
    assert any(line.endswith("# default: BERT config") for line in said)
    assert "batch = 8" + " " * 37 + "# --set\n" in text


SPECS = shipped_specs()
SETTING = re.compile(r"(?:^|[{ ])([a-z_]+) ?= ?(?![=])")
MOST_SETTINGS = 15
ETTIN = ("17m", "32m", "68m", "150m", "400m", "1b")


def lines(name: str) -> list[str]:
    return SPECS[name].read_text().splitlines()


def settings(name: str) -> list[str]:
    """Every setting of a spec, those of stages included, not the arguments of calls."""
    code = "\n".join(line.partition("#")[0] for line in lines(name))
    while re.search(r"\([^()]*\)", code):
        code = re.sub(r"\([^()]*\)", "", code)
    return [match for line in code.splitlines() for match in SETTING.findall(line)]


PROMISED = {
    "bert": "tiny mini small medium base large stacked stacked-paper pkd-6 pkd-3",
    "albert": "base large xlarge xxlarge sharing-grid groups-grid sentence-grid",
    "roberta": "base large", "spanbert": "base large", "xlnet": "base large",
    "electra": "small small-paper base large", "xlm-r": "base large", "eurobert": "210m 610m",
    "transformer-xl": "wt103-base wt103-large enwik8-12 enwik8-24",
    "tinybert": "general 6 4", "modernbert": "base base-8k large",
    "mmbert": "small small-8k small-decay base base-8k base-decay base-paper",
    "deberta-v3": "xsmall small base large",
    "ltg-bert": "small", "elc-bert": "small zero", "gpt-bert": "small small-mixed small-causal",
    "babylm-strict": "small small-adaptive",
    "ettin": " ".join(f"{n} decoder-{n} {n}-8k {n}-decay" for n in ETTIN),
}  # fmt: skip
ALONE = "distilbert bilstm-soft minilm-6 minilmv2-6 camembert-base neobert neobert-4k "
ALONE += "mosaicbert-base nomic-bert gpt-small quickstart quickstart-bert ltg-bert elc-bert "
ALONE += "gpt-bert crammed-bert crammed-bert-simple bert-large-24h mosaicbert-20-dollars"


def test_every_promised_system_is_there():
    promised = {f"{name}-{size}" for name, sizes in PROMISED.items() for size in sizes.split()}
    assert promised | {*ALONE.split()} <= set(SPECS)


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_has_few_settings_each_with_its_source_and_is_written_as_fmt_writes_it(name):
    assert format_text(SPECS[name].read_text()) == SPECS[name].read_text()
    assert 0 < len(settings(name)) <= MOST_SETTINGS
    above, depth = "", 0
    for line in lines(name):
        assert len(line) <= 100
        if SETTING.match(line.strip()) and not depth:
            assert "#" in line or above.lstrip().startswith("#"), f"no source: {line}"
        code = line.partition("#")[0]
        above, depth = line, depth + code.count("(") - code.count(")")


@pytest.mark.parametrize("name", SPECS)
def test_a_network_is_built_as_its_table_says(name):
    for point in PROGRAMS[name]:
        model = build(point, device="meta")
        built = {name: tuple(p.shape) for name, p in model.named_parameters()}
        assert built == {weight.name: weight.shape for weight in model_weights(point)}


ROBERTA = {
    "0.steps": 500_000, "0.batch": 8192, "0.format.kind": "full-sentences",
    "0.optimizer.clip": 0, "0.optimizer.decay_exempt": "none", "0.optimizer.betas": (0.9, 0.98),
    "0.objective.0.name": "mlm", "0.objective.0.objective.mask_specials": True,
    "0.objective.0.objective.masking.kind": "dynamic",
    "0.encoder.positions.rows": 514, "0.encoder.positions.offset": 2,
}  # fmt: skip
RELEASED: dict[str, dict[str, object]] = {
    "bert-base": {
        "0.steps": 900_000, "0.seq": 128, "1.steps": 100_000, "1.seq": 512,
        "0.predictions": 20, "1.predictions": 77, "0.warmup_steps": 10_000,
        "0.schedule_steps": 1_000_000, "0.pairs": "random-next",
        "0.optimizer.bias_correction": False, "0.optimizer.lr": 1e-4,
        "0.optimizer.betas": (0.9, 0.999), "0.optimizer.eps": 1e-6, "0.optimizer.decay": 0.01,
        "0.encoder.ffn.activation": "gelu-tanh",
    },
    "bert-base-paper": {"0.optimizer.bias_correction": True, "0.encoder.ffn.activation": "gelu"},
    "roberta-base": {**ROBERTA, "0.warmup_steps": 24_000},
    "roberta-large": {**ROBERTA, "0.warmup_steps": 30_000},
    "albert-base": {
        "0.optimizer.kind": "lamb", "0.warmup_steps": 3125, "0.steps": 125_000, "0.batch": 4096,
        "0.pairs": "swapped", "0.encoder.dropout.hidden": 0, "0.encoder.dropout.attention": 0,
        "0.predictions": 20,  # --max_predictions_per_seq of the released command
        "0.encoder.attention_owner": (0,) * 12, "0.encoder.ffn_owner": (0,) * 12,
    },
    "albert-base-paper": {"0.predictions": 77, "0.encoder.dropout.hidden": 0.1},
    "xlnet-large": {
        "0.objective.0.name": "plm", "0.seq": 512, "0.predictions": 85, "0.memory": 384,
        "0.objective.0.objective.block": 256, "0.objective.0.objective.unit": "pieces",
        "0.warmup_steps": 40_000, "0.steps": 500_000, "0.batch": 2048,
        "0.format.kind": "stream-pair", "0.format.reuse": 0, "0.format.directions": 2,
        "0.encoder.positions.kind": "none", "0.encoder.segments": 0, "0.encoder.pooler": False,
        "0.encoder.attention.kind": "relative",
    },
    "xlnet-large-paper": {"0.batch": 8192, "0.objective.0.objective.unit": "words"},
    "spanbert-base": {
        "0.warmup_steps": 10_000, "0.steps": 2_400_000, "0.tokens_per_step": 32 * 4096,
        "0.format.kind": "doc-sentences", "0.pairs": "none", "0.objective.0.name": "mlm",
        "0.objective.0.objective.replace_per": "span", "0.objective.0.objective.count": "up",
        "0.objective.0.objective.random_from": "corpus", "0.objective.1.name": "sbo",
        "0.optimizer.decay": 0.01, "0.optimizer.schedule.decay_from": "start",
        # Its gradients are divided twice, by the predictions of 4,096 tokens once more.
        "0.optimizer.eps": pytest.approx(1e-8 * 0.15 * 4096, rel=0.01), "0.optimizer.clip": 0,
    },
    "spanbert-base-paper": {"0.optimizer.decay": 0.1, "0.optimizer.eps": 1e-8},
    "bert-stacked": {
        "0.layers": 3, "0.steps": 50_000, "0.tokens_per_step": 102_400, "0.counted_from": 0,
        "1.layers": 6, "1.steps": 70_000, "1.tokens_per_step": 114_688, "1.counted_from": 50_000,
        "2.layers": 12, "2.steps": 280_000, "2.tokens_per_step": 122_880,
        "2.counted_from": 120_000, "0.grow": None, "1.grow.moments": "reset",
        "2.grow.moments": "reset",
    },
    "electra-small": {
        "0.format.kind": "segment-pair", "0.format.short": 0.05, "0.format.short_per": "example",
    },
    "xlm-en": {"0.format.kind": "blocks"},
    "xlm-15": {
        "0.mixing.kind": "batches", "0.mixing.translations": 0.5, "0.mixing.both_orders": True,
    },
    "transformer-xl-wt103-base": {
        "0.batch": 60, "0.seq": 150, "0.memory": 150, "0.steps": 200_000, "0.optimizer.lr": 2.5e-4,
        "0.optimizer.decay": 0, "0.optimizer.clip": 0.25, "0.optimizer.schedule.kind": "cosine",
        "0.warmup_steps": 0, "0.optimizer.bias_correction": True,
        "0.encoder.layers.15.head_dim": 41,
    },
    **{
        f"transformer-xl-{name}": {
            "0.warmup_steps": steps, "0.optimizer.schedule.decay_from": "start",
        } for name, steps in {"wt103-large": 16_000, "enwik8-24": 4000}.items()
    },
}  # fmt: skip
"""What a stage of a spec has, by its number and the names that lead there."""


def at(value: Any, path: str) -> object:
    for part in path.split("."):
        value = value[int(part)] if part.isdigit() else getattr(value, part)
    return value() if callable(value) else value


@pytest.mark.parametrize("name", RELEASED)
def test_stages_are_as_released(name):
    stages = resolve(name).stages
    assert {path: at(stages, path) for path in RELEASED[name]} == RELEASED[name]


@pytest.mark.parametrize(("name", "layers", "hidden", "heads"), [
    ("bert-tiny", 2, 128, 2), ("bert-mini", 4, 256, 4), ("bert-small", 4, 512, 8),
    ("bert-medium", 8, 512, 8), ("bert-base", 12, 768, 12), ("bert-large", 24, 1024, 16),
    ("roberta-large", 24, 1024, 16), ("spanbert-large", 24, 1024, 16),
    ("albert-large", 24, 1024, 16), ("albert-xlarge", 24, 2048, 16),
    ("albert-xxlarge", 12, 4096, 64),
])  # fmt: skip
def test_networks_have_the_published_sizes(name, layers, hidden, heads):
    encoder = resolve(name).encoder
    assert (len(encoder.layers), encoder.hidden) == (layers, hidden)
    widths = {(w.heads, w.heads * w.head_dim, w.ffn) for w in encoder.layers}
    assert widths == {(heads, hidden, 4 * hidden)}


def test_vocabularies_are_as_released():
    assert resolve("mbert").vocabulary.alphabet == 9997
    assert not any(resolve(name).vocabulary.accents for name in ("albert-base", "xlnet-base"))


@pytest.mark.parametrize(("name", "published"), [
    ("transformer-xl-wt103-base", 41_066_400), ("transformer-xl-wt103-large", 245_532_672),
    ("ltg-bert-small", 21_261_312),
])  # fmt: skip
def test_weights_of_layers_are_as_many_as_published(name, published):
    layers = ("encoder.attention.", "encoder.ffn.")
    table = model_weights(resolve(name))
    assert sum(w.numel for w in table if w.name.startswith(layers)) == published


def test_the_quickstart_is_small_and_leaves_as_modernbert_compared_on_the_same_text():
    for name in ("quickstart", "quickstart-bert"):
        resolved = resolve(name)
        assert sum(weight.numel for weight in model_weights(resolved)) < 10_000_000
        (stage,) = resolved.stages
        assert stage.data[0].corpus.kind == "docstrings"
        rows = stage.seq, stage.format.kind, resolved.encoder.vocab_size
        assert rows == (128, "blocks", 8000)
    assert family_for(resolve("quickstart"), pad=0).model_type == "modernbert"


@pytest.mark.parametrize("name", SPECS)
def test_shrinks_to_thirty_steps(name):
    (first, *_) = PROGRAMS[name]
    # What begins with another network, has another body or prefixes of vectors, or learns from a
    # teacher's heads, keeps its sizes.
    fixed = first.run.init.kind != "random" or first.encoder.body_kind != "transformer"
    fixed |= any(stage.allocated != stage.learned for stage in first.stages if stage.teacher)
    tasks = [task for stage in first.stages for task in stage.tasks]
    fixed |= any(getattr(task, "widths", ()) for task in tasks)
    # Heads that share keys stay as many as share them.
    keys = 0 if fixed else getattr(first.encoder.attention, "kv_heads", 0)
    sizes = ["hidden=96", f"heads={math.lcm(2, keys)}"] if keys else ["hidden=64", "heads=2"]
    small = [] if fixed else [*sizes, "layers=12"]
    # Stages of epochs have no proportions that they could keep: each takes the 30.
    stages = len(first.stages) if any(stage.tasks for stage in first.stages) else 1
    for point in points(name, [*small, "steps=30", "batch=4", "batch_warmup=none"]):
        assert point.steps == 30 * stages
        assert all(stage.warmup_steps <= stage.schedule_steps for stage in point.stages)
