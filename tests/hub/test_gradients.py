"""The gradient of every weight of classes of transformers, on real and on padded rows."""

import pytest
import torch

from bertc.hub.config import read_config
from bertc.hub.families import family_named
from bertc.hub.keys import by_key, keys, plain, prefixes
from bertc.hub.task_config import read_task
from bertc.run.models.loading import load
from tests.hub.hf_models import DEBERTA, MODERN, MPNET, case
from tests.hub.test_round_trip import encoded, inputs, mlm_logits
from tests.hub.test_tasks import said, task_of, theirs_says

CLASSES = [
    case("DebertaV2ForMaskedLM", DEBERTA, legacy=False),
    case("DebertaV2ForSequenceClassification", DEBERTA),
    case("DebertaV2ForMultipleChoice", DEBERTA),
    case("DebertaV2ForTokenClassification", DEBERTA),
    case("DebertaV2ForQuestionAnswering", DEBERTA),
    case("MPNetForMaskedLM", MPNET),
    case("ModernBertForMaskedLM", MODERN, local_attention=8),
    case("EuroBertForMaskedLM", MODERN, num_key_value_heads=1),
    case("MPNetForSequenceClassification", MPNET),
    case("ModernBertForSequenceClassification", MODERN, classifier_pooling="mean",
         classifier_bias=True, norm_bias=True),
    case("ModernBertForMultipleChoice", MODERN),
    case("ModernBertForTokenClassification", MODERN, classifier_pooling="mean"),
    case("ModernBertForQuestionAnswering", MODERN),
    case("EuroBertForTokenClassification", MODERN, num_attention_heads=6),
    *(
        case("EuroBertForSequenceClassification", MODERN, classifier_pooling=pooling)
        for pooling in ("late", "mean", "bos")
    ),
]  # fmt: skip
KERNELS = ("eager", "sdpa")


@pytest.mark.parametrize("number", range(len(CLASSES)))
def test_every_gradient_agrees(number, tmp_path):
    torch.manual_seed(number)
    theirs = CLASSES[number].save(tmp_path)
    if theirs.config.model_type in ("modernbert", "eurobert"):
        theirs.set_attn_implementation(KERNELS[number % 2])
    ours, batch = load(tmp_path), inputs(theirs, 24)
    real_bs, family = batch["attention_mask"].bool(), family_named(theirs.config.model_type)
    path = tmp_path / "config.json"
    by_name = dict(theirs.named_parameters())
    there = {plain(prefixes(family, by_name), name): each for name, each in by_name.items()}
    modules = {name.rpartition(".")[0] for name in there}
    told = read_task(path, family, read_config(path), modules)
    if isinstance(told, str):
        assert not told
        found: tuple[torch.Tensor, ...] = (mlm_logits(ours, encoded(ours, batch)),)
    else:
        found = said(ours, task_of(ours), batch)
    for logits in found, theirs_says(theirs, batch):
        real = [each[real_bs] if each.shape[:2] == real_bs.shape else each for each in logits]
        torch.cat([each.sin().flatten() for each in real]).sum().backward()
    own = dict(ours.named_parameters())
    named = {} if isinstance(told, str) else told.held.named
    names = keys(family, ours.resolved.encoder, own, named)
    weights = by_key(family, {n: k for n, k in names.items() if own[n].grad is not None})
    assert {*weights} == {key for key, each in there.items() if each.grad is not None}
    for key, at_key in weights.items():
        # transformers leaves the row of the padding token out of the gradient.
        after = theirs.config.pad_token_id + 1
        rows = slice(after if "encoder.embeddings.token.weight" in at_key else 0, None)
        mine = torch.cat([own[name].grad for name in at_key])
        pair = mine[rows], there[key].grad[rows]
        assert at_key[0].endswith(".key.bias") or pair[1].abs().max() > 1e-3, key
        torch.testing.assert_close(
            *pair, atol=1e-4, rtol=1e-4, msg=lambda why, n=key: f"{n}: {why}"
        )
