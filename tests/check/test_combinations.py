"""Settings that are each right: what is refused together, and what is only remarked on."""

import itertools

import pytest

from bertc import lang
from bertc.api import points, resolve
from bertc.base.diagnostics import Diagnostic, Diagnostics
from bertc.base.resources import shipped_specs
from bertc.check import passes
from bertc.check.facts import facts as filled_in
from bertc.ir.changing.growth import Interleave, Stack, parted
from bertc.ir.learning.objective import Objective
from bertc.ir.program.model import model_weights
from bertc.ir.weight_maps.fit import fit
from bertc.ir.weight_maps.grow import weight_map
from tests.fixes import apply_fixes, found

GROUPS = 'share=groups(2) stage "a" { layers=2 steps=9 } stage "b" { layers=4 steps=9 }'
MEMORY = "objective=clm attention=relative memory=16"

REFUSED = [
    (f"grow=stack {GROUPS}", "E266"),
    (GROUPS.replace('b" { layers=4', 'b" { layers=8 grow=stack'), "E266"),
    ('share=groups(3) stage "a" { layers=3 } stage "b" { layers=6 grow=stack }', "E266"),
    (f"{MEMORY} positions=64", "E222"),
    (f"{MEMORY} positions=sinusoidal", "E222"),
    (f"{MEMORY} pack=true", "E219"),
    (f"{MEMORY} pack=true format=stream", "E216"),
    (f"{MEMORY} pack=true format=doc-sentences", "E219"),
    (f"objective=plm {MEMORY.removeprefix('objective=clm ')} pack=true", "E219"),
]


def mended(spec: str) -> tuple[str, list[Diagnostic]]:
    """A spec with every fix applied, one round after another, and what was found on the way."""
    met = list[Diagnostic]()
    while errors := found(spec).found:
        assert len(met) < 5, f"fixes go in a circle: {[each.code for each in met]}"
        met += errors
        assert errors[0].span is not None, errors[0].message
        spec = apply_fixes(errors[0].span.source, errors[:1])
    return spec, met


ALLOWED = [
    "objective=mlm(replace=100/0/0)",
    "objective=mlm(unit=span) vocab=bytes",
    "objective=span+sbo format=single-segment",
    "objective=clm positions=none",
    "positions=none attention=relative",
]


def test_what_is_meant_is_not_remarked_on():
    specs = [f"hidden=64 {spec}" for spec in ALLOWED] + sorted(shipped_specs())
    for spec in specs:
        diagnostics = Diagnostics()
        points(spec, (), diagnostics)
        idle = ("R107", *["R108"] * (spec in shipped_specs()))
        assert not [each for each in diagnostics.remarks if each.code in idle], spec


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


STUDENT = "layers=2 hidden=24 heads=2 ffn=32 vocab=500 seq=16 "
TEACHER = "layers=4 hidden=48 heads=4 ffn=64 vocab=500 seq=16"


def terms_mended(spec: str, code: str) -> list[Objective]:
    """The terms of a spec once its one mistake is terms_mended as its diagnostic says."""
    diagnostics = Diagnostics()
    (program,) = lang.load(spec, (), diagnostics)
    passes.complete(filled_in(program, diagnostics), diagnostics)
    (mistake,) = diagnostics.found
    assert mistake.code == code
    assert mistake.help
    assert mistake.span is not None
    (stage,) = resolve(apply_fixes(mistake.span.source, [mistake])).stages
    return [term.objective for term in stage.objective]
