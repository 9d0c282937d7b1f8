"""Weights as folders have them, and every setting that a configuration of transformers has."""

import dataclasses
import importlib
import inspect
import json
import random
import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from bertc.base.diagnostics import DataError, MissingInputError, UnsafeError
from bertc.hub import families
from bertc.hub.config import IGNORED, OF_SCORES, ONLY, read_config
from bertc.hub.families.family import Family
from bertc.run.models.importing import Imported, import_model
from tests.hub.hf_models import DEBERTA, DISTIL, MODERN, SMALL, XLNET, case, respell

Tensors = dict[str, torch.Tensor]


def in_parts(tensors: Tensors, folder: Path, name: str, save: Callable[..., object]) -> None:
    """Two files and their index."""
    (stem, end), keys = name.split("."), sorted(tensors)
    parts = {key: f"{stem}-0000{1 + n % 2}-of-00002.{end}" for n, key in enumerate(keys)}
    for part in {*parts.values()}:
        save({key: tensors[key] for key in keys if parts[key] == part}, folder / part)
    (folder / f"{name}.index.json").write_text(json.dumps({"weight_map": parts}))


def safe(tensors: Tensors, folder: Path) -> None:
    save_file(tensors, folder / "model.safetensors")


def pickled(tensors: Tensors, folder: Path) -> None:
    torch.save(tensors, folder / "pytorch_model.bin")


def old_pickle(tensors: Tensors, folder: Path) -> None:
    """As torch wrote before 1.6, with norms by TensorFlow's names (2019)."""
    names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    for now, then in names.items():
        tensors = {name.replace(now, then): tensor for name, tensor in tensors.items()}
    tensors["embeddings.position_ids"] = torch.arange(32)[None]
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def copies_alone(tensors: Tensors, folder: Path) -> None:
    """Tied tensors under the names of their copies."""
    tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
    del tensors["bert.embeddings.word_embeddings.weight"]
    pickled(tensors, folder)


def save_with_others(tensors: Tensors, folder: Path) -> None:
    pickled(tensors, folder)
    for name in ("colbert_linear.pt", "optimizer.pt", "training_args.bin"):
        (folder / name).write_bytes(b"no pickle")


def both(tensors: Tensors, folder: Path) -> None:
    safe(tensors, folder)
    (folder / "pytorch_model.bin").write_bytes(b"not read")


def composed(tensors: Tensors, folder: Path) -> None:
    """A checkpoint as Composer saves it, of a network that it wraps, and an earlier one."""
    (folder / "ep0-ba9-rank0.pt").write_bytes(b"not read")
    state = {
        "model": {f"model.{name}": tensor for name, tensor in tensors.items()},
        "optimizers": {"StableAdamW": {"state": {}, "param_groups": [{"lr": 1e-3}]}},
        "timestamp": {"Timestamp": {"batch": 5298, "token": 10**9, "total_wct": timedelta(1)}},
    }
    rng = {"python": random.getstate(), "numpy": np.random.get_state()}
    torch.save({"state": state, "rng": [rng]}, folder / "ep0-ba5298-rank0.pt")


FILES: dict[str, Callable[[Tensors, Path], None]] = {
    "pickled": pickled, "an old pickle": old_pickle, "copies alone": copies_alone, "both": both,
    "beside others": save_with_others, "a checkpoint of Composer": composed,
    "in parts": partial(in_parts, name="model.safetensors", save=save_file),
    "pickles in parts": partial(in_parts, name="pytorch_model.bin", save=torch.save),
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Imported]:
    folder = tmp_path_factory.mktemp("sound")
    case("BertForPreTraining", SMALL).save(folder)
    return folder, import_model(folder)


@pytest.mark.parametrize("name", FILES)
def test_the_same_weights_in_other_files(name, sound, tmp_path):
    folder, imported = sound
    tensors = load_file(folder / "model.safetensors")
    # A tied table is stored again, as one piece of memory.
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"]
    if name in ("both", "in parts"):
        tensors = {key: tensor.clone() for key, tensor in tensors.items()}
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    FILES[name](tensors, tmp_path)
    assert_same(import_model(tmp_path), imported)


