"""Run folders, what is imported to them and exported, and models by their names on the hub."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from bertc.api import check, resolve
from bertc.base.diagnostics import DataError, MissingInputError, SpecError, UsageError
from bertc.hub import published
from bertc.hub.folders import read_resolved
from bertc.hub.leaving.exporting import export_model
from bertc.hub.published import hub_name, model_folder, or_hub
from bertc.ir.data import MixedBatches
from bertc.ir.learning.answer import Conditioned, Plain, Span
from bertc.ir.network.sharing import ShareAttention
from bertc.ir.program.resolved import Resolved
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.models.importing import import_model
from bertc.run.models.loading import load, read_model
from bertc.run.models.runs import export_run, import_run
from bertc.run.records.checkpoints import _manifest
from bertc.use import trained
from bertc.use.fill_mask import fill
from tests.hub.hf_models import MODERN, SMALL, XLM, XLNET, case, config_of
from tests.hub.hf_tokenizers import ROBERTA, XLNET as TOKENS_OF_XLNET, Folder, Words
from tests.hub.programs import Wordless, assert_same, objective, program, tensors

BERT_WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA_WORDS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
LOST = [
    case("BertForMaskedLM", SMALL, classifier_dropout=0.3, bos_token_id=7, eos_token_id=8,
         id2label={"0": "no", "1": "yes", "2": "?"}, hidden_act="gelu_new", use_cache=False),
    case("ElectraForPreTraining", SMALL, embedding_size=16, summary_type="last",
         summary_last_dropout=0.2),
    case("XLNetLMHeadModel", XLNET, mem_len=9, reuse_len=3, start_n_top=4, end_n_top=6,
         bos_token_id=1),
    case("XLMWithLMHeadModel", XLM, lang_id=0, mask_index=4, unk_index=1),
    case("ModernBertForMaskedLM", MODERN, attention_dropout=0.1, embedding_dropout=0.2),
]  # fmt: skip


def write_tokenizer(folder: Path, special: tuple[str, ...] = BERT_WORDS) -> None:
    """A tokenizer of 97 words with special tokens from id 0 on."""
    folder.mkdir(exist_ok=True)
    ids = {token: n for n, token in enumerate([*special, *(f"w{n}" for n in range(5, 97))])}
    unknown = next(token for token in special if "unk" in token.lower())
    made = Tokenizer(models.WordLevel(ids, unk_token=unknown))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(list(special))
    made.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def make_run(run: Path, resolved: Resolved, steps: dict[int, dict[str, torch.Tensor]]) -> None:
    """A run as training leaves it, with a checkpoint at some steps."""
    write_tokenizer(run / "tokenizer")
    (run / "resolved.json").write_text(resolved.model_dump_json())
    for step, weights in steps.items():
        folder = run / "checkpoints" / f"step-{step:08d}"
        folder.mkdir(parents=True)
        save_file(weights, folder / "weights.safetensors")
        content = (folder / "weights.safetensors").read_bytes()
        said = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        (folder / "manifest.json").write_bytes(_manifest(step, {"weights.safetensors": said}, {}))
        (folder / "progress.json").write_text("{}")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with two checkpoints."""
    resolved, folder = program(objective=objective("mlm", "nsp")), tmp_path / "run"
    folder.mkdir()
    old = tensors(resolved)
    make_run(folder, resolved, {9: old, 10: {name: t + 1 for name, t in old.items()}})
    return folder


def first_weight(folder: Path) -> float:
    return load(folder).encoder.embeddings.norm.bias[0].item()


def test_a_run_is_loaded_from_its_newest_checkpoint(run):
    newest = first_weight(run)
    for name in ("step-old", "step-x", "step-00000011"):  # none is a checkpoint
        (run / "checkpoints" / name).mkdir()
    os.mkfifo(run / "checkpoints" / "step-00000011" / "weights.safetensors")
    assert first_weight(run) == newest
    damaged = run / "checkpoints" / "step-00000010" / "weights.safetensors"
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert first_weight(run) == pytest.approx(newest - 1, abs=1e-6)
    (run / "checkpoints" / "step-00000009" / "manifest.json").unlink()
    pytest.raises(DataError, load, run).match("no checkpoint in .* is undamaged")


