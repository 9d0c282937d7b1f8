"""Every idea with every other: each sum of them trains, or is refused with a reason."""

import itertools
import json
import math

import pytest

from bertc.api import points
from bertc.base.diagnostics import SpecError
from bertc.run.train.loop import train

TOY = ["layers=2", "hidden=32", "heads=2", "ffn=64", "seq=32", "batch=4", "steps=5", "log_every=1",
       "eval_every=5", "save_every=5", "eval_examples=8", "holdout=20%", "device=cpu",
       "precision=fp32", "compile=off", "vocab=wordpiece(150)",
       "optimizer=adamw(lr=1e-3, warmup=1)"]  # fmt: skip
SHARING = ("none", "all", "attention", "map([0, 1], [0, 0])")
WIDTHS = ("embedding=32", "embedding=16")
ATTENTION = ("full", "relative", "relative(untie=true, segments=true)")
OBJECTIVES = (
    "mlm",
    "mlm + sop",
    "span + sbo + nsp",
    "rtd*50 + mlm",
    "rtd(over=masked) + mlm + sop",
    "clm",
    "clm memory",
    "plm",
    "plm reuse",
    "mlm + tlm",
    "tlm(unit=span) grow",
    "mlm + clm",
)


def settings(objective: str, text: str, pairs: str) -> list[str]:
    """An objective, and what it needs beside it."""
    terms = objective.removesuffix(" memory").removesuffix(" grow").removesuffix(" reuse")
    own = [f"objective={terms}", f'data=files("{text}", sentences=lines)']
    if "rtd" in terms:
        own.append("generator=0.5")
    if "memory" in objective or "reuse" in objective:
        own.append("memory=16")
    if "reuse" in objective:
        own += ["format=stream-pair(both_ways=true)", "segments=0"]
    if "tlm" in terms:
        own[-1] = f"data={pairs}" + (f' + files("{text}")' if "mlm +" in terms else "")
    return own


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def pairs(corpus_file, tmp_path_factory):
    """The corpus' sentences, and in another language each from its end to its beginning."""
    folder = tmp_path_factory.mktemp("pairs")
    lines = [line for line in corpus_file.read_text().splitlines() if line]
    (folder / "a.en").write_text("\n".join(lines) + "\n")
    turned = (" ".join(reversed(line.split())) for line in lines)
    (folder / "a.fr").write_text("\n".join(turned) + "\n")
    return f'pairs(en="{folder}/a.en", fr="{folder}/a.fr")'


def resolved_or_refused(spec, overrides):
    """The program, or what its spec is refused for."""
    try:
        return points(spec, overrides)[0], ()
    except SpecError as error:
        return None, error.diagnostics


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_combination_trains_or_is_refused(objective, corpus_file, pairs, cache, tmp_path):
    trained, turn = 0, OBJECTIVES.index(objective)
    # Every attention, and of the rest what comes next; tests/campaigns/pairs.py tries all pairs.
    rest = list(itertools.product(SHARING, WIDTHS))
    for number, attention in enumerate(ATTENTION):
        share, width = rest[(turn + 3 * number) % len(rest)]
        overrides = [*TOY, *settings(objective, str(corpus_file), pairs), f"share={share}", width,
                     f"attention={attention}"]  # fmt: skip
        spec = "layers=2"
        if objective.endswith("grow"):
            overrides = [text for text in overrides if text not in ("layers=2", "steps=5")]
            spec = 'stage "one" { layers=1 steps=2 } stage "two" { layers=2 steps=3 }'
        resolved, reasons = resolved_or_refused(spec, overrides)
        assert all(reason.message and (reason.help or reason.label) for reason in reasons)
        if resolved is None:
            continue
        train(resolved, tmp_path / str(number), cache=cache, quiet=True)
        lines = (tmp_path / str(number) / "metrics.jsonl").read_text().splitlines()
        losses = [line["loss"] for line in map(json.loads, lines)]
        assert len(losses) >= 6
        assert all(map(math.isfinite, losses))
        trained += 1
    # Only what hides tokens from one that sees what stands before is refused altogether.
    assert (trained > 0) == (objective != "mlm + clm")
