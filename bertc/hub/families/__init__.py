"""Hugging Face families that bertc reads and writes: one file each, listed in ``FAMILIES``.

Where a program differs from a layout, each difference is an obstacle to its export.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from bertc.hub.families.albert import ALBERT
from bertc.hub.families.bert import BERT
from bertc.hub.families.config import Wordless
from bertc.hub.families.deberta import DEBERTA
from bertc.hub.families.decoders import LLAMA, MISTRAL, QWEN3, HfDecoder
from bertc.hub.families.distilbert import DISTILBERT
from bertc.hub.families.electra import ELECTRA
from bertc.hub.families.esm import ESM, ESMC
from bertc.hub.families.eurobert import EUROBERT
from bertc.hub.families.family import Candidate, Family, Obstacle, first_of
from bertc.hub.families.gemma import GEMMA3
from bertc.hub.families.modernbert import MODERNBERT
from bertc.hub.families.neobert import NEOBERT
from bertc.hub.families.nomic import NOMIC
from bertc.hub.families.roberta import CAMEMBERT, MPNET, ROBERTA, XLM_ROBERTA
from bertc.hub.families.ultrabert import ULTRABERT
from bertc.hub.families.xlm import XLM
from bertc.hub.families.xlnet import XLNET
from bertc.ir.network import ffn, head, residual, sharing
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.positions import TablePositions
from bertc.ir.network.table import WholeTable
from bertc.ir.program import Resolved, layout_of
from bertc.lang import setting_shape, show_value

FAMILIES: tuple[Family, ...] = (
    XLNET, DEBERTA, MPNET, NEOBERT, ESMC, GEMMA3, QWEN3, MISTRAL, LLAMA, ESM, MODERNBERT, ULTRABERT,
    EUROBERT, NOMIC, ELECTRA, DISTILBERT, XLM, ALBERT, XLM_ROBERTA, CAMEMBERT, ROBERTA, BERT,
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
    candidate = Candidate(resolved, pad)
    layout = resolved.run.layout
    written = candidate.tuned or layout != layout_of(resolved.run.recipe)
    systems = {prefer or "", layout if written else ""}
    candidate = Candidate(resolved, pad, frozenset(systems))
    family = next(family for family in FAMILIES if family.claims(candidate))
    if resolved.encoder.causal and not issubclass(family.config, HfDecoder):
        return Obstacle("objective=clm", "the layouts attend in both directions")
    return family.obstacle(candidate) or first_of(unlike(family, candidate)) or family


def unlike(family: Family, candidate: Candidate) -> Iterator[Obstacle]:
    """Settings that a configuration of the program, written and read back, has otherwise."""
    encoder, layout = candidate.encoder, f"the {family.title} layout"
    if type(encoder) is not Encoder:  # even if its fields are the same
        yield Obstacle(f"kind={type(encoder).__name__.lower()}", f"{layout} has no such kind")
    pooler, activation = encoder.pooler, encoder.head_activation
    if pooler and pooler not in family.poolers:
        usual = next(iter(family.poolers), None)
        units = (head.POOLINGS[usual].units or ("a norm",)) if usual else ("no pooler",)
        named = ({"relu": "ReLU", "gelu": "GELU"}.get(unit, unit) for unit in units)
        why = f"{layout} has {' and '.join(named)} there"
        yield Obstacle(f"pooler={str(pooler).lower()}", why, f"pooler={family.usual_pooler}")
    always = family.head_activation
    if candidate.predicts and always and activation != always:
        why = f"the masked-LM head of {layout} always uses {always}"
        yield Obstacle(f"activation={activation}", why, f"activation={always}")
    try:
        config = family.config.again(encoder, Wordless(min(candidate.pad, 998)))
    except ValidationError:
        heads = f"heads={show_value(encoder.settings()['heads'])}"
        yield Obstacle(heads, f"in all layouts they fill hidden = {encoder.hidden}")
        return
    of_layout = _comparable(candidate, config.settings())
    table, longest = of_layout["positions"], max(stage.seq for stage in candidate.resolved.stages)
    if isinstance(table, TablePositions) and not isinstance(encoder.positions, TablePositions):
        of_layout["positions"] = table.model_copy(update={"rows": table.offset + longest})
    languages = {"language_embeddings": bool(encoder.languages)}
    of_program = _comparable(candidate, {**encoder.settings(), **languages})
    for name in dict.fromkeys(("heads", "share", *of_program)):
        value, read = of_program[name], of_layout[name]
        depth = range(encoder.depth)
        # Patterns by a number may differ where no layer does.
        if value == read or (name == "attention" and all(value.at(n) == read.at(n) for n in depth)):
            continue
        instead = f"{name}={show_value(read, setting_shape(name))}"
        setting = f"{name}={show_value(value, setting_shape(name))}"
        if name == "embedding" and of_program["share"] != sharing.ShareNone():
            setting = f"share with {setting}"
        yield Obstacle(setting, f"{layout} has {instead}", instead)
    if encoder.ffn != ffn.feed_forward(encoder.settings()["activation"]):
        yield Obstacle(f"activation={encoder.ffn.kind}", f"{layout} has no such kind")


def _comparable(candidate: Candidate, settings: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a network but initial values, and the head where none is read."""
    heads, depth = settings["heads"], settings["layers"]
    width = settings["hidden"] // (heads[0] if isinstance(heads, tuple) else heads)
    share = sharing.scheme_of(*sharing.owners_of(settings["share"], depth))
    always = {"head_dim": width, "table": WholeTable(), "residual": residual.PLAIN_STREAM}
    known = {**always, **settings, "share": share}
    positions = known["positions"]
    if isinstance(positions, TablePositions) and positions.padding == candidate.pad:
        known["positions"] = positions.model_copy(update={"padding": -1})  # as unset
    scores = candidate.predicts or candidate.encoder.two_streams
    unread = {"initializer", "languages", *(() if scores else ("head",))}
    return {name: value for name, value in known.items() if name not in unread}