def assert_same(found: Imported, wanted: Imported) -> None:
    assert found.tensors.keys() == wanted.tensors.keys()
    for key, tensor in found.tensors.items():
        assert torch.equal(tensor, wanted.tensors[key]), key
        assert tensor.is_contiguous()


@pytest.mark.parametrize(("kind", "dtype"), [("F16", torch.half), ("BF16", torch.bfloat16)])
@pytest.mark.parametrize("save", [pickled, safe])
def test_half_precision_becomes_whole(kind, dtype, save, sound, tmp_path):
    folder, imported = sound
    tensors = load_file(folder / "model.safetensors")
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    save({name: tensor.to(dtype) for name, tensor in tensors.items()}, tmp_path)
    half = import_model(tmp_path)
    assert half.notes == (f"{kind} weights became F32",)
    for key, tensor in half.tensors.items():
        assert torch.equal(tensor, imported.tensors[key].to(dtype).float()), key


CASES = [
    case("BertForMaskedLM", SMALL), case("RobertaForMaskedLM", SMALL, type_vocab_size=1),
    case("DistilBertForMaskedLM", DISTIL), case("DebertaV2ForMaskedLM", DEBERTA, legacy=False),
    case("ModernBertForMaskedLM", MODERN, local_attention=8), case("XLNetLMHeadModel", XLNET),
    case("ElectraForMaskedLM", SMALL, embedding_size=16), case("NomicBertForMaskedLM", MODERN),
]  # fmt: skip


@pytest.mark.parametrize("chosen", CASES, ids=str)
def test_prefixes_of_other_modules_are_taken_off(chosen, tmp_path):
    """A model within another, ``model.``, ``encoder.`` or sentence-transformers' own."""
    chosen.save(tmp_path)
    wanted, path = import_model(tmp_path), tmp_path / "model.safetensors"
    tensors = load_file(path)
    for outer in ("module.", "encoder.", "0.auto_model."):
        save_file({f"{outer}{name}": tensor for name, tensor in tensors.items()}, path)
        assert_same(import_model(tmp_path), wanted)
    table = next(key for key in tensors if "word_embedding" in key or "tok_embeddings" in key)
    inner = table.partition(".")[0]  # the encoder's prefix is that of its token table
    save_file({re.sub(rf"^{inner}\.", "bert.", name): t for name, t in tensors.items()}, path)
    assert_same(import_model(tmp_path), wanted)


def test_weights_of_another_layout_are_not_read_as_this_one(tmp_path):
    case("RobertaForMaskedLM", SMALL).save(tmp_path)
    respell(tmp_path, model_type=None, architectures=None)
    with pytest.raises(DataError, match=r"roberta\.embeddings\..* is no name of the BERT layout"):
        import_model(tmp_path)


def test_deberta_is_read_with_the_weights_of_its_pretraining(tmp_path):
    """The enhanced mask decoder's positions, and the head of an earlier objective."""
    case("DebertaV2ForMaskedLM", DEBERTA, legacy=False).save(tmp_path)
    wanted, path = import_model(tmp_path), tmp_path / "model.safetensors"
    others = {"deberta.embeddings.position_embeddings.weight": torch.ones(32, 24)}
    others |= {"mask_predictions.dense.weight": torch.ones(24, 24)}
    save_file({**load_file(path), **others}, path)
    found = import_model(tmp_path)
    assert_same(found, wanted)
    listed = "left: deberta.embeddings.position_embeddings.weight, mask_predictions.dense.weight"
    assert found.notes == (f"weights that the network does not read, {listed}",)


