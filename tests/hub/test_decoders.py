"""Decoders: what they are read as, rows by their last token, ids, and vectors of their folders."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import bertc
from bertc.api import findings
from bertc.base.diagnostics import DataError, SpecError
from bertc.check.facts.networks import program_of
from bertc.hub.families import family_for, family_named
from bertc.hub.keys import keys
from bertc.ir.program import model_weights
from bertc.run.beginning.init_from import source_of
from bertc.run.models.importing import import_model
from bertc.run.models.loading import load
from bertc.run.models.runs import export_run, import_run
from bertc.run.train.loop import train
from bertc.text.vocab.vocabulary import vocabulary_of
from tests.hub import test_round_trip
from tests.hub.hf_models import DECODER, GEMMA, LLAMA3, ULTRA, case, respell
from tests.hub.test_round_trip import close, encoded, inputs, mlm_logits
from tests.hub.test_tokenizers import ODD, rows

END, TURN, BEGIN = "<|endoftext|>", "<|im_end|>", "<|begin_of_text|>"
NAMED: dict[str, dict[str, str]] = {
    "Qwen3-Embedding": {"eos_token": TURN, "pad_token": END},
    "Qwen3": {"eos_token": TURN, "pad_token": END},
    "begun": {"bos_token": BEGIN, "eos_token": TURN, "pad_token": END},
    "Llama": {"bos_token": BEGIN, "eos_token": TURN},
}
"""Special tokens that folders name; the first puts one behind a text, the last one before."""


def write_tokenizer(folder: Path, of: str, size: int = 400) -> None:
    """Byte pairs, and the special tokens and ends of these folders."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    bytes_ = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[END, TURN, BEGIN], initial_alphabet=bytes_,
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(ODD * 3, trainer)
    number = tokenizer.token_to_id
    if of in ("Qwen3-Embedding", "Llama"):
        single = f"$A {END}" if "Embedding" in of else f"{BEGIN} $A"
        ends = [(token, number(token)) for token in (END, BEGIN)]
        pair = single.replace("$A", "$A $B")
        tokenizer.post_processor = processors.TemplateProcessing(single, pair, ends)
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "padding_side": "left", **NAMED[of]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("of", NAMED)
def test_ids_are_those_of_transformers_with_the_ends_that_a_tokenizer_puts(of, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    write_tokenizer(tmp_path, of)
    found = vocabulary_of(tmp_path, 400)
    found.save(tmp_path / "again")
    for folder in (tmp_path, tmp_path / "again"):
        reference = transformers.AutoTokenizer.from_pretrained(folder)
        for text in (*ODD, "a_b __ _"):
            assert rows(found, text)[0] == reference(text)["input_ids"]
        assert reference.padding_side == "left"
    assert reference.mask_token is None
    assert [found.token(i) for i in (found.mask, found.sep)] == ["_", TURN]
    assert not found.special[found.mask]


NETWORKS = [
    case("Qwen3ForCausalLM", DECODER), case("MistralForCausalLM", DECODER, sliding_window=4),
    case("Gemma3ForCausalLM", GEMMA, use_bidirectional_attention=True),
    case("UltrabertForMaskedLM", ULTRA),
]  # fmt: skip


@pytest.mark.parametrize("chosen", NETWORKS, ids=str)
def test_padding_on_either_side_changes_nothing_and_gradients_are_those_of_transformers(
    chosen, tmp_path
):
    reference, ours = chosen.save(tmp_path), load(tmp_path)
    batch = inputs(reference, 16)
    on_left = {name: values.flip(1) for name, values in batch.items()}  # and texts from behind
    texts = [row[mask > 0] for row, mask in zip(*on_left.values(), strict=True)]
    states = reference.base_model(**on_left).last_hidden_state
    for text, padded in zip(texts, states, strict=True):
        assert close(ours.encode(text[None])[0], padded[-len(text) :])
    read = batch["attention_mask"].bool()
    labels = torch.randint(5, 97, read.shape)[read]
    for of_all in (mlm_logits(ours, encoded(ours, batch))[read], reference(**batch).logits[read]):
        F.cross_entropy(of_all, labels).backward()
    family = family_named(reference.config.model_type)
    spelled = {"head.decoder": "cls"} if chosen.cls.startswith("Ultra") else {}
    theirs = {
        f"{spelled.get(name[:-7], name[:-7])}.weight".replace("model.", f"{family.prefix}."): p.grad
        for name, p in reference.named_parameters()
    }
    weights = dict(ours.named_parameters())
    for name, key in keys(family, ours.resolved.encoder, weights, {}).items():
        wanted = theirs.pop(key, None)
        wanted = theirs.pop(f"{family.prefix}.{key}") if wanted is None else wanted
        torch.testing.assert_close(weights[name].grad, wanted, atol=1e-6, rtol=1e-4)
    assert not theirs


QUERY = "Instruct: Given a web search query, retrieve passages\nQuery:"
TEXTS = ["a hen's café", "naïve", "two  spaces and 12,000 hens " * 3]


def sentences(folder: Path, cls: str, *further: str, **settings: Any) -> SentenceTransformer:
    """A folder as Qwen3-Embedding's are published, or with further modules EmbeddingGemma's."""
    case(cls, GEMMA if further else DECODER, **{"vocab_size": 400, **settings}).save(folder)
    write_tokenizer(folder, "Qwen3-Embedding")
    kinds, places = ("Transformer", "Pooling", *further, "Normalize"), dict[str, Any]()
    types = [f"sentence_transformers.models.{kind}" for kind in kinds]
    paths = ["", *(f"{n}_{kind}" for n, kind in enumerate(kinds) if n)]
    places["modules.json"] = [
        {"idx": n, "name": str(n), "path": path, "type": kind}
        for n, (path, kind) in enumerate(zip(paths, types, strict=True))
    ]
    mode = "lasttoken" if not further else "mean_tokens"
    places["1_Pooling/config.json"] = {
        "word_embedding_dimension": 24, f"pooling_mode_{mode}": True, "include_prompt": True,
        **({} if further else {"pooling_mode_mean_tokens": False}),
    }  # fmt: skip
    places["sentence_bert_config.json"] = {"max_seq_length": 30, "do_lower_case": False}
    places["config_sentence_transformers.json"] = {
        "prompts": {"query": QUERY, "document": ""}, "default_prompt_name": None,
        "similarity_fn_name": "cosine",
    }  # fmt: skip
    widths = (24, 40, 12)
    for n, kind in enumerate(further, 2):
        sizes = {"in_features": widths[n - 2], "out_features": widths[n - 1], "bias": False}
        linear = "torch.nn.modules.linear.Identity"
        places[f"{n}_{kind}/config.json"] = {**sizes, "activation_function": linear}
    for name, value in places.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(value))
    for n, kind in enumerate(further, 2):
        weights = {"linear.weight": torch.randn(widths[n - 1], widths[n - 2])}
        save_file(weights, folder / f"{n}_{kind}" / "model.safetensors")
    return SentenceTransformer(str(folder), device="cpu")


