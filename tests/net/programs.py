"""Tiny programs that between them use every kind, all of them trained in a blink.
Paths are those of ``farm/``, where the tests that read this go first.
"""

import shutil
from pathlib import Path

FARM = Path(__file__).parent / "farm"


def copied(source: Path, folder: Path) -> None:
    """Copy a folder of files that may be read-only, to be written."""
    shutil.copytree(source, folder, copy_function=shutil.copyfile, dirs_exist_ok=True)
    for path in (folder, *folder.rglob("*/")):
        path.chmod(0o755)


TOY = {
    "layers": "2", "hidden": "32", "heads": "2", "ffn": "64", "seq": "32", "batch": "4",
    "steps": "3", "log_every": "1", "eval_every": "3", "save_every": "3", "eval_examples": "8",
    "holdout": "20%", "device": "cpu", "precision": "fp32", "compile": "off", "dropout": "0",
    "vocab": "wordpiece(120)", "data": 'files("farm.txt", sentences=lines)',
    # So large an eps that gradients which are noise around 0 move nothing.
    "optimizer": "adamw(lr=1e-2, warmup=0, eps=1e-3)",
}  # fmt: skip

TRANSLATED = 'pairs(en="a.en", fr="a.fr")'
STREAM = {"objective": "clm", "attention": "relative", "memory": "16", "format": "stream"}
XLNET = {
    "objective": "plm", "attention": "relative(untie=true, segments=true)", "segments": "0",
    "format": "stream-pair(both_ways=true)", "memory": "16",
}  # fmt: skip
PACKED = {"pack": "true", "seq": "64"}
ELECTRA = {"objective": "rtd*50 + mlm", "generator": "0.5", "format": "segment-pair"}


def _growing(grow: str, **beside: str) -> dict[str, str]:
    """From one layer after two steps to two, or to four, in which each stands twice."""
    blocks = 'stage "one" { layers=1 steps=2 } stage "two" { layers=2 steps=2 }'
    return {**beside, "grow": grow, "layers": "", "steps": "", "blocks": blocks}


def _pruned(prune: str, **beside: str) -> dict[str, str]:
    """A stage that prunes, and one that trains what is left."""
    blocks = f'stage "prune" {{ prune={prune} steps=2 }} stage "again" {{ steps=2 }}'
    return {**beside, "steps": "", "blocks": blocks}


BERTS = {
    "recipe": "bert", "seq": "24",
    "optimizer": "adamw(lr=1e-2, warmup=0, schedule=polynomial(decay_from=start), eps=1e-3, "
    "bias_correction=false)",
}  # fmt: skip
EMBEDDING = {"optimizer": "adamw(lr=1e-2, warmup=0, eps=1e-3, decay=0)"}


def _asked(task: str, **beside: str) -> dict[str, str]:
    """Without dropout of their own, which differs where there are no C kernels."""
    return {"objective": task.replace(")", ", dropout=0)"), **BERTS, **beside}


