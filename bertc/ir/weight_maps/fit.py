"""A map from the weights of a network to those of another that begins with it, if they fit.

Names and shapes alone, from the two weight tables; ``run.train.state`` moves tensors.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from bertc.base.diagnostics import DataError, several
from bertc.ir.base import Axis, Weight
from bertc.ir.changing import growth as ways
from bertc.ir.learning import Answer, Task, alike
from bertc.ir.network.body import Body
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.sharing import OUTPUTS
from bertc.ir.program import MAIN, Resolved, model_weights
from bertc.ir.terms.node import LanguageModel, predicts_masked, weights_of_head

_FIRST_NORM = ".attention.0.norm."
"""A norm that layer 0 may lack, and layers that begin as copies of it do not."""


class WeightMap(NamedTuple):
    """The initial values of the weights of a network.

    ``copies`` maps a weight to the old one that it copies; ``zeros`` are set to zero; ``fresh`` are
    weights of new layers and adapters, which keep their random initial values.
    """

    copies: Mapping[str, str]
    zeros: frozenset[str] = frozenset()
    fresh: frozenset[str] = frozenset()

    def moments(self, names: Iterable[str]) -> "WeightMap":
        """The map of the moments of the optimiser, called ``m.<weight>``."""
        named = ((name, *name.split(".", 1)) for name in names)
        copies = self.copies
        return WeightMap({name: f"{m}.{copies[new]}" for name, m, new in named if new in copies})

    def is_new(self, name: str) -> bool:
        """True if a weight belongs to a new layer."""
        return name in self.zeros or name in self.fresh


def weight_map(old: Resolved, new: Resolved, growth: ways.Beginning) -> WeightMap:
    """Map each weight of ``new`` to its source in ``old``; a shared weight has one owner."""
    known, heads = {weight.name for weight in model_weights(old)}, _heads_ahead(old, new)
    copies, zeros, fresh = dict[str, str](), set[str](), set[str]()
    for weight in model_weights(new):
        name, pair = weight.name, weight.part == "adapter"
        source = _source(name, old, new, growth)
        source = source if source in known else heads.get(name, source)
        if source in known:
            copies[name] = source
        elif source == "" or _FIRST_NORM in source or pair:
            # A new layer of zero outputs adds nothing.
            zero = isinstance(growth, ways.Identity) and name.split(".")[-2] in OUTPUTS.values()
            zero = zero and not pair
            (zeros if zero else fresh).add(name)
    return WeightMap(copies, frozenset(zeros), frozenset(fresh))


def _heads_ahead(old: Resolved, new: Resolved) -> dict[str, str]:
    """Weights of a head that scores what follows, by those of the one that it goes on as."""
    terms = ([t.objective for t in of.terms()] for of in (new, old))
    ahead = ([t for t in some if isinstance(t, LanguageModel) and t.ahead] for some in terms)
    return {
        f"heads.{mine.name}": f"heads.{its.name}"
        for pair in product(*ahead)
        for mine, its in zip(*(weights_of_head(t, old.encoder) for t in pair), strict=True)
    }


def _source(name: str, old: Resolved, new: Resolved, growth: ways.Beginning) -> str:
    """The name of the old weight; empty for a weight of a new layer."""
    network, part, *rest = name.split(".")
    before, after = _body(old, network), _body(new, network)
    if before is None or after is None or part not in before.owners:
        return name
    layer, *leaf = rest
    source = growth.source(int(layer), before.depth, after.depth)
    if source is None:
        return ""
    return ".".join((network, part, str(before.owners[part][source]), *leaf))


def _body(resolved: Resolved, name: str) -> Body | None:
    return {network.name: network.body for network in resolved.learned}.get(name)


QUERY_STREAM = "encoder.embeddings.unseen"
"""XLNet's initial query-stream state, which only permutation-LM objectives need."""

TILED: tuple[Axis, ...] = ("embedding", "hidden", "heads", "ffn")
"""Axes that grow=tile may begin from narrower ones; entries of others have meanings."""

SHOWN_REASONS = 3
"""Reasons listed in a refusal; the rest is counted."""

ShapesByName = Mapping[str, tuple[int, ...]]