def assert_same_vectors(folder: Path, reference: SentenceTransformer) -> None:
    model = bertc.load(folder)
    for prompt in ("", QUERY):
        wanted = torch.tensor(reference.encode([prompt + text for text in TEXTS]))
        assert close(torch.tensor(model.embed([prompt + text for text in TEXTS])), wanted)


@pytest.mark.parametrize("both_ways", [False, True])
def test_vectors_of_last_tokens_and_prompts_come_in_and_go_out(both_ways, tmp_path):
    folder = tmp_path / "came"
    settings = {"is_causal": False} if both_ways else {}
    reference = sentences(folder, "Qwen3Model", **settings)
    assert_same_vectors(folder, reference)
    notes = " ".join(import_model(folder).notes)
    assert ("causal=false makes an encoder" in notes) is not both_ways
    assert "pooling last, normalised" in notes


OF_GEMMA = ("Gemma3TextModel", "Dense", "Dense")


@pytest.mark.parametrize("cls", [("Qwen3Model",), OF_GEMMA], ids=str)
def test_a_run_of_such_a_folder_leaves_with_the_same_vectors(cls, tmp_path):
    both_ways = {"use_bidirectional_attention": True} if cls == OF_GEMMA else {}
    reference = sentences(tmp_path / "came", *cls, **both_ways)
    assert_same_vectors(tmp_path / "came", reference)
    import_run(tmp_path / "came", tmp_path / "run")
    left = export_run(tmp_path / "run", tmp_path / "left")
    assert left.architecture == cls[0]
    assert_same_vectors(tmp_path / "run", reference)
    again = SentenceTransformer(str(left.folder), device="cpu")
    assert_same_vectors(left.folder, again)
    for key in ("query", "document"):
        assert again.prompts[key] == reference.prompts[key]
    assert close(torch.tensor(again.encode(TEXTS)), torch.tensor(reference.encode(TEXTS)))


