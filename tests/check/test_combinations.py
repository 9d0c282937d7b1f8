"""Settings that are each right together: what is not remarked on, and which layers grow alike."""

import itertools

import pytest

from bertc.api import points, resolve
from bertc.base.diagnostics import Diagnostics, SpecError
from bertc.base.storage.paths import shipped_specs
from bertc.ir.changing.growth import Interleave, Stack, parted
from bertc.ir.program.model import model_weights
from bertc.ir.weight_maps.fit import fit
from bertc.ir.weight_maps.grow import weight_map

ALLOWED = [
    "objective=mlm(replace=100/0/0)", "objective=mlm(unit=span) vocab=bytes",
    "objective=span+sbo format=single-segment", "objective=clm positions=none",
    "positions=none attention=relative",
]  # fmt: skip


def test_what_is_meant_is_not_remarked_on():
    specs = [f"hidden=64 {spec}" for spec in ALLOWED] + sorted(shipped_specs())
    for spec in specs:
        diagnostics = Diagnostics()
        points(spec, (), diagnostics)
        idle = ("R107", *["R108"] * (spec in shipped_specs()))
        assert not [each for each in diagnostics.remarks if each.code in idle], spec


def test_a_term_twice_is_refused_next_to_rows_read_causally():
    with pytest.raises(SpecError, match="has mntp 2 times"):
        points("objective = 15*mntp + 15*mntp + clm")


def test_other_numbers_of_heads_are_found_for_the_largest_widths():
    with pytest.raises(SpecError, match="help: heads=1 or heads=3"):
        points("hidden=999999 heads=4 seq=16")


def test_lists_of_another_length_than_layers_are_refused_in_every_spec():
    """Whatever looks at the layers before, such as what a teacher's layers are compared with."""
    for spec in sorted(shipped_specs()):
        for setting in ("heads=[4096]", "ffn=[64]"):
            with pytest.raises(SpecError):
                points(f"extends {spec} {setting}")


SCHEMES = ("none", "all", "attention", "groups(1)", "groups(2)", "groups(3)")
DEPTHS = ((2, 3), (2, 4), (3, 4), (3, 6), (3, 9), (4, 6), (4, 8))


@pytest.mark.parametrize("growth", [Stack(), Interleave()])
def test_a_grown_layer_computes_as_the_layer_it_is_a_copy_of(growth):
    """Where nothing is refused, whichever layer owns the weights."""
    refused = 0
    for scheme, (before, after) in itertools.product(SCHEMES, DEPTHS):
        if f"({before + 1})" in scheme:
            continue
        old, new = (
            resolve(f"hidden=8 heads=1 vocab=99 seq=16 share={scheme} layers={layers}")
            for layers in (before, after)
        )
        copies = weight_map(old, new, growth).copies
        names = {weight.name for weight in model_weights(old)}
        _, misfits = fit(old, names, new, growth)
        agree = all(
            copies[f"encoder.{part}.{owner}.norm.weight"]
            == f"encoder.{part}.{there[growth.source(layer, before, after)]}.norm.weight"
            for part, there in old.encoder.owners.items()
            for layer, owner in enumerate(new.encoder.owners[part])
        )
        assert agree == all(
            parted(growth, there, new.encoder.owners[part]) is None
            for part, there in old.encoder.owners.items()
        )
        assert agree == (not any("share their" in reason for reason in misfits))
        refused += not agree
    assert refused


def test_the_groups_of_init_are_not_torn_apart():
    """Where the smaller network is another run's, its weights say so when they are read."""
    old, new = (
        resolve(f"hidden=8 heads=1 vocab=99 seq=16 share=groups(2) layers={n}") for n in (2, 4)
    )
    _, misfits = fit(old, {weight.name for weight in model_weights(old)}, new, Stack())
    assert misfits[0] == (
        "layers 1 and 0 share their attention, but would start as layers 1 and 0 there, which do "
        "not (grow=interleave does)"
    )
