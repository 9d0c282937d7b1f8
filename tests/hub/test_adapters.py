"""Adapters: peft computes the same from the same pairs, merged and apart, and learns the same."""

from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bertc.base.diagnostics import DataError
from bertc.hub.families.config import Wordless
from bertc.hub.leaving.adapter_folder import export_adapter, merged
from bertc.ir.methods.adapter import Lora
from bertc.ir.program.model import model_weights, trained_names
from bertc.ir.program.resolved import Resolved
from bertc.model import Model, build
from bertc.model.weights import initial_values
from bertc.run.models.importing import import_model
from tests.hub.hf_models import DEBERTA, DISTIL, MODERN, SMALL, XLNET, Case, case
from tests.hub.test_round_trip import inputs
from tests.hub.test_tasks import hf_says, said, task_of

ALL = Lora(rank=3, alpha=7, on=("attention", "ffn"))
JOINED = Lora(rank=2, alpha=3, on=("query", "value", "inner", "output"))
CASES = [
    (case("BertForSequenceClassification", SMALL), ALL),
    (case("RobertaForTokenClassification", SMALL), Lora(rank=2)),
    (case("AlbertForSequenceClassification", SMALL), ALL),
    (case("DistilBertForQuestionAnswering", DISTIL), Lora(rank=2, on="ffn")),
    (case("DebertaV2ForSequenceClassification", DEBERTA), Lora(rank=3, on="attention")),
    (case("ModernBertForSequenceClassification", MODERN), JOINED),
]


def adapted(folder: Any, adapt: Lora) -> tuple[Resolved, dict[str, torch.Tensor]]:
    """The program and weights of a folder with pairs that have learned something."""
    imported = import_model(folder)
    update = {"encoder": imported.resolved.encoder.model_copy(update={"adapt": adapt})}
    stages = tuple(stage.model_copy(update=update) for stage in imported.resolved.stages)
    resolved = imported.resolved.model_copy(update={"stages": stages})
    pairs = [weight for weight in model_weights(resolved) if weight.part == "adapter"]
    torch.manual_seed(0)
    drawn = {w.name: initial_values(w, 1) + 0.1 * torch.randn(w.shape) for w in pairs}
    return resolved, imported.tensors | drawn


def loaded(resolved: Resolved, tensors: dict[str, torch.Tensor]) -> Model:
    """The model, whose weights have gradients where its last stage trains them."""
    model = build(resolved).eval()
    model.load_state_dict(tensors)
    for name, weight in model.named_parameters():
        weight.requires_grad_(name in trained_names(resolved.stages[-1]))
    return model


def backward(scores: tuple[torch.Tensor, ...], real_bs: torch.Tensor) -> None:
    """Gradients of all scores but those of padding."""
    real = [one[real_bs] if one.shape[:2] == real_bs.shape else one for one in scores]
    torch.cat([one.sin().flatten() for one in real]).sum().backward()


@pytest.mark.filterwarnings("ignore")  # peft's, about what transformers will change
@pytest.mark.parametrize(("chosen", "adapt"), CASES, ids=lambda one: getattr(one, "cls", ""))
def test_peft_says_and_learns_the_same(chosen: Case, adapt: Lora, tmp_path):
    peft = pytest.importorskip("peft")
    reference = chosen.save(tmp_path / "base")
    resolved, tensors = adapted(tmp_path / "base", adapt)
    ours, whole = loaded(resolved, tensors), loaded(*merged(resolved, tensors))
    batch, task = inputs(reference, 24), task_of(ours)
    rest = "base", Wordless(reference.config.pad_token_id), tmp_path / "adapter"
    layout = reference.config.model_type
    assert export_adapter(resolved, tensors, *rest, layout).architecture == chosen.cls
    pairs = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    beside = peft.PeftModel.from_pretrained(reference, rest[2], is_trainable=True).eval()
    found = said(ours, task, batch), hf_says(beside.base_model.model, batch)
    for mine, there, merged_too in zip(*found, said(whole, task, batch), strict=True):
        torch.testing.assert_close(mine, there, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(mine, merged_too, atol=1e-5, rtol=1e-5)
    for scores in found:
        backward(scores, batch["attention_mask"].bool())
    slopes = {name: p.grad for name, p in ours.named_parameters() if p.grad is not None}
    assert slopes.keys() == trained_names(resolved.stages[-1])
    export_adapter(resolved, tensors | slopes, *rest, layout)
    there = {
        name.replace(".default", "").replace(".modules_to_save", ""): p.grad
        for name, p in beside.named_parameters()
        if p.grad is not None
    }
    mine = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert mine.keys() == there.keys()
    for key, slope in mine.items():
        # Of maps that are one there, each has its own part of the second map.
        part = pairs[key].ne(0) if ".lora_B." in key else torch.ones_like(slope)
        torch.testing.assert_close(slope, there[key] * part, atol=1e-5, rtol=1e-4)


def test_a_layout_without_matrices_is_refused(tmp_path):
    case("XLNetForSequenceClassification", XLNET).save(tmp_path / "base")
    resolved, tensors = adapted(tmp_path / "base", Lora(rank=2))
    with pytest.raises(DataError, match="as no matrix"):
        export_adapter(resolved, tensors, "base", Wordless(0), tmp_path / "adapter", "xlnet")
    assert not (tmp_path / "adapter").exists()
