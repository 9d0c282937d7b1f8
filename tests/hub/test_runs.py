"""Run folders: what is loaded from them, exported from them, and imported to them."""

import hashlib
import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from bertc.api import resolve
from bertc.base.diagnostics import DataError, MissingInputError, UsageError
from bertc.hub.folders import read_resolved
from bertc.hub.leaving.exporting import export_model
from bertc.ir.data import MixedBatches
from bertc.ir.learning.answer import Conditioned, Plain, Span
from bertc.ir.learning.augmentation import EditedCopies
from bertc.ir.learning.vector_task import Rerank
from bertc.ir.network.sharing import ShareAttention
from bertc.ir.program.resolved import Resolved
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.models.loading import load
from bertc.run.models.runs import export_run, import_run
from bertc.run.records.checkpoints import _manifest
from bertc.use import trained
from bertc.use.fill_mask import fill
from tests.hub.hf_models import MODERN, SMALL, XLM, XLNET, case, config_of
from tests.hub.hf_tokenizers import ROBERTA, Folder, Words
from tests.hub.hf_tokenizers import XLNET as TOKENS_OF_XLNET
from tests.hub.programs import objective, program, tensors, words

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
    tokens = [*special, *(f"w{n}" for n in range(5, 97))]
    unknown = next(token for token in special if "unk" in token.lower())
    made = Tokenizer(
        models.WordLevel({token: n for n, token in enumerate(tokens)}, unk_token=unknown)
    )
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
        digest = hashlib.sha256((folder / "weights.safetensors").read_bytes()).hexdigest()
        size = (folder / "weights.safetensors").stat().st_size
        files = {"weights.safetensors": {"bytes": size, "sha256": digest}}
        (folder / "manifest.json").write_bytes(_manifest(step, files, {}))
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
    damaged = run / "checkpoints" / "step-00000010" / "weights.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    assert first_weight(run) == pytest.approx(newest - 1, abs=1e-6)
    (run / "checkpoints" / "step-00000009" / "manifest.json").unlink()
    with pytest.raises(DataError, match="no checkpoint in .* is undamaged"):
        load(run)


def test_a_run_without_checkpoints_is_loaded_from_its_model(run):
    model = load(run)
    export_model(model.resolved, model.state_dict(), words(), run / "model")
    (run / "checkpoints").rename(run / "gone")
    again = load(run)
    assert again.resolved == model.resolved
    assert all(
        torch.equal(p, q) for p, q in zip(again.parameters(), model.parameters(), strict=True)
    )


def test_a_run_that_has_nothing_yet_or_parts_of_others_or_is_broken_says_so(run):
    (run / "checkpoints").rename(run / "gone")
    with pytest.raises(MissingInputError, match="has no checkpoint and no model yet"):
        load(run)
    with pytest.raises(MissingInputError, match="is no folder"):
        load(run / "nowhere")
    other = program(hidden=48, objective=objective("mlm", "nsp"))
    export_model(other, tensors(other), words(), run / "model")
    with pytest.raises(DataError, match="does not hold the weights of"):
        load(run)
    (run / "resolved.json").write_text('{"name": "x"}')
    with pytest.raises(DataError, match=r"resolved\.json is not a resolved program"):
        load(run)


def test_a_run_that_no_layout_can_say_is_refused(tmp_path):
    resolved = program(share=ShareAttention())
    (tmp_path / "run").mkdir()
    make_run(tmp_path / "run", resolved, {1: tensors(resolved)})
    with pytest.raises(DataError, match="share=attention stands in the way"):
        export_run(tmp_path / "run", tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


@pytest.mark.parametrize("cls", ["BertForPreTraining", "RobertaForMaskedLM", "AlbertForMaskedLM"])
def test_a_folder_becomes_a_run_and_a_folder_again(cls, tmp_path):
    more = {"embedding_size": 16} if cls.startswith("Albert") else {}
    hf, made = tmp_path / "hf", tmp_path / "made"
    case(cls, SMALL, **more).save(hf)
    write_tokenizer(hf, ROBERTA_WORDS if cls.startswith("Roberta") else BERT_WORDS)
    assert cls[:3].lower() in import_run(hf, made).summary()
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
    notes = " ".join(import_run(tmp_path / "hf", tmp_path / "made").imported.notes)
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
    with pytest.raises(UsageError, match="holds no exported model"):
        export_run(run, run / "tokenizer")
    assert sorted(path.name for path in (run / "tokenizer").iterdir()) == before
    os.truncate(run / "tokenizer" / "tokenizer.json", 3 << 30)
    with pytest.raises(DataError, match=r"tokenizer\.json is larger than 256 MiB"):
        export_run(run, tmp_path / "out")


def test_what_is_no_checkpoint_is_passed_over(run):
    newest = first_weight(run)
    for name in ("step-old", "step-x", "step-00000011"):
        (run / "checkpoints" / name).mkdir()
    os.mkfifo(run / "checkpoints" / "step-00000011" / "weights.safetensors")
    assert first_weight(run) == newest


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


OLDER = Path(__file__).parent / "older_resolved.json"


def test_older_names_of_arguments_are_read_as_those_of_today():
    assert Rerank.model_validate({"sigmoid": False}) == Rerank(activation="identity")
    older = {"kind": "edit", "mask": 0.2, "pos": 0.0, "ngram": 0.1, "tagger": ""}
    assert EditedCopies.model_validate(older) == EditedCopies(mask=0.2, ngram=0.1)


def test_the_name_of_a_kind_is_read_as_that_kind():
    resolved = read_resolved(OLDER)
    assert [stage.mixing for stage in resolved.stages] == [MixedBatches()] * 3
    answers = [task.answer for stage in resolved.stages for task in stage.tasks]
    assert [answer.head for answer in answers if isinstance(answer, Span)] == [
        Plain(),
        Conditioned(),
    ]
