"""Every setting of a spec: type, bounds, alias, default, and the source of that default.

A setting declared with ``default`` has that constant unless written. One declared with ``derived``
is computed from others by a pass, as its rule says. A ``free`` one changes no result of a run.
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field

from bertc.ir.base import Count, Initializer, Node, Tokens, TruncatedNormal, Width
from bertc.ir.changing.growth import Drawn, Growth, Init, Stack
from bertc.ir.cleaning import EVERY, Documents
from bertc.ir.data import Docstrings, Format, Language, MixedRows, Mixing, Share
from bertc.ir.learning import Adam, Optimizer
from bertc.ir.learning.augmentation import UNCHANGED, Augmentation
from bertc.ir.learning.objective import NOBODY, Mlm, Teacher, Term
from bertc.ir.learning.schedule import Epochs, Equal, Hours, Words
from bertc.ir.methods.adapter import NO_ADAPTER, Adapter, Freeze
from bertc.ir.methods.average import NO_AVERAGE, Average
from bertc.ir.methods.batches import FULL_BATCH, BatchWarmup
from bertc.ir.methods.pruning import NOTHING, Pruning
from bertc.ir.network.attention import Attention, FullAttention
from bertc.ir.network.body import BodyKind
from bertc.ir.network.body_node import Transformer
from bertc.ir.network.ffn import Activations, OwnFfn
from bertc.ir.network.generator import Generator, NoGenerator
from bertc.ir.network.head import Head, PoolerKind
from bertc.ir.network.layer import Dropout
from bertc.ir.network.norm import Norm, PostNorm
from bertc.ir.network.positions import SHORTEST, Positions
from bertc.ir.network.residual import PLAIN_STREAM, Residual
from bertc.ir.network.sharing import ShareNone, Sharing
from bertc.ir.network.table import TokenTable, WholeTable
from bertc.ir.terms.node import System
from bertc.ir.terms.task_head import LAST, Features
from bertc.ir.vocabulary import Smoothing, Vocabulary, WordPiece

BERT = "BERT-base, Devlin et al. 2019, section 3"
HOUSE = "bertc"

Heads = Annotated[int, Field(ge=1, le=10_000)]
Positive = Annotated[int, Field(ge=1, le=10**12)]
RunPrecision = Literal["auto", "fp32", "bf16"]
"""The type that products are computed in; auto: the fast one of a device."""
HfLayout = Literal["auto", "electra", "xlm-roberta", "camembert"]
"""The Hugging Face layout of a network that fits several; auto: BERT's, or RoBERTa's."""
Tracker = Literal["tensorboard", "wandb", "mlflow"]
"""Programs that keep and draw the figures of runs."""
Log = (
    Literal["none", "tensorboard", "wandb", "mlflow"]
    | Annotated[tuple[Tracker, ...], Field(min_length=1)]
)


def layout_of(recipe: System) -> HfLayout:
    """The layout of networks fine-tuned with a recipe."""
    return "electra" if recipe == "electra" else "auto"


def default(value: object, doc: str, source: str = HOUSE, alias: str = "", **options: Any) -> Any:
    """A setting with a constant default and the source of it."""
    extra: dict[str, Any] = {"source": source, "alias": alias, "free": options.pop("free", False)}
    return Field(default=value, description=doc, json_schema_extra=extra, **options)


def added(value: object, doc: str, **options: Any) -> Any:
    """A setting that older run folders lack: dumps omit its default, so that fingerprints stay."""
    return default(value, doc, exclude_if=lambda current: bool(current == value), **options)


def derived(rule: str, doc: str, alias: str = "") -> Any:
    """A setting computed from others unless written; ``rule`` describes how."""
    return Field(description=doc, json_schema_extra={"source": rule, "alias": alias})


class NetworkSettings(Node):
    """Settings of networks, which a resolved program has as bodies."""

    body: BodyKind = default(Transformer(), "what the states are computed with", BERT)
    layers: Annotated[int, Field(ge=1, le=1000)] = default(12, "number of layers", BERT, "L")
    hidden: Width = default(768, "width of the residual stream", BERT, "H")
    heads: Heads | Annotated[tuple[Heads, ...], Field(min_length=1)] = derived(
        "hidden / 64", "attention heads, one number or one per layer", "A"
    )
    head_dim: Width = derived("hidden / heads of the first layer", "width of one head")
    ffn: Width | Annotated[tuple[Width, ...], Field(min_length=1)] | OwnFfn = derived(
        "4 x hidden", "inner width of the feed-forward part, one or one per layer; or own(...)", "F"
    )
    embedding: Width = derived("hidden", "width of the embedding tables", "E")
    table: TokenTable = default(
        WholeTable(), "token embeddings: of one width, or narrower for rare tokens", BERT
    )
    share: Sharing = default(ShareNone(), "which layers share their weights", BERT)
    attention: Attention = default(FullAttention(), "kind of attention", BERT)
    activation: Activations = default(
        "gelu",
        "activation of feed-forward parts, gated or not, and of heads",
        "Hugging Face BertConfig hidden_act",
    )
    norm: Norm = default(
        PostNorm(), "placement of the norms; their `function` is `layer`, `rms` or `tanh`", BERT
    )
    residual: Residual = default(PLAIN_STREAM, "what parts read of what was computed before", BERT)
    causal: bool | Literal["auto"] = default(
        "auto", "whether tokens attend to earlier ones alone; auto: where each predicts the next"
    )
    positions: Positions = derived(
        "longest seq; none where attention knows distances", "position embeddings"
    )
    segments: Annotated[int, Field(ge=0, le=1000)] = default(
        2, "token types", "BERT config type_vocab_size as released"
    )
    languages: tuple[Language, ...] = derived(
        "the languages of the data, sorted", "languages of the language embeddings"
    )
    language_embeddings: bool = default(
        False, "an embedding for each of the languages", "google-research/bert multilingual.md"
    )
    pooler: PoolerKind = derived(
        "whether an objective reads it; false where causal=true",
        "dense + tanh over the first token; or ReLU, both, GELU, or the layers of a masked-LM "
        "head, of it or of the mean of all",
    )
    head: Head = derived(
        "adaptive with such a table, else linear where every next token is predicted, else "
        "transform",
        "the head over the vocabulary",
    )
    dropout: Dropout = default(Dropout(), "dropout rates in training", "BERT config")
    initializer: Initializer = default(TruncatedNormal(), "initial weights", "BERT config")
    vocab: Vocabulary = default(WordPiece(), "the vocabulary", "bert-base-uncased", "V")
    generator: Generator = default(NoGenerator(), "source of the replaced tokens that rtd detects")
    adapt: Adapter = default(
        NO_ADAPTER, "small maps that are trained in place of the network, which is frozen"
    )


class StageSettings(Node):
    """Settings of what a stage learns, from what, and how: a resolved stage has them as here."""

    objective: tuple[Term, ...] = default(
        (Term(objective=Mlm()),), "what to learn: a sum of terms", BERT, "task"
    )
    data: tuple[Share, ...] = default((Share(corpus=Docstrings()),), "the text: a sum of sources")
    smoothing: Smoothing = default(
        1.0, "languages are sampled in proportion to (their share of the text)^smoothing"
    )
    mixing: Mixing = default(MixedRows(), "mixing of languages: row by row, or batch by batch")
    format: Format = derived(
        "segment-pair if an objective asks about pairs, else doc-sentences where rows are packed, "
        "else stream where every next token is predicted, else full-sentences",
        "how text becomes examples",
    )
    pack: bool = default(
        False, "several examples in a row of seq tokens, each attending to itself only"
    )
    memory: Annotated[int, Field(ge=0, le=1_000_000)] = default(
        0, "earlier tokens of a stream whose states every layer attends to, in training"
    )
    teacher: tuple[Teacher, ...] = added(
        NOBODY, "trained networks that terms of distillation (kd) learn from, a sum"
    )
    augment: tuple[Augmentation, ...] = added(
        UNCHANGED, "changed copies of a task's training examples, a sum: 20*edit(...)"
    )
    optimizer: Optimizer = default(Adam(), "update rule and learning rate", BERT)
    average: Average = added(
        NO_AVERAGE, "mean of weights that a stage is evaluated, exported and handed on with"
    )
    prune: Pruning = added(NOTHING, "heads or neurons that a stage removes, at once or in steps")
    freeze: Freeze = default(
        0,
        "number of lowest layers that are not trained, nor the embeddings, or those alone; "
        "positions: their table alone; all: the whole network, read without dropout",
    )
    patience: Annotated[int, Field(ge=0, le=10_000)] = default(
        0, "evaluations without a better score that end a task, with its best weights; 0: never"
    )
    steps: Positive | Tokens | Epochs | Words | Equal | Hours = default(
        1_000_000,
        "optimiser steps, text to read (2G tokens, 10 epochs, 100M words), time to train (24h), "
        "or a budget to use up (equal(1e18 flops))",
        "BERT paper, appendix A.2",
    )
    batch: Positive = default(256, "examples per step", "BERT paper, appendix A.2", "B")
    seq: Annotated[int, Field(ge=SHORTEST, le=1_000_000)] = default(
        512, "tokens per row", "BERT paper, appendix A.2", "S"
    )
    microbatch: Annotated[int, Field(ge=0, le=10**9)] = default(
        0, "examples computed at once; 0: as many as fit", free=True
    )


class BlockSettings(StageSettings):
    """All settings of a ``stage`` block, with those that resolve into other values."""

    grow: Growth = default(
        Stack(),
        "initial weights of a network with more layers than before",
        "StackingBERT double.py",
    )
    epochs: Annotated[float, Field(ge=0, le=10_000)] = default(
        0.0, "passes over the examples of a task, in place of steps"
    )
    features: Features = default(LAST, "layers whose states the head of a task reads")
    batch_warmup: BatchWarmup = default(FULL_BATCH, "batches of fewer examples at first")


class RunSettings(Node):
    """Settings that all stages of a run have in common."""

    init: Init = default(Drawn(), "initial weights of a run")
    recipe: System = default(
        "bert", "system whose fine-tuning settings a task takes; with init that system"
    )
    layout: HfLayout = derived(
        "that of the recipe", "Hugging Face layout of a fine-tuned network, if BERT's fits too"
    )
    holdout: Annotated[float, Field(gt=0, le=0.5)] = default(
        0.01, "fraction of the documents held out for evaluation"
    )
    clean: Documents = added(
        EVERY, "documents that are read: long enough, of letters, each once, ..."
    )
    seed: Count = default(0, "the seed of every random choice")
    save_every: Positive = derived(
        "a tenth of all steps, of tasks a third, at most 1000", "steps between checkpoints"
    )
    eval_every: Positive = derived(
        "a tenth of all steps, of tasks a third, at most 1000", "steps between evaluations"
    )
    log_every: Positive = derived(
        "a hundredth of all steps, at most 100", "steps between log lines"
    )
    eval_examples: Positive = default(512, "maximum held-out examples per evaluation")
    keep: Annotated[int, Field(ge=1, le=1000)] | Literal["all"] = default(
        2, "number of checkpoints kept, the newest, or all"
    )
    log: Log = added(
        "none", "trackers that get the metrics too, one or a list: [tensorboard, wandb]", free=True
    )
    precision: RunPrecision = default("auto", "arithmetic; auto: bf16 where the hardware has it")
    compile: Literal["auto", "on", "off"] = default("auto", "torch.compile; auto: on a GPU")
    recompute: Literal["auto", "on", "off"] = default(
        "auto", "save only the inputs of layers for backward; auto: if memory is short", free=True
    )
    device: Literal["auto", "cpu", "cuda"] = default("auto", "device; auto: cuda, else cpu")
    deterministic: Literal["yes", "no"] = default(
        "no", "deterministic sums on a GPU, at a cost; on a CPU they always are"
    )
    strategy: Literal["auto", "ddp", "fsdp", "hsdp"] = default(
        "auto", "sharding over several processes; auto: none if all fits", free=True
    )


class Settings(RunSettings, BlockSettings, NetworkSettings):
    """All settings of a spec, complete."""

    save_at: tuple[Positive | Words, ...] = default((), "steps, or words, whose checkpoints stay")


STAGE_SETTINGS = ("layers", *BlockSettings.model_fields)
"""The settings a ``stage`` block may change; all others hold for the whole run."""


@cache
def aliases() -> Mapping[str, str]:
    """The papers' letters and the settings that they abbreviate, ``{"L": "layers", ...}``."""
    return {alias: name for name in Settings.model_fields if (alias := declared(name)["alias"])}


def canonical(name: str) -> str:
    """The setting of a name, or of a letter of the papers."""
    return aliases().get(name, name)


def declared(setting: str) -> dict[str, Any]:
    """The ``alias`` of a setting, and the ``source`` of its default or the rule it follows."""
    extra = Settings.model_fields[setting].json_schema_extra
    assert isinstance(extra, dict), f"setting {setting} states no source"
    return extra


FREE = {n: f.default for n, f in Settings.model_fields.items() if declared(n).get("free")}
"""Settings that change no result of a run and so may change on resume, and their defaults."""
