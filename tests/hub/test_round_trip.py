"""Random models of transformers come in with the same outputs and go out with the same bits."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

from bertc.hub.exporting import TYPED, UNASKED, export_model
from bertc.model import Model
from bertc.run.models.importing import import_model
from bertc.run.models.loading import load
from tests.hub.hf_models import CASES, DEBERTA, DEEP, MPNET, SMALL, case, config_of
from tests.hub.programs import Wordless, assert_same

LENGTHS = (1, 7, 16, 30)


def inputs(model: Any, seq: int) -> dict[str, torch.Tensor]:
    """Three rows as the model reads them: full, padded by one, and padded by half."""
    config, generator = model.config, torch.Generator().manual_seed(seq)
    ids = torch.randint(5, config.vocab_size, (3, seq), generator=generator)
    lengths = torch.tensor([seq, max(1, seq - 1), max(1, seq // 2)])
    mask = torch.arange(seq)[None, :] < lengths[:, None]
    found = {"input_ids": ids.masked_fill(~mask, config.pad_token_id)}
    found["attention_mask"] = mask.long()
    if config.model_type == "xlm":
        found["langs"] = torch.randint(0, config.n_langs, (3, seq), generator=generator)
        found["position_ids"] = (torch.arange(seq) % max(1, seq // 2)).expand(3, seq)
    elif config.model_type not in ("distilbert", "mpnet", "modernbert", "eurobert", "deberta-v2"):
        kinds = torch.randint(
            0, getattr(config, "type_vocab_size", 3), (3, seq), generator=generator
        )
        found["token_type_ids"] = kinds
    return found


def encoded(model: Model, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Our states of the same rows."""
    return model.encode(
        batch["input_ids"],
        batch.get("token_type_ids"),
        batch["attention_mask"].bool(),
        language_ids=batch.get("langs"),
        position_ids=batch.get("position_ids"),
    )


def mlm_logits(model: Model, hidden: torch.Tensor) -> torch.Tensor:
    """The head over the vocabulary at every position."""
    term = model.resolved.terms()[0].objective
    head = model.heads[term.head_name]
    table = model.encoder.embeddings.token.get_parameter("weight")
    return head.scores(hidden, table if head.weight is None else head.weight)


def close(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    return bool((ours - theirs).abs().max() <= 1e-5)


@pytest.mark.parametrize("chosen", CASES, ids=str)
def test_outputs_agree_and_tensors_come_back_bit_equal(chosen, tmp_path):
    theirs = chosen.save(tmp_path / "in")
    ours = load(tmp_path / "in")
    for seq in LENGTHS:
        assert_outputs_agree(ours, theirs, inputs(theirs, seq))
    imported = import_model(tmp_path / "in")
    words = Wordless(theirs.config.pad_token_id)
    kept = imported.config.model_type
    exported = export_model(
        imported.resolved, imported.tensors, words, tmp_path / "out", prefer=kept
    )
    assert exported.architecture == chosen.cls
    assert exported.notes == (TYPED,) * (kept in UNASKED)
    before, after = (load_file(tmp_path / at / "model.safetensors") for at in ("in", "out"))
    assert_same(after, before)
    assert_loads(tmp_path / "out", theirs)


@torch.no_grad()
def assert_outputs_agree(ours: Model, theirs: Any, batch: dict[str, torch.Tensor]) -> None:
    """States, and what the heads of pretraining say."""
    mask, hidden, output = batch["attention_mask"].bool(), encoded(ours, batch), theirs(**batch)
    base = theirs.base_model(**batch).last_hidden_state
    assert close(hidden[mask], base[mask])
    for name in ("prediction_logits", "logits"):
        if name in output and output[name].ndim == 3:
            assert close(mlm_logits(ours, hidden)[mask], output[name][mask])
        elif name in output and type(theirs).__name__ == "ElectraForPreTraining":
            assert close(ours.heads["rtd"](hidden)[mask], output[name][mask])
    if ours.encoder.pooler is not None and "pooler_output" in output:
        assert close(ours.pool(hidden), output.pooler_output)
    for name, head in (("seq_relationship_logits", "nsp"), ("sop_logits", "sop")):
        if name in output:
            assert close(ours.heads[head](ours.pool(hidden)), output[name])


def test_a_head_of_deberta_as_transformers_trains_it(tmp_path):
    """Names of ``legacy``, which is its default; it computes what that of the releases does."""
    theirs = case("DebertaV2ForMaskedLM", DEBERTA).save(tmp_path)
    assert theirs.config.legacy
    assert_outputs_agree(load(tmp_path), theirs, inputs(theirs, 9))


def assert_loads(folder: Path, theirs: Any) -> None:
    """transformers finds every key, no other one, and computes the same."""
    cls = getattr(transformers, type(theirs).__name__)
    again, info = cls.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    batch = inputs(theirs, 9)
    with torch.no_grad():
        assert close(again.eval()(**batch)[0], theirs(**batch)[0])


@pytest.mark.parametrize(("groups", "kind"), [(1, "all"), (3, "groups"), (6, "none")])
def test_albert_groups_become_a_sharing_scheme(groups, kind, tmp_path):
    case("AlbertModel", DEEP, embedding_size=8, num_hidden_groups=groups).save(tmp_path)
    assert import_model(tmp_path).program.settings["share"].value.kind == kind


COUNTED = [
    case("RobertaModel", SMALL, type_vocab_size=1),
    case("RobertaModel", SMALL, type_vocab_size=1, pad_token_id=3),
    case("CamembertModel", SMALL, type_vocab_size=1),
    case("MPNetModel", MPNET),
]


@pytest.mark.parametrize("chosen", COUNTED, ids=str)
def test_padding_tokens_within_a_text_have_no_position(chosen, tmp_path):
    """The padding id of the configuration counts, whatever that of the tokenizer."""
    theirs = chosen.save(tmp_path / "in")
    pad = theirs.config.pad_token_id
    ids_bs = torch.tensor([[5, 6, pad, 7, 8, pad, pad, 9], [pad, 6, 7, 8, 9, 10, 11, pad]])
    model = load(tmp_path / "in")
    with torch.no_grad():
        wanted = theirs(ids_bs, torch.ones_like(ids_bs)).last_hidden_state
        ours = model.encode(ids_bs)
        row = torch.cat([ids_bs[0], ids_bs[1]])[None]
        packed = model.encode(row, sequence_ids=torch.arange(16)[None] // 8)
    assert close(ours, wanted)
    assert close(packed[0], wanted.flatten(0, 1))
    imported = import_model(tmp_path / "in")
    export_model(imported.resolved, imported.tensors, Wordless(0), tmp_path / "out", strict=True)
    assert config_of(tmp_path / "out")["pad_token_id"] == pad
