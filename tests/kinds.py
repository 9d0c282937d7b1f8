"""A small spec of every objective, unit of masking and row format, and of what goes with them.

Teachers know 500 tokens and have two heads.
"""

from typing import get_args

from bertc.ir.base import Initializer
from bertc.ir.changing.pruning import Pruning
from bertc.ir.data import Format
from bertc.ir.learning.average import Average
from bertc.ir.learning.batch_warmup import BatchWarmup
from bertc.ir.learning.objective import Distillation, Pretraining
from bertc.ir.learning.optimizer import Optimizer, Schedule
from bertc.ir.network.attention import Attention
from bertc.ir.network.body import BodyKind
from bertc.ir.network.ffn import Ffn
from bertc.ir.network.generator import Generator
from bertc.ir.network.head import Head
from bertc.ir.network.norm import Norm
from bertc.ir.network.positions import Positions
from bertc.ir.network.sharing import Sharing
from bertc.ir.network.table import TokenTable
from bertc.ir.terms.masking import Masking, Unit
from bertc.ir.vocabulary import Vocabulary

PAIRS = 'data=pairs(en="a.en", fr="a.fr")'
XLNET = "attention=relative(untie=true, segments=true) segments=0"
TEACHER = "teacher=spec('layers=4 hidden=48 heads=2 ffn=64 seq=64 vocab=500')"
OBJECTIVES = {
    "mlm": "objective=mlm",
    "pairs": "objective=mlm format=segment-pair",
    "blocks": "objective=mlm format=blocks",
    "words": "objective=mlm(unit=word)",
    "ngrams": "objective=mlm(unit=ngram) format=full-sentences",
    "packed": "objective=mlm+nsp format=sentence-pair pack=true",
    "tlm": f"objective=tlm {PAIRS}",
    "mlm+tlm": f'objective=mlm+tlm {PAIRS}+files("a.txt") languages=["en", "fr"] '
    "language_embeddings=true",
    "sbo": "objective=span+sbo format=single-segment",
    "tlm+sbo": f"objective=tlm(unit=span)+sbo {PAIRS}",
    "decoder": "objective=mlm+nsp format=segment-pair head=transform(decoder=64)",
    "nsp": "objective=mlm+nsp format=segment-pair",
    "sop": "objective=mlm+sop format=segment-pair",
    "clm": "objective=clm attention=relative memory=16 format=stream",
    "documents": "objective=clm format=doc-sentences pack=true",
    "plm": "objective=plm",
    "xlnet": f"objective=plm {XLNET} format=stream-pair(both_ways=true) memory=16",
    "rtd, drawn": "objective=rtd generator=unigram",
    "rtd, guessed": "objective=rtd*50+mlm generator=0.5 format=segment-pair",
    "rtd, masked": "objective=rtd(over=masked)+span+sbo generator=0.5 format=single-segment",
    "restore": "objective=restore+mlm generator=0.5",
    "restore, all": "objective=restore(over=all) generator=unigram",
    "kd": f"objective=mlm+kd(logits, T=2)+kd(hidden)+kd(embeddings)+kd(cls, layers=last) {TEACHER}",
    "kd, attention": "objective=kd(attention, of=probabilities, loss=kl)+kd(relations, heads=4)"
    f"+mlm format=sentence-pair pack=true {TEACHER}",
    "kd, masked": f"objective=kd(logits, over=masked)+kd(attention, over=masked)+mlm {TEACHER}",
}


def kinds_of(union: object) -> set[str]:
    """The kinds of a closed union, ``Annotated`` or not."""
    members = get_args(union)
    if not hasattr(members[0], "model_fields"):
        members = get_args(members[0])
    return {str(member.model_fields["kind"].default) for member in members}


