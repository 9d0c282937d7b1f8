"""Whether the weights of one model are what another can begin with, from the two weight tables."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from bertc.compress.grow import OWNERS, WeightMap, weight_map
from bertc.diagnostics import DataError
from bertc.ir.learning.answer import Answer, alike
from bertc.ir.learning.task import Task
from bertc.ir.network.growth import Growth, Identity, Interleave, parted
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved

UNSEEN = "encoder.embeddings.unseen"
"""What XLNet's second stream begins as, which only permutations need."""

SHOWN_REASONS = 3

Shapes = Mapping[str, tuple[int, ...]]


def fit(
    old: Resolved, held: Collection[str], new: Resolved, growth: Growth
) -> tuple[WeightMap, tuple[str, ...]]:
    """Where the weights of ``new`` come from, and what stands in the way, a reason each.

    ``held`` are the names that the old model has: its pooler, heads and generator may be absent, or
    heads of other shapes or for other labels, and are then not copied. All of its encoder has to be
    of use, and all of the new one's to come from there.
    """
    depths = len(old.encoder.layers), len(new.encoder.layers)
    if depths[0] > depths[1]:
        return WeightMap({}), (f"it has {depths[0]} layers, and this network {depths[1]}",)
    found = weight_map(old, new, growth)
    here = {w.name: w.shape for w in model_weights(new)}
    there = {w.name: w.shape for w in model_weights(old) if w.name in held}
    other = {_part(name) for name in here.keys() & there.keys() if here[name] != there[name]}
    other |= {f"heads.{title}" for title in told_otherwise(old, new)}
    there = {
        name: shape
        for name, shape in there.items()
        if not (name.startswith("heads.") and _part(name) in other)
    }
    copies = {name: source for name, source in found.copies.items() if source in there}
    misfits = (
        *_silence(old, new, growth),
        *_parted(old, new, growth),
        *_differing(copies, there, here),
        *_absent(here.keys() - copies.keys(), found, there),
        *_lost(there.keys() - set(copies.values())),
    )
    return WeightMap(copies, found.zeros), misfits


def refusal(folder: Path, reasons: Sequence[str], old: Resolved, new: Resolved) -> DataError:
    """What is said of weights that do not fit: the first reasons, and what to write."""
    there, here = len(old.encoder.layers), len(new.encoder.layers)
    more = len(reasons) - SHOWN_REASONS
    return DataError(
        f"the weights of {folder} do not fit: {'; '.join(reasons[:SHOWN_REASONS])}"
        + (f"; and {more} more" if more > 0 else ""),
        help=f"layers={there}, as it has; a network may grow from another, not shrink"
        if there > here
        else "write the network as it is there (bertc build --emit resolved shows it); more "
        "layers are made from those by grow",
    )


def told_otherwise(old: Resolved, new: Resolved) -> dict[str, tuple[Answer, Answer]]:
    """By title the tasks of both that have other labels, or other answers altogether."""
    before = {term.name: term.objective for term in old.terms()}
    pairs = [(t.name, before.get(t.name), t.objective) for t in new.terms()]
    return {
        title: (there.answer, here.answer)
        for title, there, here in pairs
        if isinstance(there, Task) and isinstance(here, Task)
        if not alike(there.answer, here.answer)
    }


def _silence(old: Resolved, new: Resolved, growth: Growth) -> list[str]:
    """Layers are the identity where states pass by them, and where their weights are new."""
    before, after = len(old.encoder.layers), len(new.encoder.layers)
    if not isinstance(growth, Identity) or before == after:
        return []
    owners = (*new.encoder.attention_owner[before:], *new.encoder.ffn_owner[before:])
    if new.encoder.norm.kind != "pre" or min(owners) < before:
        return ["grow=identity needs norm=pre, and new layers with weights of their own"]
    return []


def _parted(old: Resolved, new: Resolved, growth: Growth) -> list[str]:
    """Layers that share weights begin as layers that shared them."""
    reasons = []
    for part, name in OWNERS.items():
        before, after = (getattr(each.encoder, name) for each in (old, new))
        layer = parted(growth, before, after)
        if layer is not None and not isinstance(growth, Identity):
            there = (growth.source(at, len(before), len(after)) for at in (layer, after[layer]))
            reasons.append(
                f"layers {layer} and {after[layer]} share their {part}, and would begin as layers "
                f"{' and '.join(map(str, there))} there, which do not"
                + (" (grow=interleave does)" if parted(Interleave(), before, after) is None else "")
            )
    return reasons


def _differing(copies: Mapping[str, str], there: Shapes, here: Shapes) -> list[str]:
    return [
        f"{name} is {_shape(there[source])} there and {_shape(here[name])} here"
        for name, source in copies.items()
        if there[source] != here[name]
    ]


def _absent(names: Collection[str], found: WeightMap, there: Shapes) -> list[str]:
    """What the new network needs of the old one; a layer that is new has no source at all."""
    parts = {_part(name) for name in there}
    return [
        f"it has no {found.copies.get(name, name)}"
        for name in sorted(names)
        if not found.made(name) and (_part(name) in parts or not _optional(name))
    ]


def _lost(names: Collection[str]) -> list[str]:
    lost = [name for name in sorted(names) if not _optional(name) and name != UNSEEN]
    return [f"its {name} has no place here" for name in lost]


def _part(name: str) -> str:
    """A head, the pooler, the generator as a whole, or a part of the encoder."""
    first, second, *_ = name.split(".")
    return first if first == "generator" else f"{first}.{second}"


def _optional(name: str) -> bool:
    return name.startswith(("heads.", "generator.")) or _part(name) == "encoder.pooler"


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