def test_checkpoints_of_composer_name_the_layers_of_modernbert_their_way(tmp_path: Path) -> None:
    wanted, folder = tmp_path / "wanted", tmp_path / "composed"
    case("ModernBertForMaskedLM", MODERN).save(wanted)
    folder.mkdir()
    (folder / "config.json").write_text((wanted / "config.json").read_text())
    tensors = {
        name.replace("model.layers.", "bert.encoder.layers.").replace("model.", "bert."): tensor
        for name, tensor in load_file(wanted / "model.safetensors").items()
    }
    composed(tensors, folder)
    read = import_model(folder)
    assert_same(read, import_model(wanted))
    assert "5,298 batches and 1,000,000,000 tokens" in " ".join(read.notes)
    content = torch.load(folder / "ep0-ba5298-rank0.pt", weights_only=False)
    content["state"]["callbacks"] = [Path("code")]
    torch.save(content, folder / "ep0-ba5298-rank0.pt")
    assert "['state']['model']" in pytest.raises(UnsafeError, import_model, folder).value.help


DERIVED = {"num_labels", "_attn_implementation", "output_attentions"}
"""Made by ``PreTrainedConfig`` of settings that it has, or about what is returned."""
OF_IMAGES = {"vision_config", "text_config", "get_text_config", "image_token_id"}
STRAY = {
    "xlnet": {"n_layers", "max_position_embeddings"},
    "gemma3_text": {*OF_IMAGES, "mm_tokens_per_image"},
}
"""In texts about the code, and where it refuses to have one set; in code of other networks."""
HERE = [family for family in families.FAMILIES if family.model_type != "neobert"]


def read_by_transformers(family: Family) -> set[str]:
    """Settings in the fields of the configuration class, in its code and in that of the models."""
    config = transformers.CONFIG_MAPPING[family.model_type]
    module = inspect.getmodule(config)
    models = importlib.import_module(module.__name__.replace("configuration_", "modeling_"))
    code, own = inspect.getsource(models), inspect.getsource(config)
    found = {field.name for field in dataclasses.fields(config)} | {*config.attribute_map}
    found |= {*re.findall(r"\bconfig\.(\w+)", code)}
    found |= {*re.findall(r'getattr\((?:self\.)?config, "(\w+)"', code)}
    found |= {*re.findall(r'kwargs\.(?:pop|get)\("(\w+)"', own)}
    found |= {*re.findall(r"def (\w+)\(self, value\)", own)}
    if "rope_parameters" in found:  # RotaryEmbeddingConfigMixin.convert_rope_params_to_dict
        found |= {"rope_scaling"}
    if "rope_parameters" in found and "full_attention" not in config().rope_parameters:
        found |= {"rope_theta", "partial_rotary_factor"}
    return found - DERIVED - STRAY.get(family.model_type, set())


@pytest.mark.parametrize("family", HERE, ids=lambda family: family.model_type)
def test_settings_are_those_that_transformers_reads(family):
    config = family.config
    handled = {*config.reads(), *config.only, *ONLY}
    assert not handled & {*config.ignored}
    read = read_by_transformers(family)
    assert read - handled - {*IGNORED, *config.ignored} == set(), "computed, and not known"
    # Read where masks are made: masking_utils.py, create_causal_mask.
    older = {"position_embedding_type", "model_type", "is_causal", *config.older}
    if config.older:  # and settings of the class that the folder's code had
        older |= {*config.only}
    assert {*config.reads(), *config.only, *config.ignored} - read - older == set(), "never read"


