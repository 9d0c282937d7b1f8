"""Cards of exported folders."""

import json
import shutil
from pathlib import Path

import pytest

import bertc
from bertc.base.storage.paths import without_folders
from bertc.run.models.loading import read_checkpoint, read_model
from bertc.run.models.runs import import_run
from bertc.use.card import export_with_card
from tests.run.conftest import lines as metrics

SPEC = "layers=1 hidden=16 heads=2 ffn=32 vocab=wordpiece(64) seq=16 batch=2 steps=4 eval_every=2 "
SPEC += "save_every=2 keep=all device=cpu precision=fp32 objective=mlm holdout=20% "
NAME = "odd\x1b[31m\u202e`name`.txt"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("card")
    (folder / NAME).write_text("\n\n".join(f"w{n % 9} w{n % 7} w{n % 5} w{n}" for n in range(99)))
    bertc.train(f"{SPEC} data=files('{folder}/odd*.txt', language=en)", folder / "run")
    return folder / "run"


def card_of(run: Path, to: Path, pooling: str = "") -> list[str]:
    export_with_card(run, to, pooling)
    return (to / "README.md").read_text().splitlines()


def test_the_command_writes_a_card_of_the_run(run, tmp_path, command):
    assert command("export", str(run), "--to", str(tmp_path / "left")) == 0
    lines = (tmp_path / "left" / "README.md").read_text().splitlines()
    assert len(lines) <= 60
    assert all(line.isprintable() for line in lines)
    assert lines.count("---") == 2
    assert lines[0] == "---"
    for expected in (
        'language: ["en"]', "library_name: transformers", "pipeline_tag: fill-mask",
        'tags: ["bertc", "bert"]', "## Training, 4 of 4 steps",
        "    from transformers import AutoTokenizer, BertForMaskedLM",
    ):  # fmt: skip
        assert expected in lines
    assert any(line.startswith("# license: to fill in") for line in lines)
    assert any("layers=1 hidden=16" in line for line in lines)
    assert any("mlm, 4 steps of 2 x 16 tokens" in line for line in lines)
    last = metrics(run, "eval")[-1]
    assert f"It read {last['tokens']:,} tokens, padding of rows included." in lines
    assert "# Encoder for fill-mask, bert layout" in lines
    (score,) = [line for line in lines if f"{last['loss_masked']:.4f}" in line]
    assert score.startswith("    mlm, masked: loss ")
    assert f"by token frequency {last['unigram_losses']['mlm_masked']:.4f}, accuracy " in score
    figures = [line.split(": ")[0] for line in lines if line.startswith("    mlm")]
    assert len({*figures}) == len(figures)


def test_scores_are_of_the_weights_that_are_exported(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    weights = tmp_path / "run" / "checkpoints" / "step-00000004" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    lines = card_of(tmp_path / "run", tmp_path / "left")
    assert "## Training, 2 of 4 steps" in lines
    scored = {line["step"]: line["loss_masked"] for line in metrics(run, "eval")}
    assert any(line.startswith(f"    mlm, masked: loss {scored[2]:.4f}") for line in lines)
    assert not any(f"{scored[4]:.4f}" in line for line in lines)


def test_a_run_that_begins_elsewhere_and_an_imported_one_say_so(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = card_of(run, tmp_path / "left", "mean")
    assert {"library_name: sentence-transformers", "pipeline_tag: sentence-similarity"} <= {*lines}
    import_run(tmp_path / "left", tmp_path / "imported")
    lines = card_of(tmp_path / "imported", tmp_path / "again")
    assert "Imported: what it was trained on is not known here." in lines
    assert not [line for line in lines if "It read" in line]
    bertc.train(f"init='{run}' {SPEC} data=files('{run.parent}/odd*.txt')", tmp_path / "next")
    lines = card_of(tmp_path / "next", tmp_path / "left")
    assert [line for line in lines if line.startswith('base_model: "run"')]
    export_with_card(tmp_path / "next", tmp_path / "code", code=True)
    files = [file for name in ("left", "code", "again", "imported", "next/model")
             for file in (tmp_path / name).rglob("*") if file.is_file()]  # fmt: skip
    machine = str(tmp_path.parent).encode()
    assert not [file for file in files if machine in file.read_bytes()]


def test_absolute_paths_are_shown_by_their_last_part():
    text = "files('/home/al/a b.txt', \"~/x/*.csv\") /srv/y.txt x='file:///a/c' 80/10/10 a / b"
    shown = "files('a b.txt', \"*.csv\") y.txt x='c' 80/10/10 a / b"
    assert without_folders(text) == shown
    assert without_folders(remote := "data=files('s3://a/b') init='runs/a' ../a/b") == remote


@pytest.mark.parametrize("network", ["", "positions=rotary segments=0 "])
def test_scores_of_the_next_token_fill_no_masks(network, run, tmp_path):
    settings = f"{network}{SPEC} data=files('{run.parent}/odd*.txt')"
    bertc.train(settings.replace("mlm", "mntp"), tmp_path / "run")
    exported = export_with_card(tmp_path / "run", tmp_path / "left")
    assert exported.architecture.endswith("ForMaskedLM"), "as pipelines of minimal pairs want it"
    lines = (tmp_path / "left" / "README.md").read_text().splitlines()
    assert not [line for line in lines if "pipeline_tag" in line or "fill-mask" in line]
    assert [line for line in lines if "the token after it" in line]
    tokenizer = json.loads((tmp_path / "left" / "tokenizer_config.json").read_text())
    assert tokenizer["model_max_length"] == 16


def test_revisions_are_the_weights_after_their_steps(run, tmp_path, call):
    code, said, _ = call("export", str(run), "--to", str(tmp_path / "two"), "--revision", "step-2")
    assert code == 0
    card = (tmp_path / "two/README.md").read_text()
    assert "## Training, 2 of 4 steps" in card
    assert 'BertForMaskedLM.from_pretrained("FOLDER")' in card
    name = "encoder.embeddings.token.weight"
    sent = read_model(tmp_path / "two")[1][name]
    assert sent.equal(read_checkpoint(run, 2, "evaluated")[1][name])
    assert not sent.equal(read_checkpoint(run, 4, "evaluated")[1][name])
    code, _, err = call("export", str(run), "--to", str(tmp_path / "x"), "--revision", "step-3")
    assert code == 66
    assert "has no checkpoint of step 3" in err
