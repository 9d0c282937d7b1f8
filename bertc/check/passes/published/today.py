"""Published fine-tuning recipes of today's encoders, as data, and the shape of a recipe."""

from typing import Literal, Required, TypedDict

from bertc.ir.learning import Adam, Choose, Glue, Race, Read, Squad, Tag, Tagging, Task
from bertc.ir.learning.schedule import Polynomial
from bertc.ir.network.head import PoolerKind


class Recipe(TypedDict, total=False):
    """Settings of a stage, and whether the encoder has a pooler."""

    optimizer: Required[Adam]
    batch: Required[int]
    seq: Required[int]
    epochs: float
    steps: int
    pooler: PoolerKind


MODERNBERT_GLUE = {  # ModernBERT src/evals/glue_jobs.py: rate, decay, passes, batch
    "mnli": (5e-5, 1e-6, 2.0, 64),
    "rte": (1e-5, 1e-5, 3.0, 16),
    "qqp": (3e-5, 3e-6, 5.0, 16),
    "cola": (5e-5, 5e-6, 10.0, 32),
    "mrpc": (8e-5, 8e-6, 10.0, 32),
    "qnli": (1e-5, 1e-6, 10.0, 16),
    "sst2": (3e-5, 3e-6, 3.0, 16),
    "stsb": (3e-5, 3e-6, 10.0, 32),
}
# mosaicml/examples, benchmarks/bert/src/glue/finetuning_jobs.py: all but MNLI as ModernBERT.
MOSAIC_GLUE = {**MODERNBERT_GLUE, "mnli": (5e-5, 5e-6, 3.0, 48)}
# microsoft/DeBERTa, experiments/glue/*.sh, deberta-v3-large: rate, warm-up as a share of the
# official steps, passes, batch, tokens, dropout of the head.
DEBERTA_GLUE = {
    "mnli": (7e-6, 0.041, 2.0, 64, 256, 0.3),
    "cola": (5.5e-6, 0.019, 10.0, 32, 64, 0.1),
    "mrpc": (6e-6, 0.072, 6.0, 32, 128, 0.2),
    "qnli": (7e-6, 0.02, 6.0, 64, 512, 0.2),
    "qqp": (1e-5, 0.029, 6.0, 64, 320, 0.2),
    "rte": (1e-5, 0.107, 6.0, 32, 320, 0.3),
    "sst2": (6e-6, 0.03, 8.0, 32, 128, 0.1),
    "stsb": (7e-6, 0.069, 4.0, 32, 128, 0.1),
}
DEBERTA_MNLI = {  # mnli.sh, the smaller ones: rate, warm-up, dropout; 3 passes
    "xsmall": (4.5e-5, 0.054, 0.1),
    "small": (4.5e-5, 0.081, 0.2),
    "base": (1.5e-5, 0.054, 0.1),
}
LARGE_HIDDEN = 1024


def reads(task: Task) -> bool:
    """True if answers are spans of a passage."""
    return isinstance(task, Squad | Read)


def chooses(task: Task) -> bool:
    """True if answers are choices of several texts."""
    return isinstance(task, Race | Choose)


def modernbert(task: Task) -> Recipe:
    """glue_jobs.py, and misc_jobs.py's SWAG for choices; the scheduler of its finetuning files.

    Other texts and tags as MNLI; spans are bertc's own, which has longer rows for them. The pooler
    is that of configuration_bert.py, pooling_type.
    """
    recipe = _by_decoupled_adam(MODERNBERT_GLUE, task)
    if chooses(task):
        rule = recipe["optimizer"].model_copy(update={"lr": 1e-5, "decay": 5e-6})
        recipe |= {"optimizer": rule, "batch": 32, "epochs": 1.0}
    return {**recipe, "pooler": "transform"}


def mosaicbert(task: Task) -> Recipe:
    """finetuning_jobs.py; yamls/finetuning/glue. All but GLUE as MNLI, in longer rows."""
    return _by_decoupled_adam(MOSAIC_GLUE, task)