@pytest.mark.parametrize("family", HERE, ids=lambda family: family.model_type)
def test_defaults_are_those_of_transformers(family):
    """But for those that follow from other settings, or have to be written: None, or no default."""
    config, reference = family.config, transformers.CONFIG_MAPPING[family.model_type]().to_dict()
    pairs = {
        name: (config.model_fields[field].default, config.meant(name, reference[name]))
        for name, field in config.reads().items()
        if name in reference and not config.model_fields[field].is_required()
    }
    assert {n: p for n, p in pairs.items() if p[0] is not None and p[0] != p[1]} == {}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small BERT."""
    case("BertForMaskedLM", SMALL).save(tmp_path)
    return tmp_path


def test_what_changes_nothing_is_listed_in_one_line(folder):
    """Keys of generation, training, saving and of other tools, as published folders have them."""
    others = {
        "_num_labels": 9, "sentence_transformers": {"activation_fn": "torch.nn.Identity"},
        "sbert_ce_default_activation_function": "torch.nn.Identity", "use_bfloat16": False,
        "length_penalty": 1.0, "_attn_implementation_autoset": True, "cell": {}, "emb_size": 24,
        "auto_map": {"AutoModel": "modeling.BertModel"}, "kwargs": {"trust_remote_code": True},
    }  # fmt: skip
    before = import_model(folder)
    respell(folder, **others, attn_implementation="sdpa", rope_theta=3.0)
    imported = import_model(folder)
    assert imported.program == before.program
    code, listed = imported.config.notes
    assert code == "config.json names code for its classes: only the weights were read"
    names = [*others, "rope_theta", "attn_implementation"]
    assert listed.startswith("settings of config.json without effect: _num_labels, ")
    said = {*re.findall(r"\w+", listed)}
    assert said >= {*names} - {"auto_map", *OF_SCORES}
    assert not said & {*OF_SCORES}, "an export of the head has them"


def test_all_that_is_refused_is_said_at_once(folder):
    path = respell(folder, is_decoder=True, hidden_act="mish", position_embedding_type="alibi")
    refused = pytest.raises(DataError, read_config, path).value
    for text in ("is_decoder = true", 'hidden_act = "mish"', 'position_embedding_type = "alibi"'):
        assert text in refused.message
    for text in ("tokens see earlier ones alone", 'or "tanh" in bertc', "scores depend on distan"):
        assert text in refused.help


def test_what_a_layout_computes_is_said(tmp_path):
    case("ModernBertModel", MODERN, hidden_activation="relu").save(tmp_path)
    scaled = {"rope_type": "linear", "factor": 2.0, "rope_theta": 9.0}
    path = respell(tmp_path, rope_parameters={"full_attention": scaled})
    told = pytest.raises(DataError, read_config, path).value.help
    assert 'hidden_activation is "gelu", "silu" or "swish" in' in told
    assert "rope_parameters is rope_theta alone in bertc: angles are not scaled" in told


def test_a_configuration_without_a_type_is_known_by_its_classes_or_settings(folder):
    path = respell(folder, model_type=None)
    assert read_config(path).model_type == "bert"
    respell(folder, architectures=None)
    assert read_config(path).model_type == "bert"
    respell(folder, architectures=["RobertaModel"])
    assert read_config(path).model_type == "roberta"
    path.write_text('{"architectures": ["T5Model"]}')
    pytest.raises(DataError, read_config, path).match("unsupported model_type null")
    path.rename(path.with_name("bert_config.json"))
    error = pytest.raises(MissingInputError, read_config, path)
    assert error.value.help == f"{folder}/bert_config.json has the same content: copy it"


def test_first_names_of_nomic_are_read_where_todays_are_not(tmp_path):
    path = tmp_path / "config.json"
    first = {
        "model_type": "nomic_bert", "n_embd": 24, "n_layer": 2, "n_head": 3, "n_inner": 40,
        "n_positions": 64, "layer_norm_epsilon": 1e-5, "activation_function": "geglu",
        "rotary_emb_base": 500, "mlp_fc1_bias": False, "prenorm": False, "resid_pdrop": 0.1,
        "embd_pdrop": 0.1, "rotary_emb_fraction": 1.0, "scale_attn_weights": True,
    }  # fmt: skip
    path.write_text(json.dumps(first))
    config = read_config(path)
    found = (config.hidden_size, config.num_hidden_layers, config.hidden_act, config.rope_theta)
    assert found == (24, 2, "gelu", 500.0)
    respell(tmp_path, hidden_size=48)
    assert read_config(path).hidden_size == 48
    respell(tmp_path, mlp_fc1_bias=True, causal=True)
    pytest.raises(DataError, read_config, path).match(r"mlp_fc1_bias = true, causal = true")
