"""What `check` and `train` say beforehand of a model that no Hugging Face layout will hold."""

import json

import pytest

from bertc import lang, resolve
from bertc.api import points
from bertc.base.diagnostics import Diagnostic, Diagnostics
from bertc.hub.families.family import Obstacle
from bertc.hub.leaving.target import padding, target_of
from bertc.hub.networks import alone
from bertc.ir.program.resolved import model_weights
from bertc.ir.vocabulary import ByteBpe, Bytes, TokenizerFile, Unigram, WordPiece, Words
from bertc.text.vocab.learned import learn
from tests.hub.programs import program

TOY = "hidden=64 heads=2 layers=2 ffn=256 vocab=99 seq=32"
XLNET = "attention=relative(untie=true, segments=true) objective=plm"


def remarked(*settings: str) -> list[Diagnostic]:
    """What is said of the layout of a toy with settings after its own."""
    diagnostics = Diagnostics()
    points(TOY, settings, diagnostics)
    return [remark for remark in diagnostics.remarks if remark.code == "R108"]


FORESEEN = [
    ("share=attention", "share=attention", "share=all embedding=32"),
    ("share=attention E=16", "share=attention", "share=all"),
    ("share=all", "share with embedding=64", "embedding=32"),
    ("segments=0 E=32", "embedding=32", "embedding=64"),
    ("segments=0 pooler=true", "pooler=true", "pooler=relu"),
    ("norm=pre", "norm=pre", "norm=post(eps=1e-5)"),
    ("norm=pre positions=sinusoidal", "norm=pre", "norm=post(eps=1e-5) positions=learned(32)"),
    ("norm=pre share=all ffn=64", "share with embedding=64", "embedding=32 norm=post(eps=1e-5)"),
    ("segments=0 head=linear ffn=[64,32]", "ffn=[64, 32]", "ffn=256"),
    ("norm=post(embeddings=false)", "norm=post(embeddings=false)", "norm=post"),
    ("positions=sinusoidal", "positions=sinusoidal", "positions=learned(32)"),
    ("positions=learned(34,offset=2)", "positions=learned(34, offset=2)",
     "positions=learned(33, offset=1)"),
    ("positions=learned(33,offset=1) activation=relu", "activation=relu", "activation=gelu"),
    ("positions=learned(34,offset=2) E=32", "positions=learned(34, offset=2)",
     "positions=learned(32)"),
    ("heads=[2,4] head_dim=16", "heads=[2, 4]", "heads=2 head_dim=32"),
    ("ffn=[256,64]", "ffn=[256, 64]", "ffn=256"),
    ("head_dim=16", "head_dim=16", "head_dim=32"),
    ("head=linear", "head=linear", "head=transform"),
    ("prune=heads(50%,every=25%)", "prune=heads(0.5, every=0.25)", "prune=none"),
    ("prune=neurons(50%,within=network)", "prune=neurons(0.5, within=network)",
     "prune=neurons(0.5)"),
    ("dropout=dropout(0.1,0,0.2)", "dropout=dropout(attention=0, ffn=0.2)",
     "dropout=dropout(attention=0)"),
    ("dropout=dropout(0.1,0,0,0.2)", "dropout=dropout(attention=0, last=0.2)",
     "dropout=dropout(attention=0)"),
    ("languages=[de,fr] language_embeddings=true", "language_embeddings=true",
     "language_embeddings=false"),
    ("languages=[de,fr] language_embeddings=true segments=0", "head=transform", "head=linear"),
    ("languages=[de,fr] language_embeddings=true segments=0 share=all", "share=all",
     "share=none head=linear"),
    ("segments=0 head=linear ffn=64", "ffn=64", "ffn=256"),
    ("segments=0 head=linear activation=silu", "activation=silu", "activation=gelu"),
    ("objective=50*rtd+mlm generator=0.5 share=all E=32", "share=all", "share=none"),
    ("objective=plm", "objective=plm", "attention=relative(untie=true, segments=true)"),
    ("attention=relative", "attention=relative", "attention=full"),
    ("objective=clm", "objective=clm", ""),
    ("positions=rotary norm=pre segments=0 dropout=0 activation=geglu", "norm=pre",
     "norm=pre(embeddings=true, first=false)"),
    ("positions=rotary norm=pre dropout=0", "segments=2", "segments=0"),
    ("positions=rotary norm=pre(1e-5,embeddings=true,first=false) activation=geglu segments=2",
     "segments=2", "segments=0 dropout=dropout(hidden=0, attention=0)"),
    ("positions=rotary norm=pre(function=rms) segments=0 activation=swiglu(bias=false) dropout=0 "
     "head=transform", "head=transform", "head=linear(bias=false)"),
    ("positions=rotary activation=swiglu(bias=outer)", "attention=full",
     "attention=full(bias=false) activation=swiglu(bias=false)"),
    ("positions=rotary activation=swiglu attention=full(bias=false)", "activation=swiglu",
     "activation=swiglu(bias=false)"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "setting", "instead"), FORESEEN)