def fit(
    old: Resolved, saved: Collection[str], new: Resolved, growth: ways.Beginning
) -> tuple[WeightMap, tuple[str, ...]]:
    """Map the weights of ``new`` to those of ``old``, with the reasons that stand in the way.

    1. Map every weight, by depth and owner; leave out heads and networks that differ.
    2. Report the encoder's weights that are missing, unused or of another shape.

    ``saved`` are the weights that the old model has. Its pooler, heads and other networks may be
    absent, its heads may have other shapes or labels. The new encoder has to come from the old one,
    and to use it completely unless it begins as some layers of it.
    """
    if reason := _unlike(old, new, growth):
        return WeightMap({}), (reason,)
    full_map = weight_map(old, new, growth)
    weights = {w.name: w for w in model_weights(new)}
    old_shapes = {w.name: w.shape for w in model_weights(old) if w.name in saved}
    other_parts = {
        _part(name)
        for name in weights.keys() & old_shapes.keys()
        if not _begins(weights[name], old_shapes[name], growth)
    }
    other_parts |= {f"heads.{title}" for title in changed_answers(old, new)}
    # A head of another kind may have some names in common with one there: it begins anew.
    absent = (name for name in weights if full_map.copies.get(name, name) not in old_shapes)
    other_parts |= {_part(name) for name in absent if name.startswith("heads.")}
    old_shapes = {
        name: shape
        for name, shape in old_shapes.items()
        if not (name.startswith("heads.") and _part(name) in other_parts)
    }
    copies = {name: source for name, source in full_map.copies.items() if source in old_shapes}
    copies |= _pooler_of_head(old, new, old_shapes)
    other_shapes = (
        f"{name} is {_shape(old_shapes[source])} there and {_shape(weights[name].shape)} here"
        for name, source in copies.items()
        if not _begins(weights[name], old_shapes[source], growth)
    )
    mismatches = (
        *_not_identity(old, new, growth),
        *_sharing_split(old, new, growth),
        *other_shapes,
        *_missing(weights.keys() - copies.keys(), full_map, old_shapes),
    )
    if not isinstance(growth, ways.FromLayers):
        unused = sorted(old_shapes.keys() - set(copies.values()) - {QUERY_STREAM})
        mismatches += tuple(f"its {key} has no place here" for key in unused if not _optional(key))
    return WeightMap(copies, full_map.zeros), mismatches


def begins_as(resolved: Resolved) -> ways.Beginning:
    """The way in which a run with ``init`` begins with the weights there."""
    init, grow = resolved.run.init, resolved.stages[0].grow
    if isinstance(init, ways.FromLayers):
        return init
    assert grow is not None, "a stage that starts from another network has grow"
    return grow


def refusal(folder: Path, reasons: Sequence[str], old: Resolved, new: Resolved) -> DataError:
    """The error for weights that do not fit: the first reasons, and a remedy."""
    old_layers, new_layers = old.encoder.depth, new.encoder.depth
    hidden_reasons = len(reasons) - SHOWN_REASONS
    way = (
        "write the network as it is there (bertc build --emit resolved shows it); more layers are "
        "made from those by grow"
    )
    if old_layers > new_layers and isinstance(new.run.init, ways.FromRun):
        first = f'init=layers("{folder}", first)'
        way = f"layers={old_layers}, as it has, or begin with some of them, as in {first}"
    if old.encoder.vocab_size != new.encoder.vocab_size and len(reasons) == 1:
        way = (
            "leave vocab out, init has its own, or init=run(..., embeddings=mean) for other tokens"
        )
    if old.encoder.hidden != new.encoder.hidden:
        way = f"hidden={old.encoder.hidden}, as it has"
        if old.encoder.hidden < new.encoder.hidden and isinstance(new.run.init, ways.FromRun):
            way += ", or grow=tile, which begins wider networks"
    if old.merged is not old:  # its pairs go on, with their moments
        way = "write the adapter as it is there, or moments=reset, which takes the merged network"
    return DataError(
        f"the weights of {folder} do not fit: {'; '.join(reasons[:SHOWN_REASONS])}"
        + (f"; and {hidden_reasons} more" if hidden_reasons > 0 else ""),
        help=way,
    )


def changed_answers(old: Resolved, new: Resolved) -> dict[str, tuple[Answer, Answer]]:
    """Tasks of both programs whose answers differ, in labels or in kind, by name: old and new."""
    before = {term.name: term.objective for term in old.terms()}
    pairs = [(t.name, before.get(t.name), t.objective) for t in new.terms()]
    return {
        title: (earlier.answer, later.answer)
        for title, earlier, later in pairs
        if isinstance(earlier, Task) and isinstance(later, Task)
        if not alike(earlier.answer, later.answer)
    }


