"""Checks of an adapter: maps that it can stand next to, and settings that go with it."""

from bertc.base.diagnostics import Diagnostics, listed
from bertc.check.passes.settings.checker import Checker
from bertc.check.passes.settings.stages import layer_values
from bertc.ir import operation as op
from bertc.ir.base import Normal, Weight
from bertc.ir.fixes import argument
from bertc.ir.methods.pruning import NOTHING
from bertc.ir.network.adapter import MAPS, Lora
from bertc.ir.network.body_node import Transformer
from bertc.ir.network.ffn import feed_forward
from bertc.ir.network.generator import GeneratorNetwork
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.rules import Rule


def adapting(program: Complete, diagnostics: Diagnostics) -> None:
    """Report adapters of maps that are not there, or that other settings contradict.

    ``hidden=64 adapt=lora(rank=100)`` is E361, ``adapt=lora freeze=2`` E360.
    """
    if diagnostics.found or not isinstance(program.adapt, Lora):
        return
    if not isinstance(program.body, Transformer):
        return
    _maps_fit(Checker(program, diagnostics), program.adapt, _maps(program))
    for stage in program.stages:
        Checker(stage, diagnostics).rules(_OF_ADAPTED)


def _maps(program: Complete) -> dict[str, int]:
    """The maps of layers, each with its narrowest width."""
    weights = list[Weight]()
    layers, init, ffn = max(s.layers for s in program.stages), Normal(), program.activation
    heads, inner = (layer_values(of, layers) for of in (program.heads, program.ffn))
    for number, sizes in enumerate(zip(heads, inner, strict=True)):
        widths = op.Widths(program.hidden, sizes[0], program.head_dim, sizes[1])
        weights += program.attention.at(number).weights("attention", widths, init)
        weights += feed_forward(ffn).weights("ffn", widths, init)
    narrowest = dict[str, int]()
    for weight in weights:
        name = weight.name.split(".")[1]
        narrowest[name] = min(*weight.shape, narrowest.get(name, weight.shape[0]))
    return narrowest


def _maps_fit(check: Checker[Complete], adapt: Lora, maps: dict[str, int]) -> None:
    origin = check.settings.origins["adapt"]
    named = (adapt.on,) if isinstance(adapt.on, str) else adapt.on
    lacking = [name for name in named if name not in MAPS and name not in maps]
    if lacking:
        there = [name for names in MAPS.values() for name in names if name in maps]
        check.report(
            "E361",
            f"on = {listed(lacking)}, but layers have {listed(there)}",
            "adapt.on",
            also=("activation", "activation is set here"),
            way=argument("adapt", origin, "on", "ffn"),
        )
        return
    narrowest, name = min((width, name) for name, width in maps.items() if name in adapt.maps)
    if adapt.rank > narrowest:
        check.report(
            "E361",
            f"rank = {adapt.rank} exceeds {narrowest}, the width of {name}",
            "adapt.rank",
            label="a pair of that rank is no smaller than the map",
            way=argument("adapt", origin, "rank", str(min(8, narrowest))),
        )


_OF_ADAPTED: tuple[Rule[StageSettings], ...] = (
    Rule("E360", "freeze", lambda s: s.freeze,
         "adapt freezes all of the network but its pooler, and freeze says to what height",
         also=("adapt", "adapt is set here"), help="freeze=0"),
    Rule("E360", "prune", lambda s: s.prune != NOTHING,
         "what prune sets to zero an adapter would train again",
         also=("adapt", "adapt is set here"), help="prune=none",
         label="a run that begins with this one can prune it"),
    Rule("E360", "adapt", lambda s: isinstance(s.generator, GeneratorNetwork),
         "adapt freezes the tables that a generator shares with the network and trains",
         also=("generator", "generator is set here"), help="adapt=none"),
)  # fmt: skip
