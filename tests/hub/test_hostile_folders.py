"""Damaged and hostile folders: each is refused with a name, none is run, none takes long."""

import json
import os
import random
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from bertc.api import check
from bertc.base.diagnostics import BertcError, DataError, MissingInputError, SpecError, UnsafeError
from bertc.hub import families
from bertc.hub.config import IGNORED, ONLY
from bertc.ir.learning.custom_task import Classify
from bertc.run.models.importing import import_model
from bertc.run.models.loading import load
from bertc.run.models.runs import import_run
from bertc.tasks.examples.encode import encode
from bertc.tasks.layouts.example import TextExample
from bertc.text.tokenizers import reading
from bertc.text.vocab.vocabulary import vocabulary_of
from tests.hub.hf_models import MODERN, SMALL, XLM, XLNET, case, respell

in_process = reading.in_process
"""What commands use; other tests read in this process."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing wrong; tests copy it."""
    folder = tmp_path_factory.mktemp("sound")
    case("BertForPreTraining", SMALL).save(folder)
    return folder


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    """A copy of the sound folder, to be damaged."""
    return Path(shutil.copytree(sound, tmp_path, dirs_exist_ok=True))


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "vocab.txt"])
def test_a_pointer_of_git_lfs_is_named(name, folder):
    """What a clone without git-lfs leaves in place of large files."""
    if name != "vocab.txt":
        (folder / "model.safetensors").unlink()
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 90868376\n"
    (folder / name).write_text(pointer)
    with pytest.raises(DataError, match=f"{name} is a pointer of git-lfs") as refused:
        import_run(folder, folder / "run")
    assert "git lfs pull" in refused.value.help


