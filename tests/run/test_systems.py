"""Every shipped system learns, shrunk; a sample of pairs of ideas too, or has a way out."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bertc.api import points
from bertc.ir.terms.masking import of_all_positions
from bertc.ir.vocabulary import Fixed
from tests.campaigns.ideas import AXES, written
from tests.campaigns.pairs import material, outcome, pairs, without_way_out
from tests.run.conftest import lines
from tests.shipped import PROGRAMS, SYSTEMS

TOY = ["layers=2", "hidden=32", "heads=2", "head_dim=16", "ffn=64", "seq=32", "batch=16",
       "steps=8", "log_every=1", "save_every=100", "eval_every=100", "eval_examples=8",
       "holdout=10%", "device=cpu", "precision=fp32", "batch_warmup=none"]  # fmt: skip
MIXED = "extends albert-base share=attention format=full-sentences pooler=false objective=span+sbo "
MIXED += "optimizer=lamb(lr=1e-2, warmup=2)"
PLAIN = [name for name in SYSTEMS if not name.endswith("-grid")]


@pytest.mark.parametrize("spec", [*PLAIN, MIXED], ids=[*PLAIN, "mixed"])
def test_the_loss_falls(spec, corpus_file, tmp_path, go):
    toy = [*TOY, f'data=files("{corpus_file}", sentences=lines)']
    first = (PROGRAMS[spec] if spec in PROGRAMS else points(spec))[0]
    if first.stages[0].optimizer.schedule.kind == "inverse-sqrt":
        # Without a warm-up the rate would be gone before anything is learned.
        toy.append("optimizer=adamw(lr=1e-3, warmup=6, schedule=inverse-sqrt)")
    if first.encoder.attention.shares_keys:  # six heads of queries for six of keys
        toy.append("heads=6")
    if spec.startswith(("neobert", "llama")):  # its first steps change little
        toy.append("steps=30")
    kind, table = first.vocabulary.kind, first.encoder.table
    if isinstance(first.vocabulary, Fixed):  # of letters: this text has words
        kind = "words"
        toy += ["table=whole", "optimizer=adamw(lr=3e-3, warmup=2)"]
    size = 400 if kind == "bpe" else 120  # 256 bytes come before the first word
    if table.kind == "adaptive":
        toy.append(f"table=adaptive([8, 12, 16], div={min(table.div, 3)})")
    (resolved,) = points(spec, [*toy, f"vocab={kind}({size})"])
    of_terms = {*of_all_positions(go(resolved).evaluation.losses)}
    assert of_terms == {t.objective.kind for t in resolved.terms()}
    losses = [line["loss"] for line in lines(tmp_path / "run", "train")]
    assert len(losses) == resolved.steps
    third = len(losses) // 3
    assert sum(losses[-third:]) < sum(losses[:third])


TRAINED = tuple(
    (AXES[one][i], AXES[other][j])
    for one, i, other, j in (
        ("positions", 1, "share", 3), ("attention", 2, "objective", 7),
        ("activation", 1, "objective", 14), ("attention", 0, "optimizer", 4),
        ("head", 1, "stages", 7), ("head", 1, "init", 1), ("norm", 1, "freeze", 0),
    )
)  # fmt: skip
"""Rotary with groups, windows with rtd, GLU with distillation; and those that once were wrong."""
REFUSED = (
    ("attention=full(kv_heads=1)", "format=stream-pair"),
    ("share=all", "ffn=[64,32,64,32]"),
    ("share=map([0,1,0,1],[0,0,2,2])", "init=layers('bert',[0,3]) layers=2"),
    ("heads=[2,4,2,4] head_dim=8", "init=layers('bert',[0,3]) layers=2"),
    *(pair for pair in pairs() if "objective=clm steps=2" in pair[1]),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The farm and a run in it, where tests of pairs are."""
    with contextlib.chdir(tmp_path_factory.mktemp("pairs")):
        material(Path.cwd())
        yield Path.cwd()


@pytest.mark.parametrize("pair", TRAINED, ids=" ".join)
def test_two_ideas_are_estimated_as_built_and_train(pair, place, tmp_path):
    found = outcome(pair, tmp_path / "run", place / "cache")
    assert (found.refused, found.wrong) == ((), ())


@pytest.mark.usefixtures("place")
def test_a_refusal_has_a_way_out():
    for pair in REFUSED[:24]:
        assert without_way_out(written(*pair)) == [], pair
