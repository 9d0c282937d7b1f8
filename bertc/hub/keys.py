"""Weight names in bertc's table and in files of a Hugging Face family."""

import re
from collections.abc import Iterable, Mapping

from bertc.hub.families.family import Family, HfClass, weight_numbers
from bertc.ir.network.encoder import DECODER, Encoder

BUFFERS = frozenset({"embeddings.position_ids", "embeddings.token_type_ids", "position_ids"})
"""Index buffers in older files; not weights, never read."""
ANGLES = ".inv_freq"
"""The end of the names of buffers of rotary positions."""
OF_HEADS = ("pooler", DECODER)
"""Parts of a network that heads alone read."""


def part_of(name: str) -> str:
    """The part of a bertc weight: one of ``OF_HEADS``, a head such as ``mlm``, or ``body``."""
    first, second, *_ = name.split(".")
    return second if first == "heads" or second in OF_HEADS else "body"


def parts_of(names: Iterable[str]) -> frozenset[str]:
    """The heads, and the parts that they alone read, among bertc weight names."""
    return frozenset(part_of(name) for name in names) - {"body"}


def keys(
    family: Family, encoder: Encoder, names: Iterable[str], named: Mapping[str, str]
) -> dict[str, str]:
    """Keys without prefix of the weights that the layout has; ``named`` overrides its names."""
    known, placed = {**family.names, **named}, dict[str, str]()
    for name in names:
        pattern, number = _pattern(name)
        module, _, leaf = pattern.rpartition(".")
        if pattern in known or module in known:
            key = known[pattern] if pattern in known else f"{known[module]}.{leaf}"
            placed[name] = key.format(n=weight_numbers(encoder)[int(number)] if number else "")
    return placed


def by_key(family: Family, placed: Mapping[str, str]) -> dict[str, list[str]]:
    """The names of the weights at each key, in the order of the family."""
    order = {module: place for place, module in enumerate(family.names)}
    names_at: dict[str, list[str]] = {}
    for name, key in placed.items():
        names_at.setdefault(key, []).append(name)
    for names in names_at.values():
        names.sort(key=lambda name: order.get(_pattern(name)[0].rpartition(".")[0], -1))
    return names_at


def _pattern(name: str) -> tuple[str, str]:
    """A name with ``{n}`` in place of the layer's number, and that number or nothing."""
    number = re.search(r"\.(\d+)\.", name)
    return (name.replace(f".{number[1]}.", ".{n}.", 1), number[1]) if number else (name, "")


def prefix_key(family: Family, chosen: HfClass, name: str, key: str) -> str:
    """The key of a weight in a folder of this class; beside heads the encoder is prefixed."""
    of_head = not name.startswith("encoder.") or name.rpartition(".")[0] in chosen.named
    return (
        key if of_head or chosen.parts <= {"pooler"} else f"{chosen.prefix or family.prefix}.{key}"
    )


def prefixes(family: Family, keys: Iterable[str]) -> tuple[str, str, str]:
    """Prefixes of encoder and heads in a file, by its token table, and the layout's own."""
    usual, table = f"{family.prefix}.", f"{family.names['encoder.embeddings.token']}.weight"
    seen = {key.removesuffix(table) for key in keys if f".{key}".endswith(f".{table}")}
    first = seen.pop() if len(seen) == 1 else usual
    return first, first.removesuffix(usual), usual


def of_encoder(family: Family, first: tuple[str, str, str], stored: str) -> bool:
    """True if a key of a file is of the encoder, by its prefix or else by its first word."""
    encoder, heads, _ = first
    if encoder != heads and stored.startswith(encoder):
        return True
    words = {name.split(".")[0] for ours, name in family.names.items() if part_of(ours) == "body"}
    return plain(first, stored).split(".")[0] in words


def plain(first: tuple[str, str, str], key: str) -> str:
    """A key in current form: without its prefix, norms not by TensorFlow's names."""
    begun = next((prefix for prefix in first if prefix and key.startswith(prefix)), "")
    module, _, leaf = key.removeprefix(begun).rpartition(".")
    if module.endswith(("LayerNorm", "layer_norm")):
        leaf = {"gamma": "weight", "beta": "bias"}.get(leaf, leaf)
    return f"{module}.{leaf}" if module else leaf
