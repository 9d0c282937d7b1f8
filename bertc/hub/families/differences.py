"""Differences between a program and a layout, each an obstacle to its export."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from bertc.hub.families.config import Wordless
from bertc.hub.families.family import Candidate, Family, Obstacle
from bertc.ir.network import ffn, head, residual, sharing
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.positions import TablePositions
from bertc.ir.network.table import WholeTable
from bertc.lang.read.shapes import setting_shape
from bertc.lang.write.show import show_value


def unlike(family: Family, candidate: Candidate) -> Iterator[Obstacle]:
    """Settings that a configuration of the program, written and read back, has otherwise."""
    encoder, layout = candidate.encoder, f"the {family.title} layout"
    if type(encoder) is not Encoder:  # even if its fields are the same
        yield Obstacle(f"kind={type(encoder).__name__.lower()}", f"{layout} has no such kind")
    pooler, activation = encoder.pooler, encoder.head_activation
    if pooler and pooler not in family.poolers:
        units = head.POOLINGS[next(iter(family.poolers))].units or ("a norm",)
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