def test_a_decoder_is_read_as_it_was_trained_unless_causal_is_false(tmp_path):
    sentences(tmp_path / "qwen", "Qwen3Model")
    for folder in ("qwen", "run"):  # it stays so, once it is imported
        spec = f'init="{tmp_path / folder}" task=embed("{tmp_path}/a.jsonl", examples=9) steps=1'
        assert "R130" in [remark.code for remark in findings(spec).remarks]
        found = bertc.resolve(spec)
        assert found.encoder.causal
        assert found.stages[0].tasks[0].pooling == "last"
        assert not bertc.resolve(f"{spec} causal=false").encoder.causal
        with pytest.raises(SpecError, match="mntp predicts tokens from both sides"):
            bertc.resolve(f'init="{tmp_path / folder}" objective=mntp steps=1')
        import_run(tmp_path / "qwen", tmp_path / "run")


def test_an_encoder_is_made_of_a_decoder_in_two_stages_and_leaves_with_its_maps(tmp_path):
    """As LLM2Vec: masked tokens by the state before them, then vectors, by pairs of maps."""
    case("Qwen3ForCausalLM", DECODER, vocab_size=400, num_hidden_layers=2).save(tmp_path / "qwen")
    write_tokenizer(tmp_path / "qwen", "Qwen3-Embedding")
    (tmp_path / "text.txt").write_text("a hen's café, 12,000 hens\n\n" * 60)
    pairs = ({"text": f"hens {n}", "to": f"a pond {n}"} for n in range(16))
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    resolved = bertc.resolve(f"""
        init = "{tmp_path}/qwen"  causal = false  adapt = lora(4)  seq = 16  batch = 4  steps = 2
        stage "mntp" {{ objective = mntp  data = files("{tmp_path}/text.txt") }}
        stage "vectors" {{
            task = embed("{tmp_path}/pairs.jsonl", positive=to, dense=[20, 12], normalise=true)
        }}
    """)
    known = vocabulary_of(tmp_path / "qwen", 400)
    with pytest.raises(DataError, match="no token for masks"):
        replace(known, mask=known.pad).require_mask(-1, masks=True)
    train(resolved, tmp_path / "run", quiet=True)
    lines = " ".join(source_of(resolved).lines())
    assert "causal is true there, but false here" in lines
    assert "mlm head" not in lines, "it goes on as that of the decoder"
    left = export_run(tmp_path / "run", tmp_path / "left").folder
    config = json.loads((left / "config.json").read_text())
    assert (config["is_causal"], config["max_position_embeddings"]) == (False, 32_768)
    again = SentenceTransformer(str(left), device="cpu")
    assert again.max_seq_length == 16
    assert again.encode("a").shape == (12,)
    assert_same_vectors(tmp_path / "run", again)
    assert_same_vectors(left, again)


COLUMNS = (
    "model_type", "hidden_size", "num_hidden_layers", "head_dim", "num_attention_heads",
    "num_key_value_heads", "intermediate_size", "vocab_size", "tie_word_embeddings",
)  # fmt: skip
SIZES: dict[str, tuple[Any, ...]] = {
    "Qwen3-0.6B": ("qwen3", 1024, 28, 128, 16, 8, 3072, 151_936, True),
    "Llama-3.2-1B": ("llama", 2048, 16, 64, 32, 8, 8192, 128_256, True),
    "Mistral-7B": ("mistral",),
    "UltraBERT": ("ultrabert",),
    "EmbeddingGemma-300M": ("gemma3_text", 768, 24, 256, 3, 1, 1152, 262_144, True),
}


