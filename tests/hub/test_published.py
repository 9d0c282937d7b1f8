"""Models by their names on the hub, from a cache that the test lays out; no network."""

import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from transformers import BertConfig, BertForMaskedLM

from bertc.api import check, resolve
from bertc.base.diagnostics import MissingInputError, SpecError
from bertc.hub import published
from bertc.hub.published import hub_name, model_folder, or_hub
from bertc.run.models.importing import import_model
from bertc.run.models.loading import read_model
from bertc.run.models.runs import import_run

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
        config = BertConfig(
            vocab_size=31, hidden_size=8, num_hidden_layers=1 + seed, num_attention_heads=2,
            intermediate_size=16, max_position_embeddings=32,
        )  # fmt: skip
        folder = place / "snapshots" / commit
        BertForMaskedLM(config).save_pretrained(folder)
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
    spec = f'init="{name}" seq=16 steps=1'
    resolved = resolve(spec)
    assert resolved.run.init.path == str(folder)
    assert (len(resolved.encoder.layers), resolved.encoder.hidden) == (layers, 8)
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
    assert len(imported.imported.resolved.encoder.layers) == layers


def test_what_the_cache_lacks_is_named(cache):
    lacking = "the hub's cache has no such model, and HF_HUB_OFFLINE is set"
    for name in ("lab/gone", "lab/tiny-bert@v3"):
        with pytest.raises(MissingInputError) as error:
            import_run(Path(name), Path("run"))
        assert error.value.help == f"name a Hugging Face model folder; {lacking}"
        for setting in ("init", "vocab"):
            with pytest.raises(SpecError) as wrong:
                resolve(f'{setting}="{name}" steps=1')
            assert lacking in str(wrong.value)
    (cache / COMMITS["main"] / "model.safetensors").unlink()
    check('init="lab/tiny-bert" seq=16 steps=1')  # reads no weights
    with pytest.raises(
        MissingInputError, match="weights of lab/tiny-bert are not in the hub's cac"
    ):
        import_run(Path("lab/tiny-bert"), Path("run"))


def test_a_folder_here_comes_before_the_hub(cache):
    shutil.copytree(cache / COMMITS["v2"], "lab/tiny-bert")
    assert model_folder("lab/tiny-bert") == "lab/tiny-bert"
    # Next to folders that are here a name is a mistyped path.
    assert [or_hub("help", path) for path in ("lab/gone", "a/b/c", "gone", "x/vocab.txt")] == (
        ["help"] * 4
    )


def test_only_settings_tokenizers_and_tensors_are_downloaded(cache, monkeypatch):
    calls: list[dict[str, object]] = []

    def download(name: str, **options: object) -> str:
        calls.append({"name": name, **options})
        return str(cache / COMMITS["main"])

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    folder = cache / COMMITS["main"]
    (folder / "vocab.txt").unlink()  # as a program that read the settings alone leaves it
    (folder / "model.safetensors").unlink()
    assert model_folder("lab/tiny-bert") == str(folder)
    with pytest.raises(MissingInputError):
        import_model(folder)
    patterns = [call["allow_patterns"] for call in calls if not call["local_files_only"]]
    assert patterns == [[*published.SMALL], [*published.SAFE], [*published.PICKLED]]
    assert {call["revision"] for call in calls} == {"main", COMMITS["main"]}