OF_CODE = {"auto_map": {"AutoModel": "evil.Model"}, "architectures": ["EvilBertModel"]}
CONFIGS = {
    case("BertForPreTraining", SMALL): [
        ({"model_type": "gpt2"}, 'unsupported model_type "gpt2"'),
        ({"model_type": ["bert"]}, "unsupported model_type"),
        ({"model_type": "deberta"}, "scores distances by maps of their own"),
        ({"is_decoder": True}, "unsupported is_decoder = true"),
        ({"is_decoder": 0}, "unsupported is_decoder = 0"),
        ({"add_cross_attention": True}, "add_cross_attention = true"),
        ({"position_embedding_type": "relative_key"}, 'position_embedding_type = "rel'),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"hidden_act": "mish"}, 'unsupported hidden_act = "mish"'),
        ({"hidden_act": None}, "hidden_act = null"),
        ({"num_hidden_layers": 0}, "num_hidden_layers = 0"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers = 1000000000"),
        ({"hidden_size": "24"}, 'hidden_size = "24"'), ({"hidden_size": -1}, "hidden_size = -1"),
        ({"hidden_size": True}, "hidden_size = true"), ({"hidden_size": 24.0}, "_size = 24.0"),
        ({"vocab_size": 3}, "vocab_size = 3"), ({"layer_norm_eps": 0}, "layer_norm_eps = 0"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps = NaN"),
        ({"hidden_dropout_prob": 2}, "hidden_dropout_prob = 2"),
        ({"num_attention_heads": 5}, "num_attention_heads = 5 does not divide"),
        ({"max_position_embeddings": 4}, "max_position_embeddings = 4"),
        ({"num_hidden_layers": 2}, "bert.encoder.layer.2.attention.output.LayerNorm.bias"),
        ({"num_hidden_layers": 4}, "lacks encoder.layer.3.attention.output.LayerNorm.bias"),
        ({"intermediate_size": 48}, "has shape 40x24, config.json asks for 48x24"),
        ({"hidden_size": 900_000}, "config.json asks for"),
        (OF_CODE, "auto_map names code of another network than BERT, architectures = [\"EvilBert"),
    ],
    case("XLMModel", XLM, n_langs=2): [
        ({"sinusoidal_embeddings": True}, "sinusoidal_embeddings = true"),
        ({"causal": True}, "causal = true"), ({"asm": True}, "asm = true"),
        ({"is_encoder": False}, "is_encoder = false"),
        ({"gelu_activation": "mish"}, 'unsupported gelu_activation = "mish"'),
        ({"emb_dim": "wide"}, 'unsupported emb_dim = "wide"'),
        ({"n_words": 98}, "n_words = 98"), ({"n_langs": 0}, "n_langs = 0"),
    ],
    case("AlbertModel", SMALL, embedding_size=16): [
        ({"inner_group_num": 2}, "inner_group_num = 2"),
        ({"num_hidden_groups": 5}, "lacks encoder.albert_layer_groups.1"),
        ({"embedding_size": 24}, "has encoder.embedding_hidden_mapping_in.bias"),
    ],
    case("RobertaForMaskedLM", SMALL): [({"hidden_act": "relu"}, "hidden_act = relu")],
    case("XLNetModel", XLNET): [
        ({"attn_type": "uni"}, "attn_type"), ({"bi_data": True}, "bi_data"),
        ({"same_length": True}, "same_length"), ({"ff_activation": "mish"}, "ff_activation"),
    ],
    case("ModernBertModel", MODERN): [
        ({"attention_dropout": 7}, "attention_dropout = 7"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1e4}}}, "rope"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"classifier_activation": "silu"}, "classifier_act"), ({"decoder_bias": False}, "r_bias"),
    ],
    case("BertForSequenceClassification", SMALL, num_labels=3): [
        ({"problem_type": 3}, "problem_type = 3"),
        ({"id2label": ["a", "b", "c"]}, "id2label"),
        ({"id2label": {"0": "a", "1": "b"}}, "classifier.weight has shape 3x24, config.json asks"),
        ({"classifier_dropout": 7}, "classifier_dropout = 7"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("chosen", CONFIGS, ids=lambda chosen: chosen.cls)
def test_configurations_are_refused_by_name(chosen, tmp_path):
    chosen.save(tmp_path)
    came = (tmp_path / "config.json").read_bytes()
    for changes, message in CONFIGS[chosen]:
        (tmp_path / "config.json").write_bytes(came)
        respell(tmp_path, **changes)
        error = UnsafeError if changes is OF_CODE else DataError
        refused = pytest.raises(error, import_model, tmp_path).value
        assert message in refused.message
        assert len(refused.message) < 400 + len(str(tmp_path))
        assert refused.help


def test_settings_of_released_files_are_accepted(folder):
    said = {**ONLY, **families.BERT.config.only}
    respell(folder, **{name: single.value for name, single in said.items()})
    respell(folder, **{name: "anything" for name in IGNORED if name != "architectures"})
    respell(folder, attn_implementation="stranger/kernel", sparse_attention=None, **{"x" * 500: 1})
    import_model(folder)


def edit(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


POOLER = "bert.pooler.dense.weight"
TENSORS = [
    (lambda t: t.pop(POOLER), "lacks pooler.dense.weight"),
    (lambda t: t.pop("cls.predictions.bias"), "lacks cls.predictions.bias"),
    (lambda t: t.pop("bert.embeddings.word_embeddings.weight"), "embeddings.word_embeddings"),
    (lambda t: t.update({f"bert.{'x' * 5000}": torch.zeros(2)}), 'has "bert.xxxx'),
    (lambda t: t.update({"bert.\x1b[2J\n": torch.zeros(2)}), 'has "bert.\\u001b[2J\\n"'),
    (lambda t: t.update({"encoder.layer.3.x": torch.zeros(2)}), "has encoder.layer.3.x"),
    (lambda t: t.update({POOLER: torch.zeros(24, 23)}), f"{POOLER} has shape 24x23"),
    (lambda t: t.update({POOLER: torch.zeros(())}), f"{POOLER} has shape ()"),
    (lambda t: t.update({POOLER: torch.zeros(24, 24, dtype=torch.float64)}), "has dtype F64"),
    (lambda t: t.update({POOLER: torch.zeros(24, 24, dtype=torch.int64)}), "has dtype I64"),
    (lambda t: t.update({"pooler.dense.weight": torch.zeros(24, 24)}), "name the same tensor"),
    (lambda t: t.update({"cls.predictions.decoder.weight": torch.zeros(97, 24)}),
     "cls.predictions.decoder.weight differs from bert.embeddings.word_embeddings.weight"),
    (lambda t: t.update({"cls.predictions.decoder.bias": torch.ones(97)}),
     "cls.predictions.decoder.bias differs from cls.predictions.bias"),
    (lambda t: t.update({"cls.predictions.decoder.bias": torch.ones(9)}), "has shape 9"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), TENSORS)
def test_tensors_that_do_not_fit_are_named(change, message, folder):
    edit(folder, change)
    refused = pytest.raises(DataError, import_model, folder)
    assert message in refused.value.message
    assert len(refused.value.message) < 400 + 2 * len(str(folder))


def test_heads_that_the_network_does_not_have_are_left_and_listed(folder):
    others = {
        "classifier.weight": (2, 24), "fit_dense.bias": (3,), "\x1b[2J": (1,), "y" * 5000: (1,),
    }  # fmt: skip
    edit(folder, lambda t: t.update({name: torch.zeros(shape) for name, shape in others.items()}))
    (note,) = import_model(folder).notes
    assert note.startswith("weights that the network does not read, left: ")
    assert {"classifier.weight", "fit_dense.bias", '"\\u001b[2J"'} <= {*note[46:].split(", ")}
    assert len(note) < 400


def test_heads_in_another_file_are_checked_too(folder):
    save_file({"x": torch.zeros(2)}, folder / "bertc_heads.safetensors")
    pytest.raises(DataError, import_model, folder).match(r"bertc_heads\.safetensors has x")
    save_file({"heads.mlm.bias": torch.zeros(97)}, folder / "bertc_heads.safetensors")
    (note,) = import_model(folder).notes
    assert note.endswith("left: cls.predictions.bias")
    for shape in ((7,), (500, 20)):
        table = {"heads.sbo.position.weight": torch.zeros(shape)}
        save_file(table, folder / "bertc_heads.safetensors")
        with pytest.raises(DataError, match=r"heads\.sbo\.position\.weight has shape"):
            import_model(folder)


class Code:
    """A pickle of it names a function to be called."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("called"),))


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_with_more_than_tensors_is_never_read(zipped, folder, monkeypatch):
    monkeypatch.chdir(folder)
    tensors, path = load_file(folder / "model.safetensors"), folder / "pytorch_model.bin"
    (folder / "model.safetensors").unlink()
    torch.save({**tensors, "x": Code()}, path, _use_new_zipfile_serialization=zipped)
    refused = pytest.raises(UnsafeError, load, folder)
    assert refused.value.exit_code == 77
    assert "has more than tensors" in refused.value.message
    assert not (folder / "called").exists()
    exec(refused.value.help.partition('python -c "')[2].removesuffix('"'), {})
    (folder / "called").unlink()
    assert import_model(folder).tensors.keys() == load(folder).state_dict().keys()


def test_damaged_pickles_are_refused(folder):
    path = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    path = path.rename(folder / "pytorch_model.bin")
    wide = torch.zeros(1).expand(1 << 40)
    for content in (None, b"", b"abc" * 99, {"x": wide}, {"x": 3}, [tensors], tensors):
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content is not None:
            torch.save(content, path)
        if content is tensors:
            with zipfile.ZipFile(path) as old, zipfile.ZipFile(folder / "new", "w", 8) as new:
                for name in old.namelist():
                    new.writestr(name, old.read(name))
            (folder / "new").rename(path)
        with pytest.raises(DataError, match=r"pytorch_model\.bin is no file of tensors"):
            import_model(folder)


def test_missing_files_are_named(folder):
    (folder / "model.safetensors").rename(folder / "weights.pkl")
    refused = pytest.raises(MissingInputError, load, folder)
    refused.match(r"no model\.safetensors and no pytorch_model\.bin")
    assert "weights.pkl" in refused.value.help
    index = folder / "model.safetensors.index.json"
    for said, error, message in (
        ({}, DataError, 'weight_map names ""'),
        ({"weight_map": {"x": "../config.json"}}, DataError, 'names "../config.json"'),
        ({"weight_map": {"x": "a.safetensors"}}, MissingInputError, r"lacks a\.safetensors"),
    ):
        index.write_text(json.dumps(said))
        pytest.raises(error, load, folder).match(message)
    (folder / "config.json").unlink()
    pytest.raises(MissingInputError, load, folder).match(r"config\.json is not there")
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhen")
    refused = pytest.raises(SpecError, check, f"objective=mlm init='{folder}'")
    assert "no config.json" in refused.value.diagnostics[0].help
    pytest.raises(MissingInputError, load, folder / "nowhere").match("is no folder")
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "hen/farm"}')
    for read in (load, lambda path: check(f"objective=mlm init='{path}'")):
        pytest.raises(DataError, read, folder).match('no network but an adapter of "hen/farm"')


HEADERS = [
    struct.pack("<Q", 2**63) + b"{}", b"", struct.pack("<Q", 8) + b"[1, 2]  ",
    struct.pack("<Q", 200_000) + b"[" * 200_000, struct.pack("<Q", 16) + b'{"a": 1, "a": 2}',
    struct.pack("<Q", 34) + b'{"a":{"dtype":"F32","shape":[[]]}}',
    struct.pack("<Q", 4) + b"\xff\xfe\x00\x00",
]  # fmt: skip
HOSTILE = {
    "model.safetensors": dict.fromkeys(HEADERS, "safetensors is not a valid safetensors file"),
    "config.json": {
        b"{" * 100_000: "no JSON", b'{"a":' * 100_000: "nested too deeply", b"[]": "no JSON object",
        b'"' + b"x" * 2**20 + b'"': "larger than", b"\x00" * 50: "no JSON",
        b'{"model_type": "bert", "hidden_size": ' + b"1" * 400 + b"}": "400 digits",
        b'{"model_type": "bert", "layer_norm_eps": 1e999}': "layer_norm_eps = Infinity",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(name, folder):
    for content, message in HOSTILE[name].items():
        (folder / name).write_bytes(content)
        pytest.raises(DataError, import_model, folder).match(message)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "pytorch_model.bin"])
def test_random_damage_never_escapes(name, folder):
    """Whatever the damage, the answer is a model or an error of ours."""
    path, draw = folder / name, random.Random(5)
    if name == "pytorch_model.bin":
        torch.save(load_file(weights := folder / "model.safetensors"), path)
        weights.unlink()
    content = path.read_bytes()
    head, codes = min(len(content), 4096), set()
    for number in range(200):
        damaged = bytearray(content)
        reach = len(content) if name == "pytorch_model.bin" and number % 2 else head
        for _ in range(draw.choice((1, 1, 2, 8))):
            damaged[draw.randrange(reach)] = draw.randrange(256)
        end = draw.randrange(len(content)) if number % 5 == 0 else None
        path.write_bytes(bytes(damaged[:end]))
        try:
            import_model(folder)
        except BertcError as error:
            codes.add(error.exit_code)
    assert codes <= {65, 66, 77}


TOKENS = {token: n for n, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])}
GROWING = normalizers.Sequence([normalizers.Replace("a", "a" * 100_000)] * 6)
ENDLESS = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
DAMAGED_MAP = {"type": "Precompiled", "precompiled_charsmap": "AAAA/////w=="}
"""It says that a table of 4 GiB follows."""
LONG = normalizers.Sequence([normalizers.Prepend("a " * 500)] * 3000)
TRAPS: dict[str, tuple[dict[str, Any], str]] = {
    "length": ({"normalizer": LONG}, "takes too much time"),
    "growth": ({"normalizer": GROWING}, "takes more than .* of memory"),
    "pattern": ({"pre_tokenizer": ENDLESS}, "fails on the text .*aaaa"),
    "map": ({"normalizer": DAMAGED_MAP}, "its tokenizer (takes|ends)|cannot read"),
}


def write_trap(folder: Path, parts: dict[str, Any]) -> None:
    """A tokenizer.json with some parts; without any, with the largest id that the library reads."""
    folder.mkdir(exist_ok=True)
    tokenizer = Tokenizer(models.WordPiece(TOKENS))
    objects = {name: part for name, part in parts.items() if not isinstance(part, dict)}
    for name, part in objects.items():
        setattr(tokenizer, name, part)
    written = json.loads(tokenizer.to_str()) | {k: v for k, v in parts.items() if k not in objects}
    written["model"]["unk_token"] = "[UNK]"
    if not parts:
        written["model"]["vocab"]["b"] = 2**31
    (folder / "tokenizer.json").write_text(json.dumps(written))


@pytest.mark.parametrize("name", TRAPS)
def test_a_tokenizer_that_explodes_does_so_aside(name, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "in_process", in_process)
    monkeypatch.setattr(reading, "MOST_MEMORY_BYTES", 600 * 2**20)
    monkeypatch.setattr(reading, "CPU_SECONDS", 1 if name == "length" else 60)
    parts, message = TRAPS[name]
    write_trap(tmp_path, parts)
    with pytest.raises(DataError, match=message) as refused:
        vocabulary_of(tmp_path, 100)
    assert str(tmp_path) in refused.value.message
    assert refused.value.help


def test_a_sound_tokenizer_is_read_aside_once(tmp_path, monkeypatch):
    write_trap(tmp_path / "one", {"normalizer": normalizers.Lowercase()})
    write_trap(tmp_path / "two", {"normalizer": normalizers.NFC(), "pre_tokenizer": None})
    shutil.copy(tmp_path / "one" / "tokenizer.json", tmp_path / "two")
    monkeypatch.setattr(reading, "cache_folder", lambda: tmp_path)
    here = reading.read_tokenizer(tmp_path / "one")
    (kept,) = (tmp_path / "tokenizers").iterdir()
    kept.write_bytes(kept.read_bytes().replace(b"lower", b"upper"))  # damaged: it is read again
    assert reading.read_tokenizer(tmp_path / "one") == here
    write_trap(tmp_path / "other", {"normalizer": normalizers.Strip()})
    other = reading.read_tokenizer(tmp_path / "other")
    (second,) = {*(tmp_path / "tokenizers").iterdir()} - {kept}
    first = kept.rename(tmp_path / "first")
    second.rename(kept)
    first.rename(second)  # each has the other's name
    assert [reading.read_tokenizer(tmp_path / name) for name in ("one", "other")] == [here, other]
    kept.unlink()
    monkeypatch.setattr(reading, "in_process", in_process)
    assert reading.read_tokenizer(tmp_path / "one") == here
    code = (
        "import sys; from bertc.api import resolve; from bertc.text.tokenizers import reading;"
        f"del reading.in_process; print(resolve('vocab=\"{tmp_path / 'two'}\"').vocabulary.size);"
        "bad = {'torch', 'transformers'} & {*sys.modules}; assert not bad, bad"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "BERTC_CACHE": str(tmp_path)}, check=True, capture_output=True,
    )  # fmt: skip
    assert elsewhere.stdout == b"6\n"


def test_a_vocabulary_of_too_many_tokens_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LARGEST_VOCABULARY", 5)
    monkeypatch.delattr(reading, "in_process")
    write_trap(tmp_path, {"normalizer": normalizers.Strip()})
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS))
    (tmp_path / "spiece.model").write_text("x" * 96)
    for name in ("tokenizer.json", "vocab.txt", "spiece.model"):
        with pytest.raises(DataError, match=f"{name}: .* tokens, 5 are the most"):
            reading.read_tokenizer(tmp_path / name)


def test_damaged_tokenizers_of_runs_are_named(tmp_path):
    """They are read without a trial: what they do while they are used is reported then."""
    write_trap(tmp_path, {})
    pytest.raises(DataError, vocabulary_of, tmp_path, 100).match("id 2,147,483,648")
    (tmp_path / "resolved.json").write_text("{}")
    write_trap(tmp_path / "tokenizer", {})
    with pytest.raises(DataError, match=r'the token "b" has id 2,147,483,648'):
        vocabulary_of(tmp_path, 100)
    write_trap(tmp_path / "tokenizer", {"normalizer": DAMAGED_MAP})
    with pytest.raises(DataError, match=r"tokenizer\.json: not a tokenizer\.json"):
        vocabulary_of(tmp_path, 100)
    write_trap(tmp_path / "tokenizer", {"pre_tokenizer": ENDLESS})
    words = vocabulary_of(tmp_path, 100)
    task = Classify(train="-", labels=("x", "y"))
    with pytest.raises(DataError, match="the tokenizer fails on a text"):
        encode(task, [TextExample("0", ("a" * 40 + "!",), "x")], words, 512, 2)


def test_a_machine_that_limits_processes_itself_reads_tokenizers_too():
    """As ``ulimit -t`` does: a process may not raise what is set."""
    code = (
        "import resource as r; r.setrlimit(r.RLIMIT_CPU, (500, 500));"
        "from bertc.text.tokenizers.by_transformers import limit;"
        "limit(r.RLIMIT_CPU, 900); assert r.getrlimit(r.RLIMIT_CPU) == (500, 500);"
        "limit(r.RLIMIT_CPU, 90); assert r.getrlimit(r.RLIMIT_CPU) == (90, 500)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
