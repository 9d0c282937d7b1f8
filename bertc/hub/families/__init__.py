"""Hugging Face families that bertc reads and writes: one file each, listed in ``FAMILIES``."""

from bertc.hub.families.albert import ALBERT
from bertc.hub.families.bert import BERT
from bertc.hub.families.deberta import DEBERTA
from bertc.hub.families.differences import unlike
from bertc.hub.families.distilbert import DISTILBERT
from bertc.hub.families.electra import ELECTRA
from bertc.hub.families.eurobert import EUROBERT
from bertc.hub.families.family import Candidate, Family, Obstacle, first_of
from bertc.hub.families.modernbert import MODERNBERT
from bertc.hub.families.neobert import NEOBERT
from bertc.hub.families.nomic import NOMIC
from bertc.hub.families.roberta import CAMEMBERT, MPNET, ROBERTA, XLM_ROBERTA
from bertc.hub.families.xlm import XLM
from bertc.hub.families.xlnet import XLNET
from bertc.ir.network.encoder import Encoder
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.settings import layout_of

FAMILIES: tuple[Family, ...] = (
    XLNET, DEBERTA, MPNET, NEOBERT, MODERNBERT, EUROBERT, NOMIC, ELECTRA, DISTILBERT, XLM, ALBERT,
    XLM_ROBERTA, CAMEMBERT, ROBERTA, BERT,
)  # fmt: skip
"""Order in which families are tried for a program; the last accepts all that remain."""


OTHERS = {
    "big_bird": "its attention draws blocks at random",
    "convbert": "half of its heads are convolutions",
    "deberta": "the first version scores distances by maps of their own, and its keys have no bias",
    "ernie": "it adds the type of a task to each token",
    "funnel": "it pools states between blocks of layers",
    "longformer": "chosen tokens attend to all others, by maps of their own",
    "mobilebert": "its layers narrow and widen their states",
    "squeezebert": "its maps are convolutions by groups of channels",
}
"""Reasons against layouts that are close to one of the families."""


def family_named(model_type: str) -> Family:
    """The family with this ``model_type``."""
    return next(family for family in FAMILIES if family.model_type == model_type)


def family_for(resolved: Resolved, pad: int, prefer: str | None = None) -> Family | Obstacle:
    """The family for a program, rather ``prefer``, from which it was imported, or the obstacle."""
    if not isinstance(resolved.encoder, Encoder):
        return Obstacle(f"body={resolved.encoder.body_kind}", "all layouts are of transformers")
    if resolved.encoder.causal:
        return Obstacle("objective=clm", "the layouts attend in both directions")
    candidate = Candidate(resolved, pad)
    layout = resolved.run.layout
    written = candidate.tuned or layout != layout_of(resolved.run.recipe)
    systems = {prefer or "", layout if written else ""}
    candidate = Candidate(resolved, pad, frozenset(systems))
    family = next(family for family in FAMILIES if family.claims(candidate))
    return family.obstacle(candidate) or first_of(unlike(family, candidate)) or family
