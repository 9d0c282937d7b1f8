"""The compiled step's gradients are the eager step's: four cases of tests/campaigns/compiled.py."""

import pytest
import torch

from tests.campaigns.compiled import AXES, Case, differing

CASES = (
    {"objective": "mlm", "share": "all"},
    {"objective": "clm", "norm": "pre", "share": "groups(2)", "layers": "4"},
    {"objective": "plm", "attention": "relative(untie=true,segments=true)", "step": "accumulated"},
    {"objective": "mlm", "norm": "pre", "pack": "true", "step": "recomputed", "share": "ffn"},
)


def case(changed: dict[str, str]) -> Case:
    """The first value of every axis, but for those changed."""
    return tuple(changed.get(axis, values[0]) for axis, values in AXES.items())


@pytest.mark.filterwarnings("ignore")  # The compiler's own.
@pytest.mark.parametrize("changed", CASES, ids=["albert", "gpt", "xlnet", "recomputed"])
def test_compiled_gradients_are_those_of_the_eager_step(changed: dict[str, str]) -> None:
    torch.compiler.reset()
    weights, off = differing(case(changed))
    assert weights > 20
    assert not off
