"""DeBERTa's and MPNet's classes: the gradient of every weight, on real and on padded rows."""

from pathlib import Path

import pytest
import torch

from bertc.hub.config import read_config
from bertc.hub.families import family_named
from bertc.hub.keys import keys, plain, prefixes
from bertc.hub.task_config import LeftHead, read_task
from bertc.run.models.loading import load
from tests.hub.hf_models import DEBERTA, MPNET, Case, case
from tests.hub.test_round_trip import encoded, inputs, mlm_logits
from tests.hub.test_tasks import said, task_of, theirs_says

CLASSES = [
    case("DebertaV2ForMaskedLM", DEBERTA, legacy=False),
    case("DebertaV2ForSequenceClassification", DEBERTA),
    case("DebertaV2ForMultipleChoice", DEBERTA),
    case("DebertaV2ForTokenClassification", DEBERTA),
    case("DebertaV2ForQuestionAnswering", DEBERTA),
    case("MPNetForMaskedLM", MPNET),
    case("MPNetForSequenceClassification", MPNET),
]


@pytest.mark.parametrize("chosen", CLASSES, ids=lambda chosen: chosen.cls)
def test_every_gradient_agrees(chosen: Case, tmp_path: Path) -> None:
    theirs = chosen.save(tmp_path)
    ours, batch = load(tmp_path), inputs(theirs, 24)
    real_bs, family, path = (
        batch["attention_mask"].bool(),
        family_named(theirs.config.model_type),
        tmp_path,
    )
    by_name = dict(theirs.named_parameters())
    there = {plain(prefixes(family, by_name), name): each for name, each in by_name.items()}
    modules = {name.rpartition(".")[0] for name in there}
    told = read_task(path / "config.json", family, read_config(path / "config.json"), modules)
    assert not isinstance(told, LeftHead)
    if told is None:
        found: tuple[torch.Tensor, ...] = (mlm_logits(ours, encoded(ours, batch)),)
    else:
        found = said(ours, task_of(ours), batch)
    wanted = theirs_says(theirs, batch)
    for logits in found, wanted:
        real = [each[real_bs] if each.shape[:2] == real_bs.shape else each for each in logits]
        torch.cat([each.sin().flatten() for each in real]).sum().backward()
    own = dict(ours.named_parameters())
    names = keys(family, ours.resolved.encoder, own, told.held.named if told else {})
    assert {*names.values()} == {*there}
    for name, key in names.items():
        # transformers leaves the row of the padding token out of the gradient.
        after = theirs.config.pad_token_id + 1
        rows = slice(after, None) if key.startswith("embeddings.word") else slice(None)
        pair = own[name].grad[rows], there[key].grad[rows]
        assert name.endswith(".key.bias") or pair[1].abs().max() > 1e-3, name
        torch.testing.assert_close(
            *pair, atol=1e-4, rtol=1e-4, msg=lambda why, n=name: f"{n}: {why}"
        )