def _unlike(old: Resolved, new: Resolved, growth: ways.Beginning) -> str:
    """The reason why nothing of one network can begin the other; empty if something may."""
    kinds = old.encoder.body_kind, new.encoder.body_kind
    if new.adds_tables and not old.adds_tables:
        return "its token table is whole, and here it is a difference (generator, tie=gdes)"
    before, after = old.encoder.depth, new.encoder.depth
    if kinds[0] != kinds[1]:
        return f"it is a {kinds[0]}, and this network a {kinds[1]}"
    if isinstance(growth, ways.FromLayers):
        return growth.misfit(before, after)
    return f"it has {several(before, 'layer')}, but this network {after}" if before > after else ""


def _pooler_of_head(old: Resolved, new: Resolved, old_shapes: ShapesByName) -> dict[str, str]:
    """Map a pooler with the layers of a masked-LM head to that head, where there is no pooler.

    Both are ``head`` of ModernBertForMaskedLM and ModernBertForSequenceClassification.
    """
    pooling, stage = new.encoder.pooled.steps, old.stages[-1]
    masked = [t.objective for t in old.terms() if predicts_masked(t.objective)]
    heads = [objective.head_name for objective in masked if stage.learner(objective).name == MAIN]
    if pooling is None or not pooling.transforms or not heads:
        return {}
    head = f"heads.{heads[0]}."
    poolers = (weight for weight in new.encoder.weights() if weight.part == "pooler")
    shapes = {f"{MAIN}.{weight.name}": weight.shape for weight in poolers}
    parts = {name: head if ".norm." in name else f"{head}dense." for name in shapes}
    sources = {name: name.replace(f"{MAIN}.pooler.", part) for name, part in parts.items()}
    alike = all(old_shapes.get(source) == shapes[name] for name, source in sources.items())
    return sources if alike and not old_shapes.keys() & shapes.keys() else {}


def _not_identity(old: Resolved, new: Resolved, growth: ways.Beginning) -> list[str]:
    before, after = old.encoder.depth, new.encoder.depth
    if not isinstance(growth, ways.Identity) or before == after:
        return []
    owners = [owner for part in new.encoder.owners.values() for owner in part[before:]]
    free = isinstance(new.encoder, Encoder) and new.encoder.norm.residual_free
    if not free or min(owners) < before:
        return ["grow=identity needs norm=pre, and new layers with weights of their own"]
    return []


def _sharing_split(old: Resolved, new: Resolved, growth: ways.Beginning) -> list[str]:
    """Reasons from sharing: layers that share weights have to start from layers that do too."""
    reasons: list[str] = []
    for part, after in new.encoder.owners.items():
        before = old.encoder.owners[part]
        layer = ways.find_split(growth, before, after)
        if layer is not None and not isinstance(growth, ways.Identity):
            sources = (growth.source(n, len(before), len(after)) for n in (layer, after[layer]))
            interleaving_fits = ways.find_split(ways.Interleave(), before, after) is None
            grows = not isinstance(growth, ways.FromLayers)
            reasons.append(
                f"layers {layer} and {after[layer]} share their {part}, but would start as layers "
                f"{' and '.join(map(str, sources))} there, which do not"
                + (" (grow=interleave does)" if interleaving_fits and grows else "")
            )
    return reasons


def _begins(weight: Weight, shape: tuple[int, ...], growth: ways.Beginning) -> bool:
    """True if a tensor of this shape can begin the weight; tiled, it may be narrower."""
    if not isinstance(growth, ways.Tile) or len(shape) != len(weight.shape):
        return shape == weight.shape
    sizes = zip(weight.axes, weight.shape, shape, strict=True)
    return all(wide == old or (wide > old and axis in TILED) for axis, wide, old in sizes)


def _missing(names: Collection[str], full_map: WeightMap, old_shapes: ShapesByName) -> list[str]:
    parts = {_part(name) for name in old_shapes}
    return [
        f"it has no {full_map.copies.get(name, name)}"
        for name in sorted(names)
        if not full_map.is_new(name) and (_part(name) in parts or not _optional(name))
    ]


def _part(name: str) -> str:
    """The part of the model with this weight: a head, part of the encoder, or another network."""
    first, second, *_ = name.split(".")
    return f"{first}.{second}" if first in (MAIN, "heads") else first


def _optional(name: str) -> bool:
    return not name.startswith(f"{MAIN}.") or _part(name) == f"{MAIN}.pooler"


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