def test_a_run_without_checkpoints_is_loaded_from_its_model(run):
    model = load(run)
    export_model(model.resolved, model.state_dict(), Wordless(0), run / "model")
    (run / "checkpoints").rename(run / "gone")
    again = load(run)
    assert again.resolved == model.resolved
    assert_same(again.state_dict(), model.state_dict())


def test_a_run_that_has_nothing_yet_or_parts_of_others_or_is_broken_says_so(run):
    (run / "checkpoints").rename(run / "gone")
    pytest.raises(MissingInputError, load, run).match("has no checkpoint and no model yet")
    pytest.raises(MissingInputError, load, run / "nowhere").match("is no folder")
    other = program(hidden=48, objective=objective("mlm", "nsp"))
    export_model(other, tensors(other), Wordless(0), run / "model")
    pytest.raises(DataError, load, run).match("does not hold the weights of")
    (run / "resolved.json").write_text('{"name": "x"}')
    pytest.raises(DataError, load, run).match(r"resolved\.json is not a resolved program")


def test_what_no_layout_can_say_is_refused_and_rows_without_a_table_are_those_learned(tmp_path):
    modern = "norm=pre(embeddings=true, first=false) positions=rotary activation=geglu"
    resolved = resolve(f"layers=1 hidden=16 vocab=97 seq=24 segments=0 dropout=0 {modern}")
    for name, network in (("modern", resolved), ("shared", program(share=ShareAttention()))):
        (tmp_path / name).mkdir()
        make_run(tmp_path / name, network, {1: tensors(network)})
    assert export_run(tmp_path / "modern", tmp_path / "hf").layout == "modernbert"
    assert config_of(tmp_path / "hf")["max_position_embeddings"] == 24
    with pytest.raises(DataError, match="share=attention stands in the way"):
        export_run(tmp_path / "shared", tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("cls", ["BertForPreTraining", "RobertaForMaskedLM", "AlbertForMaskedLM"])
def test_a_folder_becomes_a_run_and_a_folder_again(cls, tmp_path):
    more = {"embedding_size": 16} if cls.startswith("Albert") else {}
    hf, made = tmp_path / "hf", tmp_path / "made"
    case(cls, SMALL, **more).save(hf)
    write_tokenizer(hf, ROBERTA_WORDS if cls.startswith("Roberta") else BERT_WORDS)
    assert cls[:3].lower() in import_run(hf, made).summary(made)
    names = {path.name for path in made.iterdir()}
    assert names == {"spec.bertc", "resolved.json", "digests.json", "tokenizer", "model"}
    model = load(made)
    assert resolve(str(made / "spec.bertc")).fingerprint() == model.resolved.fingerprint()
    assert model.resolved.vocabulary.size == 97
    export_run(made, tmp_path / "again")
    before, after = (folder / "model.safetensors" for folder in (hf, tmp_path / "again"))
    assert before.read_bytes() == after.read_bytes()


ENDS = {
    "RobertaForMaskedLM": (ROBERTA, SMALL, (1, 0, 2)),
    "XLNetLMHeadModel": (TOKENS_OF_XLNET, XLNET, (5, 1, 2)),
}


@pytest.mark.parametrize("cls", ENDS)
def test_ids_of_special_tokens_come_from_any_kind_of_vocabulary(cls, tmp_path):
    tokens, sizes, wanted = ENDS[cls]
    words = Words.of(["a hen and another hen", "ducks"] * 3, 300)
    Folder(tokens).write(tmp_path / "hf", words)
    case(cls, {**sizes, "vocab_size": 400}).save(tmp_path / "hf")
    import_run(tmp_path / "hf", tmp_path / "made")
    export_run(tmp_path / "made", tmp_path / "again")
    config = config_of(tmp_path / "again")
    names = ("pad_token_id", "bos_token_id", "eos_token_id")
    assert tuple(config[name] for name in names) == wanted


@pytest.mark.parametrize("chosen", LOST, ids=str)
def test_settings_come_out_as_they_went_in(chosen, tmp_path):
    """Those that nothing reads too."""
    chosen.save(tmp_path / "hf")
    write_tokenizer(tmp_path / "hf")
    notes = " ".join(import_run(tmp_path / "hf", tmp_path / "made").notes)
    rates = "attention_dropout = 0.1, embedding_dropout = 0.2: of training alone"
    assert (rates in notes) == chosen.cls.startswith("Modern")
    export_run(tmp_path / "made", tmp_path / "again")
    before, after = config_of(tmp_path / "hf"), config_of(tmp_path / "again")
    for setting, _ in chosen.settings:
        assert after[setting] == before[setting], setting


def test_a_run_is_never_written_over(run, tmp_path):
    case("BertModel", SMALL).save(tmp_path / "hf")
    with pytest.raises(MissingInputError, match=r"has no tokenizer\.json"):
        import_run(tmp_path / "hf", run)
    write_tokenizer(tmp_path / "hf")
    with pytest.raises(UsageError, match="exists and holds checkpoints"):
        import_run(tmp_path / "hf", run)


def test_a_part_of_a_run_is_no_place_for_an_export_and_gigabytes_are_not_copied(run, tmp_path):
    """Its names are those of a model folder's, and yet it is none."""
    before = sorted(path.name for path in (run / "tokenizer").iterdir())
    pytest.raises(UsageError, export_run, run, run / "tokenizer").match("holds no exported model")
    assert sorted(path.name for path in (run / "tokenizer").iterdir()) == before
    os.truncate(run / "tokenizer" / "tokenizer.json", 3 << 30)
    with pytest.raises(DataError, match=r"tokenizer\.json is larger than 256 MiB"):
        export_run(run, tmp_path / "out")


@pytest.mark.parametrize(("cls", "kind"), [("BertModel", "mlm"), ("XLNetModel", "plm")])
def test_a_folder_without_a_head_guesses_nothing(cls, kind, tmp_path):
    case(cls, XLNET if kind == "plm" else SMALL).save(tmp_path / "hf")
    write_tokenizer(tmp_path / "hf")
    import_run(tmp_path / "hf", tmp_path / "made")
    calls = [lambda folder: fill(folder, "w5 [MASK]"), lambda f: trained.load(f).fill("w5 [MASK]")]
    for folder in ("hf", "made"):
        for call in calls:
            with pytest.raises(DataError, match=f"no head for {kind}: .* random") as refused:
                call(tmp_path / folder)
            assert f'init="FOLDER" objective={kind}' in refused.value.help
    with pytest.raises(DataError, match=f"no head for {kind}: its loss would be random") as refused:
        evaluate_run(tmp_path / "made", quiet=True)
    assert f'init="{tmp_path / "made"}" objective={kind}' in refused.value.help
    if kind == "mlm":
        case("BertForMaskedLM", SMALL).save(tmp_path / "hf")
        assert load(tmp_path / "hf").untrained == frozenset()
        assert len(fill(tmp_path / "hf", "w5 [MASK]", top=3).masks[0]) == 3


def test_names_of_kinds_alone_are_read_as_the_kinds():
    resolved = read_resolved(Path(__file__).parent / "older_resolved.json")
    assert [stage.mixing for stage in resolved.stages] == [MixedBatches()] * 3
    answers = [task.answer for stage in resolved.stages for task in stage.tasks]
    heads = [answer.head for answer in answers if isinstance(answer, Span)]
    assert heads == [Plain(), Conditioned()]


COMMITS = {"main": "a" * 40, "v2": "b" * 40}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub cache as huggingface_hub lays it out, with two revisions of a model."""
    hub = tmp_path / "hub"
    place = hub / "models--lab--tiny-bert"
    for seed, (revision, commit) in enumerate(COMMITS.items()):
        (place / "refs").mkdir(parents=True, exist_ok=True)
        (place / "refs" / revision).write_text(commit)
        folder = place / "snapshots" / commit
        case("BertForMaskedLM", SMALL, vocab_size=31, num_hidden_layers=1 + seed).save(folder)
        (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(hub))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    published._snapshot.cache_clear()
    return place / "snapshots"


@pytest.mark.parametrize(
    ("name", "revision"), [("lab/tiny-bert", "main"), ("lab/tiny-bert@v2", "v2")]
)
def test_a_name_is_the_folder_of_its_commit(cache, name, revision):
    folder, layers = cache / COMMITS[revision], 1 + [*COMMITS].index(revision)
    resolved = resolve(f'init="{name}" seq=16 steps=1')
    assert resolved.run.init.path == str(folder)
    assert (len(resolved.encoder.layers), resolved.encoder.hidden) == (layers, 24)
    assert resolved.vocabulary.size == len(WORDS)
    assert hub_name(str(folder)) == "lab/tiny-bert"
    taught = resolve(
        f'teacher="{name}" layers=1 hidden=8 heads=2 objective=2*kd(logits, T=2)+mlm seq=16 steps=1'
    )
    assert taught.stages[0].teacher[0].source.path == str(folder)
    assert resolve(f'vocab="{name}" steps=1').vocabulary.path == str(folder)
    imported = import_run(Path(name), Path("run"))
    assert torch.equal(
        read_model(Path("run"))[1]["encoder.embeddings.token.weight"],
        import_model(folder).tensors["encoder.embeddings.token.weight"],
    )
    assert len(imported.resolved.encoder.layers) == layers


def test_what_the_cache_lacks_is_named(cache):
    lacking = "the hub's cache has no such model, and HF_HUB_OFFLINE is set"
    for name in ("lab/gone", "lab/tiny-bert@v3"):
        error = pytest.raises(MissingInputError, import_run, Path(name), Path("run"))
        assert error.value.help == f"name a Hugging Face model folder; {lacking}"
        for setting in ("init", "vocab"):
            wrong = pytest.raises(SpecError, resolve, f'{setting}="{name}" steps=1')
            assert lacking in str(wrong.value)
    (cache / COMMITS["main"] / "model.safetensors").unlink()
    check('init="lab/tiny-bert" seq=16 steps=1')  # reads no weights
    refused = pytest.raises(MissingInputError, import_run, Path("lab/tiny-bert"), Path("run"))
    refused.match("weights of lab/tiny-bert are not in the hub's cache")


def test_a_folder_here_comes_before_the_hub(cache):
    shutil.copytree(cache / COMMITS["v2"], "lab/tiny-bert")
    assert model_folder("lab/tiny-bert") == "lab/tiny-bert"
    # Next to folders that are here a name is a mistyped path.
    paths = ("lab/gone", "a/b/c", "gone", "x/vocab.txt")
    assert {or_hub("help", path) for path in paths} == {"help"}


def test_only_settings_tokenizers_and_tensors_are_downloaded(cache, monkeypatch):
    folder = cache / COMMITS["main"]
    download = Mock(return_value=str(folder))
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    (folder / "vocab.txt").unlink()  # as a program that read the settings alone leaves it
    (folder / "model.safetensors").unlink()
    assert model_folder("lab/tiny-bert") == str(folder)
    pytest.raises(MissingInputError, import_model, folder)
    calls = [call.kwargs for call in download.call_args_list]
    patterns = [call["allow_patterns"] for call in calls if not call["local_files_only"]]
    assert patterns == [[*published.SMALL], [*published.SAFE], [*published.PICKLED]]
    assert {call["revision"] for call in calls} == {"main", COMMITS["main"]}
