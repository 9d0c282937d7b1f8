"""Values of every axis of a program, as settings beside those of one tiny network.
Paths are those of ``tests/net/farm`` and of a run folder beside it, ``bert``, of the base alone.
"""

import re
from collections.abc import Mapping

from tests.kinds import UNIONS
from tests.net.programs import TOY

BASE = {**TOY, "layers": "4"}
GROWING = "layers= steps= stage 'one' { layers=2 steps=2 } stage 'two' { layers=4 steps=2 }"
PRUNING = "steps= stage 'whole' {{ steps=2 }} stage 'less' {{ prune={} steps=2 }}"
TRANSLATED = "data=pairs(en='a.en',fr='a.fr')"
OTHER_BODY = "layers= hidden= heads= ffn= dropout="
AXES: Mapping[str, tuple[str, ...]] = {
    "positions": (
        "positions=sinusoidal", "positions=sinusoidal(scaled=true)", "positions=rotary",
        "positions=rotary(500,pairs=interleaved,share=0.5,scale=2)", "positions=alibi",
        "positions=bucketed(64)", "positions=none",
    ),
    "attention": (
        "attention=full(kv_heads=1)", "attention=full(bias=false)",
        "attention=local(16,global_every=2)", "attention=relative",
        "attention=relative(untie=true,segments=true)", "attention=disentangled(8,16)",
        *(f"attention=full(gate={gate})" for gate in sorted(UNIONS["gate"] - {"none"})),
        "attention=disentangled(8,16,beyond=false,gate=gelu)",
    ),
    "activation": ("activation=relu", "activation=geglu", "activation=swiglu(bias=false)"),
    "norm": (
        "norm=pre", "norm=pre(bias=false,embeddings=true,first=false)", "norm=pre(affine=false)",
        "norm=post(function=rms)", "norm=pre(function=rms)",
        "norm=pre(affine=false,context=true,inner=true,after_attention=true)",
    ),
    "residual": (
        "residual=elc norm=pre", "residual=elc(zero=true) norm=pre",
        *(f"residual={kind}" for kind in sorted(UNIONS["residual"] - {"plain", "elc", "own"})),
    ),
    "head": ("head=linear", "head=linear(tied=false)", "head=transform(affine=false,dropout=0.1)"),
    "pooler": ("pooler=mean-gelu", "pooler=transform"),
    "table": ("embedding=16", "table=adaptive([20,60],2)"),
    "share": (
        "share=all", "share=attention", "share=ffn", "share=groups(2)",
        "share=map([0,1,0,1],[0,0,2,2])",
    ),
    "widths": ("ffn=[64,32,64,32]", "heads=[2,4,2,4] head_dim=8", "segments=0"),
    "dropout": ("dropout=0.1", "dropout=dropout(0.1,0)"),
    "initializer": (
        "initializer=fan-in", "initializer=uniform(0.02)", "initializer=normal(0.02,norms=0.02)",
        "initializer=truncated-normal(0.02,cut=3,depth_scaled=true)",
        "initializer=truncated-normal(depth_scaled=by-layer)",
    ),
    "vocab": (
        "vocab=bytes", "vocab=words(100)", "vocab=unigram(120)", "vocab=bpe(300)",
        "vocab=wordpiece(120,multiple=64)",
    ),
    "objective": (
        "objective=mlm(unit=word,masking=static(2))", "objective=mlm(unit=ngram)+nsp",
        "objective=mlm+sop", "objective=span+sbo", "objective=clm", "objective=plm",
        "objective=rtd generator=unigram", "objective=rtd*50+mlm generator=0.5",
        "objective=rtd*50+mlm generator=network(0.5,tie=gdes) embedding=32",
        "objective=rtd(over=masked)+mlm+sop generator=network(0.5,tie=none)",
        f"objective=tlm(unit=span)+sbo {TRANSLATED}",
        f"objective=mlm+tlm {TRANSLATED} language_embeddings=true mixing=batches",
        "objective=mlm+kd(logits,T=2)+kd(embeddings) teacher='bert'",
        "objective=mlm+kd(hidden)+kd(cls,layers=last) teacher='bert'",
        "objective=mlm+kd(attention)+kd(relations,heads=4) teacher='bert'",
        "objective=classify('birds.train.tsv','birds.dev.tsv')",
        "objective=regress('score.train.tsv','score.dev.tsv')",
        "objective=tag('tag.train.tsv','tag.dev.tsv')",
    ),
    "rows": (
        "format=segment-pair", "format=sentence-pair", "format=blocks", "format=single-segment",
        "format=stream", "format=stream-pair", "format=doc-sentences pack=true", "memory=16",
    ),
    "body": (f"body=bilstm(16) embedding=32 {OTHER_BODY}",),
    "optimizer": (
        "optimizer=adam(1e-3,warmup=1,gradient_decay=0.9)",
        "optimizer=adamw(1e-3,warmup=32 tokens,layer_decay=0.8,schedule=inverse-sqrt)",
        "optimizer=lamb(1e-2,warmup=0,schedule=cosine(10%))",
        "optimizer=stable-adamw(1e-3,warmup=1,schedule=wsd(50%,shape=linear))",
        "optimizer=muon(1e-3,adamw_lr=1e-4,schedule=constant)",
    ),
    "batches": ("batch_warmup=rising(2,2)", "microbatch=2", "recompute=on", "precision=bf16"),
    "stages": (
        f"grow=stack {GROWING}", f"grow=interleave(moments=carry) {GROWING}",
        f"grow=tile {GROWING}", f"grow=identity norm=pre {GROWING}",
        PRUNING.format("heads(50%,every=25%,examples=8)"),
        PRUNING.format("neurons(25%,by=magnitude)"),
        "seq= steps= stage 'short' { seq=16 steps=2 } stage 'long' { seq=32 steps=2 }",
        "objective= steps= stage 'a' { objective=clm steps=2 } stage 'b' { objective=mlm steps=2 }",
    ),
    "init": ("init='bert'", "init=layers('bert',[0,3]) layers=2", "init=vectors('vectors.txt')"),
    "freeze": ("freeze=1", "freeze=embeddings"),
    "own": (
        "ffn=own('own_parts.py:Experts')", "attention=own('own_parts.py:Attention')",
        "norm=pre(function=own('own_parts.py:Tanh'))", "residual=own('own_parts.py:Gated')",
        "objective=mlm+own('own_parts.py:Detected')",
        "objective=mlm(unit=own('own_parts.py:Pairs'))", "activation=own('own_parts.py:Sloped')",
        "positions=own('own_parts.py:Placed',most=64)",
        "positions=own('own_parts.py:Turned',on=heads)",
        f"body=own('own_parts.py:Mixer',hidden=32) {OTHER_BODY}",
    ),
}  # fmt: skip
"""A text for each value: settings, those that are empty taken away, and stages behind them."""


def written(*values: str) -> str:
    """The base with the settings of some values; the last one counts of those written twice."""
    settings, blocks = dict(BASE), ""
    for value in values:
        own, _, stages = value.partition(" stage ")
        settings |= dict(setting.split("=", 1) for setting in re.split(r" (?=\w+=)", own))
        blocks += f" stage {stages}" if stages else ""
    return " ".join(f"{name}={value}" for name, value in settings.items() if value) + blocks