def _by_decoupled_adam(table: dict[str, tuple[float, float, float, int]], task: Task) -> Recipe:
    lr, decay, passes, batch = table.get(glue_name(task), table["mnli"])
    rule = Adam(
        lr=lr, warmup=0.06, betas=(0.9, 0.98), decay=decay, decoupled=True, decay_exempt="none",
        clip=0.0,
    )  # fmt: skip
    seq = 512 if reads(task) or chooses(task) else 256
    return {"optimizer": rule, "batch": batch, "seq": seq, "epochs": passes}


def nomic(task: Task) -> Recipe:
    """nomic-ai/contrastors, configs/train/glue.yaml, for all tasks; spans, choices in longer rows.

    finetune_glue.py, configure_optimizer: neither norms nor biases decay.
    """
    rule = Adam(lr=3e-5, warmup=0.06, betas=(0.9, 0.98), decay=1e-6, clip=0.0)
    seq = 384 if reads(task) else 512 if chooses(task) else 128
    return {"optimizer": rule, "batch": 16, "seq": seq, "epochs": 10.0}


def neobert() -> Recipe:
    """chandar-lab/NeoBERT, conf/glue.yaml, whose id names batch and rate; conf/trainer/glue.yaml.

    Its launcher searches around them. conf/scheduler/glue.yaml, conf/optimizer/adamw.yaml: down to
    a tenth; glue/train.py exempts biases alone from decay.
    """
    rule = Adam(
        lr=1e-5, warmup=0.06, schedule=Polynomial(end=0.1), betas=(0.9, 0.95), eps=1e-8,
        decay_exempt="none", clip=0.0,
    )  # fmt: skip
    return {"optimizer": rule, "batch": 8, "seq": 1024, "epochs": 10.0}


def deberta(task: Task, hidden: int, layers: int) -> Recipe:
    """experiments/glue/*.sh; experiments/ner/ner.sh; experiments/my_exp/run_race.sh.

    The smaller ones of version 3 have a script for MNLI alone: of other tasks they take its rate,
    and what large has else. Warm-up is 10% where no script says it (optims/args.py). Spans are
    bertc's own. pooling.py, ContextPooler: GELU.
    """
    lr, warmup, passes, batch, seq, _ = DEBERTA_GLUE.get(glue_name(task), DEBERTA_GLUE["mnli"])
    if (size := _size(hidden, layers)) != "large":
        lr, share, _ = DEBERTA_MNLI[size]
        if glue_name(task) in ("mnli", ""):
            warmup, passes = share, 3.0
    if not isinstance(task, Glue):
        warmup = 0.1
    if isinstance(task, Tag | Tagging):
        batch, seq, passes = 16, 512, 10.0
    elif reads(task):
        batch, seq, passes = 32, 384, 3.0
    elif chooses(task):
        batch, seq, passes = 32, 320, 6.0
    rule = Adam(
        lr=lr, warmup=warmup, schedule=Polynomial(decay_from="start"), bias_correction=False
    )
    return {"optimizer": rule, "batch": batch, "seq": seq, "epochs": passes, "pooler": "gelu"}


def deberta_dropout(task: Task, hidden: int, layers: int) -> float:
    """The head's dropout, --cls_drop_out: by task in large, by size in the smaller ones."""
    if isinstance(task, Tag | Tagging):
        return 0.0
    if (size := _size(hidden, layers)) != "large":
        return DEBERTA_MNLI[size][-1]
    return DEBERTA_GLUE.get(glue_name(task), DEBERTA_GLUE["mnli"])[-1]


def _size(hidden: int, layers: int) -> Literal["xsmall", "small", "base", "large"]:
    """The release that is most like a network."""
    if hidden >= LARGE_HIDDEN:
        return "large"
    return "xsmall" if hidden < 768 else "small" if layers < 12 else "base"


def glue_name(task: Task) -> str:
    """The name of a task of GLUE, else empty."""
    return task.task if isinstance(task, Glue) else ""
