"""Published fine-tuning recipes of each system, as data: settings, and arguments of tasks."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, NamedTuple, TypedDict

from bertc.check.passes.published import today
from bertc.check.passes.published.today import Recipe, chooses, glue_name, reads
from bertc.ir.learning import Adam, Classify, Embed, Read, Regress, Rerank, Tag
from bertc.ir.learning.answer import Conditioned
from bertc.ir.learning.schedule import ConstantRate, Polynomial
from bertc.ir.learning.task import Glue, Squad, Tagging, Task, Xnli
from bertc.ir.network.head import PoolerKind
from bertc.ir.terms.node import System


class TaskArguments(TypedDict, total=False):
    """Arguments of a task."""

    first: Literal["choice"]
    keeps: Literal["beginning"]
    head: Conditioned
    both_orders: bool
    dropout: float


ALBERT_GLUE = {  # albert/run_glue.sh: warm-up, rate, steps, batch
    "sst2": (1256, 1e-5, 20935, 32),
    "mnli": (1000, 3e-5, 10000, 128),
    "cola": (320, 1e-5, 5336, 16),
    "qnli": (1986, 1e-5, 33112, 32),
    "qqp": (1000, 5e-5, 14000, 128),
    "rte": (200, 3e-5, 800, 32),
    "stsb": (214, 2e-5, 3598, 16),
    "mrpc": (200, 2e-5, 800, 32),
}
STACKED_GLUE = {  # StackingBERT/reproduce_glue.sh: passes, batch, rate
    "stsb": (4.0, 32, 5e-5),
    "rte": (4.0, 16, 3e-5),
    "qqp": (4.0, 32, 5e-5),
    "qnli": (3.0, 32, 5e-5),
}
SYMMETRIC = ("mrpc", "stsb", "qqp")  # StackingBERT/reproduce_glue.sh, --symmetric


class Published(NamedTuple):
    """The system, size and body whose recipe a task follows."""

    system: System
    hidden: int
    layers: int = 12
    body: str = "transformer"

    @property
    def whose(self) -> str:
        """The system, or the body, in words before its recipe."""
        return f"{self.system if self.body == 'transformer' else self.body}'s"

    def recipe(self, task: Task) -> Recipe:
        """Settings for a task and a network's size, or for the most similar published task."""
        if isinstance(task, Embed):
            return _embedding(task)
        if self.body == "bilstm":
            return _recurrent(task)
        match self.system:
            case "electra":
                return _electra(task, self.hidden)
            case "deberta":
                return today.deberta(task, self.hidden, self.layers)
            case of_any_size:
                return OF_ANY_SIZE[of_any_size](task)

    def arguments(self, task: Task) -> TaskArguments:
        """Arguments of a task for which the authors did not use the default."""
        glue = glue_name(task)
        second = isinstance(task, Squad) and task.version == 2
        second |= isinstance(task, Read) and task.unanswerable
        match self.system:
            case "roberta" if chooses(task):  # fairseq sentence_ranking.py
                return {"first": "choice", "keeps": "beginning"}
            case "albert" if second:  # run_squad_v2.py
                return {"head": Conditioned()}
            case "xlnet" if reads(task):  # run_squad.py
                return {"head": Conditioned()}
            case "electra" if reads(task):  # qa_tasks.py
                return {"head": Conditioned(width=512, units="gelu-tanh")}
            case "electra" if glue in ("mrpc", "stsb"):  # configure_finetuning.py, double_unordered
                return {"both_orders": True}
            case "distilbert" if task.pooled:  # configuration_distilbert.py, seq_classif_dropout
                return {"dropout": 0.2}
            # glue-xnli.py; configuration_modernbert.py
            case "xlm" | "modernbert" | "eurobert" | "ultrabert":
                return {"dropout": 0.0}
            case "deberta" if task.pooled or isinstance(task, Tagging | Tag):
                return {"dropout": today.deberta_dropout(task, self.hidden, self.layers)}
            case "stackingbert":  # fairseq_model.py, FairseqClassifierModel
                both: TaskArguments = {"both_orders": True} if glue in SYMMETRIC else {}
                return {"dropout": 0.0, **both}
            case _:
                return {}


