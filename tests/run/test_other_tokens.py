"""Runs with the vocabulary of ``init`` extended, trimmed or exchanged: tables, bits, files."""

import random
import shutil
from functools import partial

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

import bertc
from bertc.api import points
from bertc.base.diagnostics import DataError, Diagnostics, ResumeRefusedError
from bertc.ir.program.resolved import model_weights
from bertc.ir.vocabulary import TokenizerFile
from bertc.run.models.runs import export_adapter_of, export_run
from bertc.run.train.loop import train
from bertc.text.vocab.vocabulary import vocabulary_of
from tests.run.conftest import final_tensors, same_run, stop_after, weights

BIRDS, PLACES = ("hen", "barn", "geese"), ("pond", "gate", "old")
LISTED = [f"{a}{b}{c}" for a in BIRDS for b in PLACES for c in "aeodn"]
DETECTED = "rtd + mlm"
NETWORKS = {
    "tied": {},
    "untied": {"head": "linear(tied=false)"},
    "generator": {"objective": DETECTED, "generator": "network(size=0.5, heads=1)"},
    "gdes": {"objective": DETECTED, "generator": "network(size=1, heads=1, tie=gdes)"},
}


@pytest.fixture
def follow(tiny, tmp_path, go):
    """A program that begins from a run of two steps with the same settings, and its folder."""

    def made(vocab, embeddings="mean", moments="reset", **settings):
        folder = tmp_path / "source"
        if not folder.exists():
            go(tiny(steps=2, **settings), "source")
            (tmp_path / "words.txt").write_text("\n".join(LISTED))
        init = f"run('{folder}', embeddings={embeddings}, moments={moments})"
        return tiny(vocab=vocab, init=init, **settings), folder

    return made


def listed(tmp_path):
    return f"extend(init, '{tmp_path}/words.txt')"


@pytest.mark.parametrize("network", NETWORKS)
def test_every_tensor_with_a_row_a_token_follows(network, follow, tmp_path, first_weights, go):
    resolved, folder = follow(listed(tmp_path), moments="carry", **NETWORKS[network])
    begun = first_weights(resolved, "run")
    before, old = weights(folder), vocabulary_of(folder, 120)
    new = vocabulary_of(tmp_path / "run", 0)
    assert resolved.encoder.vocab_size == new.size == old.size + len(LISTED) > 120
    pieces = {word: old.tokenizer.encode(word, add_special_tokens=False).ids for word in LISTED}
    carried = set()
    for weight in model_weights(resolved):
        there, here = before[weight.name], begun[weight.name]
        if "vocab" not in weight.axes:
            assert torch.equal(there, here)
            continue
        carried.add(weight.name)
        assert here.shape == weight.shape
        assert torch.equal(here[: old.size], there[: old.size])
        for word, ids in pieces.items():
            row = here[new.tokenizer.token_to_id(word)]
            assert torch.allclose(row, there[ids].mean(0), atol=1e-6)
    assert {"encoder.embeddings.token.weight", "heads.mlm.bias"} <= carried
    go(resolved, "run", resume=True)
    assert final_tensors(tmp_path / "run")["m.heads.mlm.bias"].shape == (new.size,)


def test_text_without_new_words_gives_equal_outputs_there_and_exported(follow, tmp_path, go):
    resolved, folder = follow(listed(tmp_path), optimizer="adamw(lr=1e-30)")
    go(resolved, "run")
    texts = ["The hens cackle on the old barn.", "geese and a henponda"]
    export_run(tmp_path / "run", tmp_path / "hf")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "hf")
    own = vocabulary_of(tmp_path / "run", 0).tokenizer
    assert [theirs(text)["input_ids"] for text in texts] == [own.encode(t).ids for t in texts]
    assert own.encode(texts[1]).tokens[-2] == "henponda"
    again, exported, before = map(bertc.load, (tmp_path / "run", tmp_path / "hf", folder))
    states = [model.encode(**model.tokenizer(texts)) for model in (again, exported)]
    assert torch.allclose(*states, atol=1e-6)
    known = before.encode(**before.tokenizer(texts[:1]))
    assert torch.allclose(states[0][:1, : known.shape[1]], known, atol=1e-5)


def test_an_adapter_of_other_tokens_is_exported_merged_alone(follow, tmp_path, go):
    resolved, source = follow(listed(tmp_path), adapt="lora")
    diagnostics = Diagnostics()
    vocab = f"vocab=extend(init, '{tmp_path / 'words.txt'}')"
    points(f"init='{source}' {vocab} adapt=lora objective=mlm seq=16", (), diagnostics)
    assert [r.code for r in diagnostics.remarks if "new tokens" in r.message] == ["R126"]
    go(resolved, "run")
    with pytest.raises(DataError, match="has another vocabulary than") as refused:
        export_adapter_of(tmp_path / "run", tmp_path / "pairs")
    assert "leave out --adapter" in refused.value.help