@pytest.mark.parametrize("name", SIZES)
def test_networks_have_as_many_weights_as_those_of_transformers(name, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(dict(zip(COLUMNS, SIZES[name], strict=False))))
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    with torch.device("meta"):
        heads = "MaskedLM" if name == "UltraBERT" else "CausalLM"
        model = getattr(transformers, f"AutoModelFor{heads}").from_config(config)
    found = program_of(tmp_path)
    assert sum(w.numel for w in model_weights(found)) == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("name", "layout", "maps"), [
    ("qwen3-embedding-0.6b", "qwen3", 0), ("embeddinggemma-300m", "gemma3_text", 4_718_592),
])  # fmt: skip
def test_presets_have_as_many_weights_as_the_releases_and_their_layouts(name, layout, maps):
    resolved, published = bertc.resolve(name), {"qwen3": 595_776_512, "gemma3_text": 302_863_104}
    assert sum(w.numel for w in model_weights(resolved)) == published[layout] + maps
    assert family_for(resolved, pad=0).model_type == layout


def test_first_files_of_ultrabert_have_a_window_and_a_base_for_each_layer(tmp_path):
    case("UltrabertForSequenceClassification", ULTRA, vocab_size=400).save(tmp_path)
    write_tokenizer(tmp_path, "Llama")
    respell(
        tmp_path, classifier_pooling="mean", attention_windows=[4, None, 0, 4],
        rope_theta=[30.0, 400.0, 500.0, 20.0], **dict.fromkeys(("layer_types", "rope_parameters")),
    )  # fmt: skip
    reference = transformers.AutoModel.from_pretrained(tmp_path).eval()
    test_round_trip.assert_outputs_agree(load(tmp_path), reference, inputs(reference, 16))
    known = vocabulary_of(tmp_path, 400)
    texts = transformers.AutoTokenizer.from_pretrained(tmp_path)(ODD)["input_ids"]
    assert [rows(known, text)[0] for text in ODD] == texts
    notes = " ".join(import_model(tmp_path).notes)
    assert 'is left: no task of bertc fits classifier_pooling = "mean"' in notes
    respell(tmp_path, attention_windows=[4, None])
    with pytest.raises(DataError, match="attention_windows has 2 entries for 4 layers"):
        import_model(tmp_path)


def test_angles_scaled_as_in_first_files_come_before_those_of_today(tmp_path):
    case("LlamaForCausalLM", DECODER).save(tmp_path)
    for scaled in ({**LLAMA3, "rope_theta": 9.0}, {"type": "yarn", "factor": 64.0}):
        respell(tmp_path, rope_scaling=scaled, rope_theta=50.0, max_position_embeddings=64)
        reference = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
        test_round_trip.assert_outputs_agree(load(tmp_path), reference, inputs(reference, 60))
    for name, number in (("factor", -2), ("high_freq_factor", 0.1), ("rope_theta", "x")):
        path = respell(tmp_path, rope_scaling={**LLAMA3, name: number})
        told = pytest.raises(DataError, import_model, path.parent).value.help
        assert f"{name} = {json.dumps(number)}" in told.partition("; ")[2]


def test_what_is_not_computed_is_refused_by_name(tmp_path):
    case("LlamaModel", DECODER, num_hidden_layers=1).save(tmp_path)
    scaled = {"rope_type": "llama3", "rope_theta": 500_000.0, "factor": 32.0}
    for settings in (
        {"rope_parameters": scaled}, {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
        {"model_type": "mistral", "sliding_window": 8, "is_causal": False},
        {"model_type": "qwen3", "use_sliding_window": True},
        {
            "model_type": "gemma3_text", "query_pre_attn_scalar": 8,
            "final_logit_softcapping": 30.0,
        },
        {"model_type": "gemma3_text", "query_pre_attn_scalar": 9},
        {"model_type": "qwen3_moe"},
    ):  # fmt: skip
        path = respell(tmp_path, **{"model_type": "llama", **settings})
        refused = pytest.raises(DataError, import_model, tmp_path).value
        assert [*settings][-1] in refused.message, settings
        path.write_text(
            json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k not in settings})
        )
