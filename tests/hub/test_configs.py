"""Configurations: every setting that a class of transformers reads is known, and no other is."""

import dataclasses
import importlib
import inspect
import json
import re
from pathlib import Path

import pytest
import transformers

from bertc.base.diagnostics import DataError
from bertc.hub import families
from bertc.hub.config import IGNORED, OF_SCORES, ONLY, read_config
from bertc.hub.families.family import Family
from bertc.hub.families.nomic import HfNomicBert
from bertc.run.models.importing import import_model
from tests.hub.hf_models import MODERN, SMALL, case, respell

DERIVED = {"num_labels", "_attn_implementation", "output_attentions"}
"""Made by ``PreTrainedConfig`` of settings that it has, or about what is returned."""
STRAY = {"xlnet": {"n_layers", "max_position_embeddings"}}
"""In texts about the code, and where it refuses to have one set."""
HERE = [family for family in families.FAMILIES if family.model_type != "neobert"]


def read_by_transformers(family: Family) -> set[str]:
    """Settings in the fields of the configuration class, in its code and in that of the models."""
    config = transformers.CONFIG_MAPPING[family.model_type]
    module = inspect.getmodule(config)
    assert module is not None
    models = importlib.import_module(module.__name__.replace("configuration_", "modeling_"))
    code, own = inspect.getsource(models), inspect.getsource(config)
    found = {field.name for field in dataclasses.fields(config)} | {*config.attribute_map}
    found |= {*re.findall(r"\bconfig\.(\w+)", code)}
    found |= {*re.findall(r'getattr\((?:self\.)?config, "(\w+)"', code)}
    found |= {*re.findall(r'kwargs\.(?:pop|get)\("(\w+)"', own)}
    found |= {*re.findall(r"def (\w+)\(self, value\)", own)}
    if "rope_parameters" in found:  # RotaryEmbeddingConfigMixin.convert_rope_params_to_dict
        found |= {"rope_scaling"}
    if "rope_parameters" in found and "layer_types" not in found:
        found |= {"rope_theta", "partial_rotary_factor"}
    return found - DERIVED - STRAY.get(family.model_type, set())


@pytest.mark.parametrize("family", HERE, ids=lambda family: family.model_type)
def test_settings_are_those_that_transformers_reads(family):
    config = family.config
    handled = {*config.reads(), *config.only, *ONLY}
    assert not handled & {*config.ignored}
    read = read_by_transformers(family)
    assert read - handled - {*IGNORED, *config.ignored} == set(), "computed, and not known"
    older = {"position_embedding_type", "model_type", *config.older}
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
    with pytest.raises(DataError) as refused:
        read_config(path)
    for text in ("is_decoder = true", 'hidden_act = "mish"', 'position_embedding_type = "alibi"'):
        assert text in refused.value.message
    for text in (
        "tokens see earlier ones alone",
        'or "tanh" in bertc',
        "scores depend on distances",
    ):
        assert text in refused.value.help


def test_what_a_layout_computes_is_said(tmp_path):
    case("ModernBertModel", MODERN, hidden_activation="relu").save(tmp_path)
    scaled = {"rope_type": "linear", "factor": 2.0, "rope_theta": 9.0}
    path = respell(tmp_path, rope_parameters={"full_attention": scaled})
    with pytest.raises(DataError) as refused:
        read_config(path)
    for text in (
'hidden_activation is "gelu", "silu" or "swish" in',
        "rope_parameters is rope_theta alone in bertc: angles are not scaled",
    ):  # fmt: skip
        assert text in refused.value.help


def test_a_configuration_without_a_type_is_known_by_its_classes_or_settings(folder):
    path = respell(folder, model_type=None)
    assert read_config(path).model_type == "bert"
    respell(folder, architectures=None)
    assert read_config(path).model_type == "bert"
    respell(folder, architectures=["RobertaModel"])
    assert read_config(path).model_type == "roberta"
    path.write_text('{"architectures": ["T5Model"]}')
    with pytest.raises(DataError, match="unsupported model_type null"):
        read_config(path)


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
    assert isinstance(config, HfNomicBert)
    found = (config.hidden_size, config.num_hidden_layers, config.hidden_act, config.rope_theta)
    assert found == (24, 2, "gelu", 500.0)
    respell(tmp_path, hidden_size=48)
    assert read_config(path).hidden_size == 48
    respell(tmp_path, mlp_fc1_bias=True, causal=True)
    with pytest.raises(DataError, match=r"mlp_fc1_bias = true, causal = true"):
        read_config(path)
