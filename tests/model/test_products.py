"""Products of every kind of attention and decoder are as many as torch counts."""

import pytest

from bertc.api import resolve
from tests.model import test_causal as causal
from tests.model import test_disentangled as disentangled
from tests.model import test_mask_decoder as decoder
from tests.model import test_positions as positions
from tests.model import test_relative as relative
from tests.model import test_two_streams as streams
from tests.model.material import ROWS, assert_counted
from tests.run import test_electra as gdes

NEAR_AND_FAR = f"{disentangled.BASE}{disentangled.KIND} steps=10 "
SPECS = [
    *(f"{decoder.BASE}steps=10 {extra}" for extra in (
        "objective=mlm+nsp pack=true format=sentence-pair", "norm=pre objective=mlm(p=100%)",
        "objective=rtd*50+mlm generator=0.5 share=all E=16",
    )),
    *(f"{NEAR_AND_FAR}{extra}" for extra in (
        "objective=mlm", "objective=clm", "objective=plm", "objective=mlm share=attention E=16",
        "objective=clm memory=32 format=stream",
    )),
    *(f"{gdes.SPEC} steps=10 {extra}" for extra in ("", "pack=true")),
    *(f"{relative.BASE}{kind} head=linear" for kind in relative.KINDS),
    f"{relative.BASE}attention=relative".replace("seq=16", "seq=300"),  # worked on in strips
]  # fmt: skip
PERMUTED = [
    *(f"{streams.BASE}{kind}" for kind in streams.KINDS),
    *(f"layers=3 {causal.BASE}{causal.ROWS}{kind}" for kind in causal.KINDS),
]


@pytest.mark.parametrize("spec", SPECS)
def test_products_are_those_that_torch_counts(spec):
    assert_counted(resolve(f"{spec} {ROWS}"))


@pytest.mark.parametrize("extra", [kind for kind in positions.KINDS if "local" not in kind])
def test_products_of_positions_are_those_that_torch_counts(extra):
    assert_counted(positions.program(f"{extra} {ROWS} head=linear", "seq=24"))


@pytest.mark.parametrize("spec", PERMUTED)
def test_products_of_a_permutation_are_those_that_torch_counts(spec):
    assert_counted(resolve(f"{spec} {ROWS}"), train=1e-3)
