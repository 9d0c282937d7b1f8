"""A small spec of every objective, unit of masking and row format, and of what goes with them.

Teachers know 500 tokens and have two heads.
"""

from typing import get_args

from bertc.ir.data import Format
from bertc.ir.learning.objective import Distillation, Pretraining
from bertc.ir.terms.masking import Unit

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