def test_vocabularies_made_of_text_are_resumed_to_the_same_bits_without_what_made_them(
    follow, tiny, tmp_path, corpus_file, monkeypatch, go
):
    """But not with a text that changed, which could change a vocabulary unseen."""
    shutil.copy(corpus_file, tmp_path / "farm.txt")
    data = f"files('{tmp_path}/farm.txt', sentences=lines)"
    _, folder = follow(listed(tmp_path))
    ways = ("extend(init, 5)", "trim(init)", "trim(init, tokens=60)")
    for name, vocab in zip("abc", ways, strict=True):
        resolved = tiny(vocab=vocab, init=f"'{folder}'", data=data)
        go(resolved, name)
        broken = tmp_path / f"{name}-b"
        stop_after(monkeypatch, 5, partial(go, resolved, broken.name))
        shutil.move(folder, tmp_path / "gone")
        train(resolved, broken, resume=True, cache=tmp_path / "empty", quiet=True)
        same_run(tmp_path / name, broken)
        shutil.move(tmp_path / "gone", folder)
    stop_after(monkeypatch, 5, partial(go, resolved))
    (tmp_path / "farm.txt").write_text(corpus_file.read_text().replace("hens", "zebra"))
    with pytest.raises(ResumeRefusedError, match="the text: fingerprint"):
        go(resolved, "run", resume=True)


def test_another_tokenizer_takes_the_rows_of_equal_tokens(follow, tmp_path, first_weights, go):
    table = "encoder.embeddings.token.weight"
    begun = {}
    for kind in ("mean", "focus", "random"):
        resolved, folder = follow("bpe(300)", embeddings=kind)
        begun[kind] = first_weights(resolved, kind)[table]
    new, old = vocabulary_of(tmp_path / kind, 300), vocabulary_of(folder, 120)
    before = weights(folder)[table]
    for kind, rows in begun.items():
        assert torch.equal(rows[new.mask], before[old.mask]) == (kind != "random")
        assert 0.5 < rows.std() / before.std() < 1.5, kind
    piece = new.tokenizer.token_to_id("\u0120hens")
    assert torch.equal(begun["focus"][piece], before[old.tokenizer.token_to_id("hens")])
    names = "[PAD] [UNK] [CLS] [SEP] [MASK] \u9d8f \u6771"
    (tmp_path / "vocab.txt").write_text(names.replace(" ", "\n"))
    resolved, _ = follow(TokenizerFile(path=str(tmp_path / "vocab.txt"), size=7))
    with pytest.raises(DataError, match="special tokens alone in common") as refused:
        go(resolved, "none")
    assert "embeddings=random" in refused.value.help


FIXED = {
    "characters('ACGT', specials=esm, multiple=16)": "A C G G T", "kmers(3, 'ACGT')": "ACG CGG GGT",
    "kmers(2, 'ACGT', step=2)": "AC GG T", "listed('{}/list.txt', 'AC|G', unknown=60%)": "AC G G",
}  # fmt: skip


@pytest.mark.parametrize("vocab", FIXED)
def test_a_vocabulary_that_no_text_decides_trains_resumes_and_leaves(
    vocab, tiny, tmp_path, monkeypatch, go
):
    (tmp_path / "list.txt").write_text("AC\nG\n")
    draw = random.Random(1)
    lines = ["".join(draw.choices(["ACG", "GGT", "CAT"], k=draw.randint(4, 20))) for _ in range(90)]
    (tmp_path / "dna.txt").write_text("\n".join(lines))
    data = f"files('{tmp_path}/dna.txt', sentences=lines)"
    resolved = tiny(vocab=vocab.format(tmp_path), data=data)
    go(resolved)
    stop_after(monkeypatch, 5, partial(go, resolved, "b"))
    (tmp_path / "list.txt").unlink()
    go(resolved, "b", resume=True)
    same_run(tmp_path / "run", tmp_path / "b")
    export_run(tmp_path / "run", tmp_path / "hf")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "hf")
    read = [token for token in theirs.tokenize("ACGGT") if token != "[UNK]"]
    assert read == FIXED[vocab].split()
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "hf").eval()
    own = bertc.load(tmp_path / "run")
    states = own.encode(**own.tokenizer(["ACGGT"]))
    wanted = model.base_model(**theirs(["ACGGT"], return_tensors="pt")).last_hidden_state
    torch.testing.assert_close(states, wanted, atol=1e-5, rtol=0)
    (again,) = points(f"init='{tmp_path}/run' data={data} steps=2 seq=24 batch=8", ())
    assert again.encoder.vocab_size == resolved.encoder.vocab_size
    go(again, "again")