def test_what_stands_in_the_way_is_said_with_values_that_lead_to_a_layout(spec, setting, instead):
    (remark,) = found = remarked(*spec.split())
    assert remark.message.endswith(f": {setting} stands in the way")
    assert remark.help == instead
    assert remark.span is not None
    assert remark.label
    sets = {each.partition("=")[0]: each for each in spec.split()}
    for _ in range(4 * bool(instead)):
        named = [setting.span.text for setting in lang.parse(found[0].help).settings()]
        assert named, found[0].message
        assert not set(named) <= set(sets.values()), "the same once more"
        sets |= {text.partition("=")[0]: text for text in named}
        found = remarked(*sets.values())
        if not found:
            return
    assert not instead, f"no end of obstacles: {sets}"


@pytest.mark.parametrize("spec", [
    "", "share=all E=32", "objective=mlm+sop", f"{XLNET} segments=0 head=linear",
    # a number beyond its layers
    "positions=rotary norm=pre(embeddings=true, first=false) segments=0 dropout=0 "
    "activation=geglu attention=local(8, global_every=9)",
])  # fmt: skip
def test_nothing_is_said_of_what_a_layout_holds(spec):
    norm = ["norm=post(embeddings=false)", "dropout=0"] * ("plm" in spec)
    assert remarked(*spec.replace(", ", ",").split(), *norm) == []


@pytest.mark.parametrize(("spec", "cls"), [
    ("xlm-r-base", "XLMRobertaForMaskedLM"),
    ("camembert-base", "CamembertForMaskedLM"),
    ("roberta-base", "RobertaForMaskedLM"),
    ("extends roberta-base task=classify(labels=['a', 'b']) steps=9 layout=xlm-roberta",
     "XLMRobertaForSequenceClassification"),
])  # fmt: skip
def test_a_layout_that_is_written_is_taken(spec, cls):
    encoder = alone(resolve(spec))
    names = [weight.name for weight in model_weights(encoder)]
    target = target_of(encoder, names, padding(resolve(spec)))
    assert not isinstance(target, Obstacle)
    assert target[1].name == cls


def test_nothing_is_said_of_a_shipped_system_and_once_of_what_is_changed_in_it():
    for spec, settings, count in (
        ("gpt-small", (), 0), ("extends bert-stacked batch=64", (), 0),
        ("extends bert-base share=all", (), 1), ("extends gpt-small", ("objective=clm",), 1),
        ("bert-mini", ("share={all, attention}",), 2),  # a point each
    ):  # fmt: skip
        diagnostics = Diagnostics()
        points(spec, settings, diagnostics)
        assert [each.code for each in diagnostics.remarks] == ["R108"] * count, spec


def test_a_conditioned_head_is_foreseen_where_the_task_is_written(tmp_path):
    asked = {"id": "1", "question": "who?", "answers": [{"text": "A", "answer_start": 0}]}
    data = [{"title": "", "paragraphs": [{"context": "A did.", "qas": [asked]}]}]
    (tmp_path / "train.json").write_text(json.dumps({"version": "1.1", "data": data}))
    task = f"task=squad('{tmp_path}/train.json',head=conditioned)"
    (remark,) = remarked(task, "steps=9")
    assert (remark.span.text, remark.help) == (task, "task=squad(..., head=plain)")


@pytest.mark.parametrize(
    "vocabulary",
    [WordPiece(size=99), ByteBpe(size=300), Unigram(size=40), Words(size=16), Bytes(size=261)],
)
def test_the_padding_is_known_before_a_vocabulary_is_learned(vocabulary):
    assert not isinstance(vocabulary, TokenizerFile)
    learned = learn(vocabulary, ["the cat sat on the mat and the dog ate the hat"])
    name = "[PAD]" if learned.token_to_id("[PAD]") is not None else "<pad>"
    assert learned.token_to_id(name) == padding(program(vocab=vocabulary))