TEXT_KINDS, FORMAT_KINDS = kinds_of(Pretraining) | kinds_of(Distillation), kinds_of(Format)
UNIT_KINDS = kinds_of(Unit)
PARTS_OF_A_STEP = ("embeddings", "attention", "ffn", "head", "optimiser", "loader")
"""Those of a transformer, in the order in which tables have them."""
UNIONS: dict[str, object] = {
    "attention": Attention,
    "positions": Positions,
    "share": Sharing,
    "norm": Norm,
    "activation": Ffn,
    "table": TokenTable,
    "head": Head,
    "initializer": Initializer,
    "body": BodyKind,
    "generator": Generator,
    "optimizer": Optimizer,
    "schedule": Schedule,
    "average": Average,
    "batch_warmup": BatchWarmup,
    "prune": Pruning,
    "masking": Masking,
    "vocab": Vocabulary,
    "format": Format,
    "unit": Unit,
}
NETWORKS: dict[str, dict[str, str]] = {
    "attention": {
        "full": "attention=full",
        "local": "attention=local(4)",
        "relative": "attention=relative positions=none",
        "disentangled": "attention=disentangled(4, 4) positions=none",
    },
    "positions": {
        "learned": "positions=learned(32)",
        "bucketed": "positions=bucketed(32, buckets=4, distance=4)",
        "sinusoidal": "positions=sinusoidal",
        "rotary": "positions=rotary",
        "alibi": "positions=alibi",
        "none": "positions=none attention=relative",
    },
    "share": {
        **{kind: f"share={kind}" for kind in ("none", "all", "attention", "ffn")},
        "groups": "share=groups(1)",
        "map": "share=map([0, 1])",
    },
    "norm": {kind: f"norm={kind}" for kind in ("post", "pre", "sandwich")},
    "activation": {"mlp": "activation=relu", "geglu": "activation=geglu"},
    "table": {"whole": "table=whole", "adaptive": "table=adaptive([50]) head=adaptive"},
    "head": {
        "transform": "head=transform",
        "linear": "head=linear",
        "adaptive": "head=adaptive table=adaptive([50], div=1)",
    },
    "initializer": {
        kind: f"initializer={kind}" for kind in ("truncated-normal", "normal", "fan-in", "uniform")
    },
    "body": {"transformer": "", "bilstm": "body=bilstm(8)"},
    "generator": {
        "none": "generator=none",
        "network": "generator=0.5 objective=rtd+mlm",
        "unigram": "generator=unigram objective=rtd",
        "random": "generator=random objective=rtd",
    },
    "optimizer": {kind: f"optimizer={kind}" for kind in ("adamw", "lamb", "stable-adamw", "muon")},
    "schedule": {
        kind: f"optimizer=adamw(schedule={kind})"
        for kind in ("polynomial", "cosine", "constant", "inverse-sqrt", "wsd")
    },
    "average": {"none": "average=none", "ema": "average=ema(2)"},
    "batch_warmup": {"none": "batch_warmup=none", "rising": "batch_warmup=rising(4, 2)"},
    "prune": {
        "none": "",
        "heads": "prune=heads(50%)",
        "neurons": "prune=neurons(50%)",
        "layers": "prune=layers([0]) init=random",
    },
    "masking": {"dynamic": "", "static": "objective=mlm(masking=static(1))"},
    "vocab": {
        "wordpiece": "vocab=wordpiece(100)",
        "bpe": "vocab=bpe(300)",
        "unigram": "vocab=unigram(100)",
        "words": "vocab=words(100)",
        "bytes": "vocab=bytes",
        "tokenizer": 'vocab="no/such/file"',
    },
    "format": {
        "segment-pair": "format=segment-pair",
        "sentence-pair": "format=sentence-pair",
        "full-sentences": "format=full-sentences",
        "blocks": "format=blocks",
        "doc-sentences": "format=doc-sentences",
        "single-segment": "format=single-segment",
        "stream": "format=stream objective=clm attention=relative",
        "stream-pair": f"format=stream-pair objective=plm {XLNET}",
    },
    "unit": {kind: f"objective=mlm(unit={kind})" for kind in ("token", "word", "ngram", "span")},
}
"""Of every union the smallest spec of each kind, where it makes a network or a step."""