def _bert(task: Task) -> Recipe:
    """run_classifier.py and run_squad.py; optimization.py's Adam."""
    rule = Adam(lr=5e-5, warmup=0.1, schedule=Polynomial(decay_from="start"), bias_correction=False)
    if reads(task):  # --max_seq_length; paper, 4.2 and 4.3
        second = isinstance(task, Squad) and task.version == 2
        passes, batch = (2.0, 48) if second else (3.0, 32)
        return {"optimizer": rule, "batch": batch, "seq": 384, "epochs": passes}
    passes = 2.0 if isinstance(task, Xnli) else 3.0  # multilingual.md
    return {"optimizer": rule, "batch": 32, "seq": 512 if chooses(task) else 128, "epochs": passes}


def _roberta(task: Task) -> Recipe:
    """fairseq examples/roberta README.glue.md, README.race.md; adam.py decays every weight."""
    glue = glue_name(task)
    rule = partial(Adam, betas=(0.9, 0.98), decay_exempt="none")
    if chooses(task):
        fixed = rule(lr=1e-5, warmup=0, schedule=ConstantRate(), clip=0.0)
        return {"optimizer": fixed, "batch": 16, "seq": 512, "epochs": 5.0}
    if reads(task):  # paper, appendix table 10
        return {"optimizer": rule(lr=1.5e-5, warmup=0.06), "batch": 48, "seq": 512, "epochs": 2.0}
    lr = 2e-5 if glue in ("rte", "stsb") else 1e-5
    warmup = 0.25 if glue == "qqp" else 0.06  # 28,318 of 113,272
    decaying = rule(lr=lr, warmup=warmup, decay=0.1, clip=0.0)
    few = glue in ("cola", "mrpc", "rte", "stsb")
    return {"optimizer": decaying, "batch": 16 if few else 32, "seq": 512, "epochs": 10.0}


def _albert(task: Task) -> Recipe:
    """run_glue.sh; README, "Fine-tuning on SQuAD"; run_race.py; optimization.py's Adam."""
    rule = partial(Adam, schedule=Polynomial(decay_from="start"), bias_correction=False)
    if reads(task):
        return {"optimizer": rule(lr=5e-5, warmup=0.1), "batch": 48, "seq": 384, "epochs": 2.0}
    if chooses(task):
        return {"optimizer": rule(lr=1e-5, warmup=1000), "batch": 32, "seq": 512, "steps": 12000}
    if known := ALBERT_GLUE.get(glue_name(task)):
        warmup, lr, steps, batch = known
        return {"optimizer": rule(lr=lr, warmup=warmup), "batch": batch, "seq": 512, "steps": steps}
    return {"optimizer": rule(lr=2e-5, warmup=0.1), "batch": 32, "seq": 512, "epochs": 3.0}


def _electra(task: Task, hidden: int) -> Recipe:
    """configure_finetuning.py; run_finetuning.py reads the first state. Choices are bertc's own:
    128 tokens would be a question alone.
    """
    large = hidden >= today.LARGE_HIDDEN
    lr, layer_decay = (5e-5, 0.9) if large else (1e-4, 0.8)
    schedule = Polynomial(decay_from="throughout")
    rule = Adam(
        lr=lr, warmup=0.1, schedule=schedule, bias_correction=False, layer_decay=layer_decay
    )
    tags = isinstance(task, Tagging | Tag)
    seq = 512 if reads(task) or chooses(task) else 256 if tags else 128
    long = glue_name(task) in ("rte", "stsb")
    passes = 2.0 if reads(task) else 10.0 if long else 3.0
    # Own texts have the head of ElectraForSequenceClassification (modeling_electra.py).
    pooler: PoolerKind = "gelu" if isinstance(task, Classify | Regress | Rerank) else False
    return {"optimizer": rule, "batch": 32, "seq": seq, "epochs": passes, "pooler": pooler}


def _xlnet(task: Task) -> Recipe:
    """README; scripts/tpu_squad_large.sh, tpu_race_large_bsz32.sh. Without decay model_utils.py has
    TensorFlow's own Adam, which corrects its moments.
    """
    if reads(task):
        rule = Adam(lr=3e-5, warmup=1000, decay=0.0, gradient_decay=0.75)
        return {"optimizer": rule, "batch": 48, "seq": 512, "steps": 8000}
    if chooses(task):
        rule = Adam(lr=2e-5, warmup=1000, decay=0.0)
        return {"optimizer": rule, "batch": 32, "seq": 512, "steps": 12000}
    if glue_name(task) == "stsb":
        rule = Adam(lr=5e-5, warmup=120, decay=0.0, eps=1e-8)
        return {"optimizer": rule, "batch": 32, "seq": 128, "steps": 1200}
    rule = Adam(lr=2e-5, warmup=0.1, decay=0.0, eps=1e-8)  # run_classifier.py, --adam_epsilon
    return {"optimizer": rule, "batch": 32, "seq": 128, "epochs": 3.0}


