"""A small spec of every kind of every closed union, and of what goes with objectives.

Teachers of objectives know 500 tokens and have two heads. Paths are those of ``tests/net/farm``.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, get_args

from bertc.ir.base import BY_KIND, Node
from bertc.ir.learning.custom_task import TASKS
from bertc.ir.network.attention_node import Gate
from bertc.ir.network.ffn import Activation
from bertc.ir.program.settings import Settings

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
    "mntp": "objective=mntp",
    "two directions": "objective=mntp+clm",
    "adaptive": "objective=mlm(40%, p_end=15%, unit=adaptive(every=2))",
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


def kinds_of(node: type[Node], seen: frozenset[type[Node]] = frozenset()) -> set[tuple[str, str]]:
    """Every (field, kind) that a closed union in the fields of a node has a member for."""
    pairs = set[tuple[str, str]]()
    for field, info in node.model_fields.items():
        for member, closed in _members(info.annotation, BY_KIND in info.metadata):
            if closed:
                pairs |= {(field, k) for k in get_args(member.model_fields["kind"].annotation)}
            if member not in seen:
                pairs |= kinds_of(member, seen | {node})
    return pairs


def _members(annotation: Any, closed: bool) -> Iterator[tuple[type[Node], bool]]:
    """The nodes in an annotation, and of each whether its ``kind`` chooses it in a union."""
    if isinstance(annotation, type) and issubclass(annotation, Node):
        yield annotation, closed
    parts = get_args(annotation)
    for part in parts:
        yield from _members(part, closed or BY_KIND in parts)


UNIONS: dict[str, set[str]] = defaultdict(set)
"""The kinds of every closed union of a spec, by setting."""
for _field, _kind in kinds_of(Settings):
    UNIONS["vocab" if _field == "vocabulary" else _field].add(_kind)
UNIONS["gate"], UNIONS["activation"] = {*get_args(Gate)}, {*get_args(Activation)}
FORMAT_KINDS, UNIT_KINDS = UNIONS["format"], UNIONS["unit"] - {"own"}
TEXT_KINDS = UNIONS["objective"] - TASKS - {"own"}
PARTS_OF_A_STEP = ("embeddings", "attention", "ffn", "head", "optimiser", "loader")
"""Those of a transformer, in the order in which tables have them."""
CLASSIFY = 'task=classify("birds.train.tsv", "birds.dev.tsv"'
TAG = 'task=tag("tag.train.tsv", "tag.dev.tsv"'
CHOICES = '"choose.train.tsv", "choose.dev.tsv"'
EMBED = f"task=embed({CHOICES}, text=question, positive=a"
GROWING = "layers= steps= stage 'one' {{ {} steps=2 }} stage 'two' {{ {} steps=2 }} grow={}"
TAUGHT = TEACHER.replace("vocab=500", "vocab=100")
ALIKE = {
    "norm": "norm={}", "activation": "activation={}",
    "gate": "attention=full(gate={})", "initializer": "initializer={}",
}  # fmt: skip
"""Settings of which every kind can be written alike, and a new one is tried as it is."""


def alike(kinds: str, spec: str) -> dict[str, str]:
    """Specs of kinds that differ in the kind alone."""
    return {kind: spec.format(kind) for kind in kinds.split()}


ENGLISH = "files('a.en', language='en') languages=['en', 'fr'] language_embeddings=true"
NETWORKS: dict[str, dict[str, str]] = {
    **{of: alike(" ".join(sorted(UNIONS[of])), spec) for of, spec in ALIKE.items()},
    "optimizer": {**alike("adam adamw lamb stable-adamw muon", "optimizer={}"),
                  "own": "optimizer=own('own_parts.py:Lion')"},
    "schedule": {
        **alike("polynomial cosine constant inverse-sqrt wsd", "optimizer=adamw(schedule={})"),
        "own": "optimizer=adamw(schedule=own('own_parts.py:Cosine'))"},
    "attention": {
        "full": "attention=full(norm=rms)",
        "local": "attention=local(4, norm=layer, over=width) norm=pre(last=unbiased, "
        "after_ffn=true)",
        "relative": "attention=relative positions=none",
        "disentangled": "attention=disentangled(4, 4) positions=none",
        "own": "attention=own('own_parts.py:Convolution', full_every=2)",
    },
    "positions": {
        **alike("sinusoidal rotary alibi", "positions={}"), "learned": "positions=learned(32)",
        "bucketed": "positions=bucketed(32, buckets=4, distance=4)",
        "none": "positions=none attention=relative",
        "own": "positions=own('own_parts.py:Turned', on=heads)",
    },
    "scaled": {"none": "", **alike("llama3 yarn", "positions=rotary(scaled={}(4, 1, 8, 16))")},
    "share": {
        **alike("none all attention ffn", "share={}"), "groups": "share=groups(1)",
        "map": "share=map([0, 1])",
    },
    "ffn": {
        "mlp": "activation=relu", **alike("geglu geglu-tanh swiglu", "activation={}"),
        "own": "ffn=own('own_parts.py:Numbered')",
    },
    "residual": {
        "plain": "residual=plain(30)", **alike("elc dwa", "residual={} norm=pre"),
        "own": "residual=own('own_parts.py:Gated') norm=post(function=own('own_parts.py:Tanh'))",
    },
    "table": {"whole": "table=whole(dropped=4)", "adaptive": "table=adaptive([50]) head=adaptive"},
    "head": {
        "transform": "head=transform(tied=false, activation=silu)", "linear": "head=linear",
        "two-layer": "head=two-layer(8, tied=false)",
        "adaptive": "head=adaptive table=adaptive([50], div=1)",
        "bilstm": f"{TAG}, head=bilstm(8, 1))", "plain": 'task=squad(".", version=2)',
        "conditioned": 'task=squad(".", version=2, head=conditioned)',
    },
    "body": {
        "transformer": "", "bilstm": "body=bilstm(8)",
        "own": "body=own('own_parts.py:Mixer', hidden=8)",
    },
    "generator": {
        "none": "generator=none", **alike("unigram random", "generator={} objective=rtd"),
        "network": "generator=network(0.5, tie=gdes) embedding=8 objective=rtd+mlm",
    },
    "average": {"none": "average=none", "ema": "average=ema(2)"},
    "batch_warmup": {"none": "batch_warmup=none", "rising": "batch_warmup=rising(2, 2)"},
    "adapt": {"none": "adapt=none", "lora": "adapt=lora(4, on=attention+ffn)"},
    "prune": {"none": "", **alike("heads neurons", "prune={}(50%)")},
    "masking": {"dynamic": "", "static": "objective=mlm(masking=static(1))"},
    "vocab": {
        **alike("wordpiece unigram words", "vocab={}(100)"), "bpe": "vocab=bpe(300)",
        "bytes": "vocab=bytes", "tokenizer": 'vocab="vocab.txt"',
        "characters": "vocab=characters('ACGT')", "kmers": "vocab=kmers(2, 'ACGT')",
        "listed": "vocab=listed('vocab.txt')",
        "extend": "vocab=extend('vocab.txt', 20)", "trim": "vocab=trim('vocab.txt')",
    },
    "format": {
        **alike("segment-pair sentence-pair full-sentences blocks", "format={}"),
        **alike("doc-sentences single-segment", "format={}"),
        "stream": "format=stream objective=clm attention=relative",
        "stream-pair": f"format=stream-pair objective=plm {XLNET}",
    },
    "unit": alike("token adaptive word ngram span", "objective=mlm(unit={})")
    | {"own": "objective=mlm(unit=own('own_parts.py:Pairs'))"},
    "corpus": {
        "docstrings": "data=docstrings", "files": 'data=files("farm.txt")',
        "fasta": 'data=fasta("farm.fasta")',
        "hf": 'data=hf("nobody/nothing")', "pairs": f"objective=tlm {PAIRS}",
        "prepared": 'data=prepared("prepared")',
    },
    "mixing": alike("rows batches", f"objective=mlm+tlm {PAIRS}+{ENGLISH} mixing={{}}"),
    "source": {
        "none": "", "spec": f"objective=mlm+kd(hidden) {TAUGHT}",
        "run": "objective=mlm+kd(hidden) teacher='bert'",
    },
    "init": {
        "random": "init=random", "run": "init='bert'",
        "layers": "init=layers('bert', [1]) layers=1", "vectors": "init=vectors('vectors.txt')",
    },
    "embeddings": alike("same mean random focus", "init=run('bert', embeddings={})"),
    "grow": {
        kind: "norm=pre " * (kind == "identity") + GROWING.format("layers=1", "layers=2", kind)
        for kind in ("stack", "interleave", "tile", "identity")
    },
    "features": {
        **alike("last second-to-last embeddings", f"{CLASSIFY}) features={{}} freeze=all"),
        **alike("sum concat weighted-sum", f"{CLASSIFY}) features={{}}(2) freeze=all"),
    },
    "copies": {
        **alike("none edit", f"{CLASSIFY}) augment={{}}"),
        "replace": f"{CLASSIFY}) augment=replace('bert')",
        "reverse_complement": 'augment=reverse_complement data=fasta("farm.fasta")',
    },
    "loss": {
        "plain": f"{CLASSIFY}, loss=plain(0.1)) causal=true", "balanced": f"{TAG}, loss=balanced)",
        "weights": f"{CLASSIFY}, labels=many, loss=weights([1, 2, 3]))",
        "focal": f"{CLASSIFY}, loss=focal(1.5, smoothing=0.1))",
    },
    "negatives": {
        "column": f"{EMBED}, negative=b, both=true)",
        "mined": f"{EMBED}, negatives=mined('bert', number=2), widths=[16, 8])",
    },
    "pooling": {
        "tokens": f"{EMBED}, negative=b, pooling=tokens(8, 8))",
        "sparse": f"{EMBED}, negative=b, pooling=sparse(1, 0.5, warmup=50%))",
    },
    "objective": {
        **alike("mlm mntp plm", "objective={}"), **alike("nsp sop", "objective=mlm+{}"),
        **alike("rtd restore", "objective={} generator=unigram"),
        "tlm": f"objective=tlm {PAIRS}", "clm": "objective=clm attention=relative",
        "own": "objective=rtd+own('own_parts.py:Detected') generator=unigram",
        "sbo": "objective=span+sbo format=single-segment",
        **{
            f"kd({of})": f"objective=mlm+kd({of}) {TAUGHT}"
            for of in ("logits", "hidden", "embeddings", "cls", "attention", "relations")
        },
        "glue": 'task=glue(rte, "RTE")', "xnli": 'task=xnli("xnli")',
        "squad": 'task=squad(".", version=2)', "race": 'task=race("race")',
        "tagging": 'task=tagging("tags")', "classify": f"{CLASSIFY})", "tag": f"{TAG})",
        "spans": f"{TAG.replace('tag(', 'spans(')}, units=8)",
        "regress": 'task=regress("score.train.tsv", "score.dev.tsv")',
        "choose": f'task=choose({CHOICES}, choices=["a", "b", "c"])',
        "read": 'task=read("read.train.tsv", "read.dev.tsv")',
        "embed": f"{EMBED}, negative=b, dense=[20, 12], pooling=last)",
        "rerank": f"task=rerank({CHOICES}, text=question, positive=a, negative=b)",
    },
}  # fmt: skip
"""Of every union the smallest spec of each kind."""
