"""Stages that factorise the token table: the same outputs at full rank, less of it below."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import bertc
from bertc.diagnostics import SpecError, StoppedError
from bertc.estimate import estimate
from bertc.interop.loading import load, read_model
from bertc.ir.changing.growth import FromRun
from bertc.ir.changing.pruning import Rank
from bertc.ir.learning.objective import Clm, Mlm, Term
from bertc.ir.network.norm import PreNorm
from bertc.ir.program.model import model_weights
from bertc.nn import build
from bertc.objectives.vocabulary import token_logits
from bertc.train.beginning.growth import grown
from bertc.train.beginning.low_rank import TABLE, kept_share, low_rank
from bertc.train.loop import train
from tests.train.test_training import stop_after


@pytest.fixture
def narrowed(tiny: Any) -> Any:
    """A program that factorises its token table after four steps."""

    def make(width: int, every: float = 0.0, **settings: object) -> Any:
        kind = Rank(width=width, every=every)
        stages = {"whole": {"steps": 4}, "rank": {"prune": kind, "steps": 4}}
        return tiny(stages={**stages, "again": {"steps": 2}}, **{"eval_every": 20, **settings})

    return make


@pytest.mark.parametrize(
    "settings", [{}, {"embedding": 16}, {"norm": PreNorm(), "objective": (Term(objective=Clm()),)}]
)
def test_a_table_of_full_rank_computes_the_same(settings: Any, narrowed: Any) -> None:
    resolved = narrowed(settings.get("embedding", 32), **settings)
    before, after, _ = resolved.stages
    whole = build(resolved.as_in(before)).eval()
    left, _ = grown(resolved, before, after, dict(whole.named_parameters()), {})
    ids = torch.randint(5, 100, (3, 20))
    head = resolved.stages[0].objective[0].objective.head_name
    with torch.no_grad():
        states, others = whole.encode(ids), left.eval().encode(ids)
        scores, same = (
            token_logits(x[0], model.heads[head], model.encoder)
            for x, model in ((states, whole), (others, left))
        )
    assert torch.allclose(states, others, atol=1e-5)
    assert torch.allclose(scores, same, atol=1e-5)


def test_a_narrower_table_is_made_of_one_that_is_narrow_already(narrowed: Any) -> None:
    resolved = narrowed(8, every=0.5)
    whole, half, quarter, _ = resolved.stages
    assert [stage.encoder.table.rank for stage in (half, quarter)] == [16, 8]
    ids = torch.randint(5, 100, (3, 20))
    first = build(resolved.as_in(whole))
    with torch.no_grad():  # a table that has rank 8
        table = first.get_parameter(TABLE)
        table.copy_(table[:, :8] @ torch.randn(8, 32))
    models = [first.eval()]
    for before, after in ((whole, half), (half, quarter)):
        weights = dict(models[-1].named_parameters())
        models.append(grown(resolved, before, after, weights, {})[0].eval())
    head = whole.objective[0].objective.head_name
    with torch.no_grad():
        scores = [token_logits(m.encode(ids)[0], m.heads[head], m.encoder) for m in models]
    for other in scores[1:]:
        assert torch.allclose(scores[0], other, atol=1e-4)


def test_the_closest_table_of_a_rank_is_taken() -> None:
    table_vh = torch.randn(50, 12, generator=torch.Generator().manual_seed(1))
    narrow_vr, axes_hr = low_rank(table_vh, 5)
    singular = torch.linalg.svdvals(table_vh.double())
    error = (table_vh - narrow_vr @ axes_hr.T).double().square().sum()
    assert error == pytest.approx(float(singular[5:].square().sum()), rel=1e-4)
    share = float(singular[:5].square().sum() / singular.square().sum())
    assert kept_share(table_vh, narrow_vr) == pytest.approx(share, rel=1e-4)
    assert torch.allclose(axes_hr.T @ axes_hr, torch.eye(5), atol=1e-5)


def test_a_narrower_table_trains_is_exported_and_begun_from(
    narrowed: Any,
    tiny: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    cache: Path,
) -> None:
    resolved, run = narrowed(8), tmp_path / "run"
    train(resolved, run, cache=cache)
    assert "the token table has rank 8, and " in capsys.readouterr().err
    program, tensors = read_model(run)
    assert tensors[TABLE].shape == (120, 8)
    total = sum(tensor.numel() for tensor in tensors.values())
    assert total == sum(weight.numel for weight in model_weights(program))
    assert total == estimate(resolved).parameters.total
    further = tiny(table=program.encoder.table, init=FromRun(path=str(run)), steps=3)
    assert torch.equal(bertc.build(further).get_parameter(TABLE), tensors[TABLE])
    assert load(run).encode(torch.randint(5, 100, (1, 8))).shape == (1, 8, 32)


def test_a_first_stage_factorises_the_table_of_init(tiny: Any, tmp_path: Path, cache: Path) -> None:
    run = tmp_path / "run"
    train(tiny(steps=3), run, cache=cache, quiet=True)
    stages = {"rank": {"prune": Rank(width=32), "steps": 3}}
    further = tiny(init=FromRun(path=str(run)), stages=stages)
    model, ids = bertc.build(further).eval(), torch.randint(5, 100, (2, 12))
    assert torch.allclose(model.encode(ids), load(run).encode(ids), atol=1e-5)
    assert model.get_parameter(TABLE).shape == (120, 32)


def test_a_run_that_factorises_resumes_to_the_same_bits(
    narrowed: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    same_run: Any,
    cache: Path,
) -> None:
    resolved = narrowed(6, save_every=20)
    train(resolved, tmp_path / "one", cache=cache, quiet=True)
    two = partial(train, resolved, tmp_path / "two", cache=cache, quiet=True, resume=True)
    for step in (4, 5):
        with pytest.raises(StoppedError):
            stop_after(monkeypatch, step, two)
    two()
    same_run(tmp_path / "one", tmp_path / "two")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('hidden=64 stage "a" { } stage "b" { prune=rank(128) }', "30522 x 64 has no rank 128"),
        ('objective=rtd*50+mlm generator=0.25 stage "a" { } stage "b" { prune=rank(64) }',
         "a generator shares the whole table"),
        ("table=factorised(64) objective=mlm(unit=span)+sbo", "sbo makes scores with the whole"),
        ("table=factorised(64) body=bilstm(64)", "body = bilstm reads the whole table"),
        ("prune=rank(64)", "removes ranks, but init = random brings none"),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_factorised_are_refused(text: str, told: str) -> None:
    with pytest.raises(SpecError, match=told.replace("30522", "30,522")):
        bertc.resolve(text)


def test_a_factorised_table_may_be_there_from_the_start() -> None:
    spec = "layers=2 hidden=64 vocab=wordpiece(500) seq=32"
    whole, narrow = (bertc.resolve(spec + table) for table in ("", " table=factorised(8)"))
    total = sum(weight.numel for weight in model_weights(whole))
    saved = 500 * (64 - 8) - 2 * 64 * 8
    assert sum(weight.numel for weight in model_weights(narrow)) == total - saved
    assert isinstance(narrow.terms()[0].objective, Mlm)