PROGRAMS: dict[str, dict[str, str]] = {
    # objectives, row formats and what is masked
    "mlm": {"objective": "mlm"},
    "mlm stable": {"objective": "mlm", "optimizer": "stable-adamw(lr=1e-2, warmup=1, eps=1e-3, "
                   "schedule=wsd(1, shape=linear, end=10%))"},
    "mlm rising": {"objective": "mlm", "batch_warmup": "rising(2, 2)", "steps": "640 tokens",
                   "optimizer": "adamw(lr=1e-2, warmup=64 tokens, eps=1e-3, decoupled=true)"},
    "mlm falling": {"objective": "mlm(40%, eval_p=20%)", "steps": "4"},
    "mlm words": {"objective": "mlm(unit=word, masking=static(2))", "format": "doc-sentences"},
    "mlm ngrams": {"objective": "mlm(unit=ngram)", "format": "full-sentences"},
    "mlm blocks": {"objective": "mlm(count=stochastic)", "format": "blocks", "vocab": "bpe(300)"},
    "nsp packed": {"objective": "mlm + nsp", "format": "sentence-pair", **PACKED},
    "nsp": {"objective": "mlm + nsp", "format": "segment-pair", "vocab": "words(size=100)"},
    "sop": {
        "objective": "mlm + sop", "format": "segment-pair", "share": "all", "embedding": "16",
        "optimizer": "lamb(lr=1e-2, warmup=0, schedule=cosine)", "vocab": "unigram(120)",
    },
    "sbo": {"objective": "span + sbo", "format": "single-segment"},
    "sbo nsp": {"objective": "span + sbo + nsp", "format": "segment-pair", "norm": "pre"},
    "tlm": {"objective": "tlm", "data": TRANSLATED},
    "tlm beside mlm": {
        "objective": "mlm + tlm", "data": f'{TRANSLATED} + files("farm.txt", language="en")',
        "languages": '["en", "fr"]', "language_embeddings": "true", "smoothing": "0.7",
        "mixing": "batches", "head": "linear",
    },
    "tlm sbo": {"objective": "tlm(unit=span) + sbo", "data": TRANSLATED},
    "clm": {"objective": "clm", "format": "doc-sentences", "pack": "true", "seq": "64",
            "optimizer": "adam(lr=1e-2, warmup=0, eps=1e-3, schedule=inverse-sqrt)"},
    "clm gpt": {"objective": "clm", "norm": "pre", "initializer": "normal(0.02, positions=0.01)",
                "vocab": "bytes", "activation": "gelu-tanh"},
    "transformer-xl": {**STREAM, "initializer": "normal(0.02, norms=0.02)",
                       "table": "adaptive([20, 60], 2)", "vocab": "words(size=100)"},
    "plm": {"objective": "plm", "share": "attention"},
    "xlnet": XLNET,
    # what stands in for tokens
    "rtd drawn": {"objective": "rtd", "generator": "unigram", "share": "ffn"},
    "rtd random": {"objective": "rtd", "generator": "random", "share": "groups(1)"},
    "electra": {**ELECTRA, "embedding": "16",
                "initializer": "truncated-normal(0.02, glorot=true)"},
    "taught": {
        "objective": "mlm + kd(logits, T=2) + kd(hidden) + kd(embeddings) + kd(cls, layers=last)",
        "teacher": "spec('layers=4 hidden=48 heads=2 ffn=64 seq=32 vocab=wordpiece(120)')",
    },
    "taught attention": {
        "objective": "mlm + kd(attention) + kd(relations, heads=4, layers=3)",
        "teacher": "spec('layers=4 hidden=48 heads=2 ffn=64 seq=32 vocab=wordpiece(120)')",
    },
    "restored": {"objective": "restore(over=all) + mlm", "generator": "0.5"},
    "electra masked": {"objective": "rtd(over=masked) + span + sbo", "generator": "0.5",
                       "format": "single-segment"},
    # networks
    "sinusoidal": {"objective": "mlm", "positions": "sinusoidal", "initializer": "fan-in",
                   "activation": "relu", "share": "map([0, 1], [0, 0])"},
    "no positions": {"objective": "mlm", "attention": "relative", "positions": "none",
                     "segments": "0", "activation": "silu"},
    "relative": {"objective": "mlm + nsp", "attention": "relative(untie=true, segments=true)",
                 "activation": "tanh", "pack": "true", "format": "sentence-pair", "seq": "64"},
    "disentangled": {"objective": "mlm", "attention": "disentangled(8, 16)", "segments": "0",
                     "norm": "post(1e-7)", "format": "doc-sentences"},
    "rotary": {"objective": "mlm", "positions": "rotary(500, pairs=interleaved, share=0.5)",
               "attention": "full(kv_heads=1, bias=false)", "norm": "pre"},
    "alibi": {"objective": "mlm", "positions": "alibi", "format": "doc-sentences", **PACKED},
    "local": {"objective": "mlm", "attention": "local(16, global_every=2)", "seq": "192",
              "positions": "rotary", "share": "groups(1)"},
    "uneven": {"objective": "mlm", "ffn": "[64, 32]", "heads": "[2, 4]", "head_dim": "8",
               "positions": "learned(34, 2)",
               "optimizer": "adamw(lr=1e-2, warmup=0, eps=1e-3, schedule=constant)"},
    "modern": {"objective": "mlm", "vocab": "wordpiece(120, multiple=64)",
               "norm": "pre(bias=false, embeddings=true, first=false)",
               "activation": "geglu(bias=false)", "head": "transform(bias=false)",
               "initializer": "truncated-normal(0.02, cut=3, depth_scaled=true)"},
    "rms": {"objective": "mlm", "norm": "pre(function=rms)", "activation": "swiglu",
            "head": "linear(tied=false)", "initializer": "uniform(0.02)"},
    "two layers": {"objective": "mlm", "norm": "pre(function=rms)", "head": "two-layer(24)",
                   "attention": "local(8, global_layers=[1])", "positions": "rotary(500, 20)"},
    "elc": {"objective": "mntp", "residual": "elc", "norm": "pre(inner=true, context=true)",
            "activation": "geglu-tanh(bias=false)"},
    "dwa": {"objective": "mlm", "residual": "dwa", "norm": "pre(after_attention=true)",
            "attention": "disentangled(8, 16, beyond=false, gate=gelu)", "segments": "0"},
    "proteins": {"objective": "mlm", "table": "whole(dropped=4)", "format": "doc-sentences",
                 "attention": "full(bias=false, norm=layer, over=width)", **PACKED,
                 "residual": "plain(2)", "norm": "pre(last=unbiased)", "positions": "rotary",
                 "head": "transform(tied=false, activation=gelu)", "activation": "swiglu"},
    "scaled": {"objective": "mlm", "norm": "pre", "positions": "sinusoidal(scaled=true)",
               "initializer": "truncated-normal(0.02, depth_scaled=by-layer)"},
    "directions": {"objective": "3*mlm(40%, p_end=20%, unit=adaptive) + clm"},
    # growing
    "stack": _growing("stack", objective="mlm"),
    "interleave": _growing("interleave", objective="mlm + nsp", format="segment-pair"),
    "tile": _growing("tile", objective="mlm", activation="geglu(bias=outer)"),
    "identity": _growing("identity", objective="clm", norm="pre"),
    "grown electra": _growing("stack", **ELECTRA),
    # pruning
    "pruned heads": _pruned("heads(50%, every=25%, examples=8)", objective="mlm"),
    "pruned neurons": _pruned("neurons(25%, by=magnitude)", objective='glue(rte, "RTE")',
                              **BERTS),
    # with dropout, whose draws differ where there are no C kernels
    "dropout": {"objective": "mlm + nsp", "dropout": "0.1", "format": "segment-pair"},
    "dropout relative": {**XLNET, "dropout": "0.1"},
    "dropout task": {**BERTS, "objective": 'glue(rte, "RTE")', "seq": "32", "dropout": "0.1"},
    # tasks
    "glue": _asked('glue(rte, "RTE")'),
    "xnli": _asked('xnli("xnli")'),
    "squad": _asked('squad(".", version=2)'),
    "race": _asked('race("race")'),
    "tagging": _asked('tagging("tags")'),
    "classify": _asked('classify("birds.train.tsv", "birds.dev.tsv")'),
    "regress": _asked('regress("score.train.tsv", "score.dev.tsv")'),
    "choose": _asked('choose("choose.train.tsv", "choose.dev.tsv", choices=["a", "b", "c"])'),
    "tag": _asked('tag("tag.train.tsv", "tag.dev.tsv")'),
    "spans": _asked('spans("tag.train.tsv", "tag.dev.tsv", units=8)'),
    "read": _asked('read("read.train.tsv", "read.dev.tsv")'),
    "read conditioned": _asked('squad(".", version=2, head=conditioned)', seq="20", **{
        key: XLNET[key] for key in ("attention", "segments")}),
    "embed": _asked('embed("choose.train.tsv", "choose.dev.tsv", text=question, positive=a, '
                    'negative=b, both=true, pooling=max, mlp=true, temperature=0.5)',
                    microbatch="2", **EMBEDDING),
    "embed scored": _asked('embed("score.train.tsv", text=text, positive=label, score=label, '
                           'temperature=0.5)', **EMBEDDING),
    "embed taught": _asked('embed("choose.train.tsv", text=question, positive=a, negative=b, '
                           'score=label, loss=margin, widths=[8, 4], query_prompt="who ", '
                           # Small vectors: margins of large ones lose bits.
                           'similarity=dot, mlp=true)', **EMBEDDING),
    "embed late": _asked('embed("choose.train.tsv", "choose.dev.tsv", text=question, positive=a, '
                         'negative=b, both=true, pooling=tokens, temperature=8)', seq="40",
                         microbatch="2", **EMBEDDING),
    "embed sparse": _asked('embed("choose.train.tsv", "choose.dev.tsv", text=question, positive=a, '
                           'pooling=sparse, negative=b, both=true)', microbatch="2",
                           **EMBEDDING),
    "rerank": _asked('rerank("choose.train.tsv", "choose.dev.tsv", text=question, positive=a, '
                     'negative=b)'),
    "features": _asked("", steps="", blocks=
        'stage "a" { task=glue(rte, "RTE") features=concat(last=2) freeze=all steps=2 } '
        'stage "b" { task=classify("birds.train.tsv", "birds.dev.tsv") features=embeddings '
        'freeze=all steps=2 } '
        'stage "c" { task=tag("tag.train.tsv", "tag.dev.tsv", head=bilstm(8, 1)) '
        'features=weighted-sum(all) freeze=all steps=2 } '),
    "features trained": _asked("", steps="", blocks=
        'stage "a" { task=glue(rte, "RTE") features=second-to-last steps=2 } '
        'stage "b" { task=regress("score.train.tsv", "score.dev.tsv") features=sum(2) steps=2 } '
        'stage "c" { task=glue(sst2, "SST-2") features=last steps=2 } '),
    "two tasks": _asked('glue(rte, "RTE") + glue(sst2, "SST-2")', freeze="1"),
    "adapted": {"objective": "mlm", "adapt": "lora(4, on=attention+outer)"},
}  # fmt: skip

UNTRAINED = ("read conditioned", "taught", "taught attention")
"""Rows too short for the beginnings that it looks for, and teachers without weights."""


def spec(name: str, **changed: str) -> str:
    """The text of a program, perhaps with other settings."""
    settings = {**TOY, **PROGRAMS[name], **changed}
    blocks = settings.pop("blocks", "")
    return " ".join([*(f"{k}={v}" for k, v in settings.items() if v), blocks]).strip()
