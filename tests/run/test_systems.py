"""Every shipped system, shrunk to toy width, learns: one of those that differ in size alone."""

import pytest

from bertc.api import points
from bertc.ir.terms.masking import of_all_positions
from tests.run.conftest import lines
from tests.shipped import PROGRAMS, SYSTEMS

TOY = ["layers=2", "hidden=32", "heads=2", "head_dim=16", "ffn=64", "seq=32", "batch=16",
       "steps=18", "log_every=1", "save_every=100", "eval_every=100", "eval_examples=16",
       "holdout=10%", "device=cpu", "precision=fp32"]  # fmt: skip
MIXED = (
    "extends albert-base share=attention format=full-sentences pooler=false "
    "objective=span+sbo optimizer=lamb(lr=1e-2, warmup=2)"
)
PLAIN = [name for name in SYSTEMS if not name.endswith("-grid")]


@pytest.mark.parametrize("spec", [*PLAIN, MIXED], ids=[*PLAIN, "mixed"])
def test_the_loss_falls(spec, corpus_file, tmp_path, go):
    toy = [*TOY, f'data=files("{corpus_file}", sentences=lines)']
    first = (PROGRAMS[spec] if spec in PROGRAMS else points(spec))[0]
    if first.stages[0].optimizer.schedule.kind == "inverse-sqrt":
        # Without a warm-up the rate would be gone before anything is learned.
        toy.append("optimizer=adamw(lr=1e-3, warmup=10, schedule=inverse-sqrt)")
    if first.encoder.attention.shares_keys:  # six heads of queries for six of keys
        toy.append("heads=6")
    if spec.startswith("neobert"):  # its first steps change little
        toy.append("steps=30")
    toy.append("batch_warmup=none")
    kind, table = first.vocabulary.kind, first.encoder.table
    size = 400 if kind == "bpe" else 120  # 256 bytes come before the first word
    if table.kind == "adaptive":
        toy.append(f"table=adaptive([8, 12, 16], div={min(table.div, 3)})")
    (resolved,) = points(spec, [*toy, f"vocab={kind}({size})"])
    report = go(resolved)
    assert report.evaluation is not None
    of_terms = {*of_all_positions(report.evaluation.losses)}
    assert of_terms == {t.objective.kind for t in resolved.terms()}
    losses = [line["loss"] for line in lines(tmp_path / "run", "train")]
    assert len(losses) == resolved.steps
    third = len(losses) // 3
    assert sum(losses[-third:]) < sum(losses[:third])