def _spanbert(task: Task) -> Recipe:
    """README: run_squad.py, run_glue.py, run_tacred.py. With --fp16 their Adam is apex's FusedAdam,
    whose eps is 1e-8.
    """
    rule = Adam(lr=2e-5, warmup=0.1, eps=1e-8, bias_correction=False)
    passes, seq = (4.0, 512) if reads(task) else (10.0, 512 if chooses(task) else 128)
    return {"optimizer": rule, "batch": 32, "seq": seq, "epochs": passes}


def _xlm(task: Task) -> Recipe:
    """README: glue-xnli.py. An epoch is 20,000 examples, or all where there are fewer; the first
    state itself is read.
    """
    rule = Adam(lr=2.5e-5, warmup=0, schedule=ConstantRate(), eps=1e-8, decay=0.0, clip=0.0)
    passes = 250 * min(1.0, 20_000 / max(1, task.examples))
    seq = 384 if reads(task) else 512 if chooses(task) else 256
    return {"optimizer": rule, "batch": 8, "seq": seq, "epochs": passes, "pooler": False}


def _stackingbert(task: Task) -> Recipe:
    """reproduce_glue.sh; tasks/glue.py, --max-positions; the first state itself is read.

    Pairs in an order drawn anew each time are, in half as many passes, pairs in both orders.
    """
    glue = glue_name(task)
    passes, batch, lr = STACKED_GLUE.get(glue, (3.0, 16, 5e-5))
    if isinstance(task, Glue) and glue in SYMMETRIC and task.both_orders:
        passes /= 2
    rule = Adam(lr=lr, warmup=0.1, decay_exempt="none", clip=0.0)
    seq = 512 if chooses(task) else 384
    return {"optimizer": rule, "batch": batch, "seq": seq, "epochs": passes, "pooler": False}


def _embedding(task: Embed) -> Recipe:
    """SimCSE, appendix A, for texts alone; SBERT's training_stsbenchmark.py, training_nli_v2.py."""
    by_token = task.answer.by_token
    longest = max(task.longest or 128, by_token.query if by_token else 0)
    lr, warmup, batch, seq, passes = 5e-5, 0.1, 128, min(longest, 128), 1.0
    if not task.positive:
        lr, warmup, batch, seq = 3e-5, 0.0, 64, min(seq, 32)
    elif task.score:
        batch, passes = 16, 4.0
    rule = Adam(lr=lr, warmup=warmup, decay=0.0, eps=1e-8)
    return {"optimizer": rule, "batch": batch, "seq": seq, "epochs": passes}


def _recurrent(task: Task) -> Recipe:
    """Tang et al. 2019, 4.2: batches of 50 for SST-2, else of 256, up to 30 passes.

    Theirs is AdaDelta at rate 1, which is no rule here: this is Adam as Kingma and Ba 2015 have it.
    """
    rule = Adam(lr=1e-3, warmup=0, schedule=ConstantRate(), eps=1e-8, decay=0.0)
    single = glue_name(task) == "sst2"
    return {"optimizer": rule, "batch": 50 if single else 256, "seq": 128, "epochs": 30.0}


OF_ANY_SIZE: Mapping[System, Callable[[Task], Recipe]] = {
    "bert": _bert,
    "roberta": _roberta,
    "albert": _albert,
    "xlnet": _xlnet,
    "spanbert": _spanbert,
    "xlm": _xlm,
    "stackingbert": _stackingbert,
    # The paper says no rates; modeling_distilbert.py, pre_classifier.
    "distilbert": lambda task: {**_bert(task), "pooler": "relu"},
    "modernbert": today.modernbert,
    "mosaicbert": today.mosaicbert,
    "nomic": today.nomic,
    "neobert": lambda _: today.neobert(),
    # Rates are not known here; EuroBertConfig, classifier_pooling: late.
    "eurobert": lambda task: {**_bert(task), "pooler": "gelu-mean"},
    "ultrabert": lambda task: {**_bert(task), "pooler": False},
}
"""Recipes that do not depend on the size of a network."""
