"""Folders of sentence-transformers, read and written back, beside that library."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import bertc
from bertc.base.diagnostics import DataError, UsageError
from bertc.hub.sentences import vectors_of
from bertc.run.models.runs import export_run, import_run
from bertc.use.embed import embed_file
from tests.hub.hf_models import SMALL

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", ":", "query", "passage")
TEXTS = ["a b c", "b", "", "a b c d e f g h " * 9, "h g : query"]
TYPES = "sentence_transformers.models"
Files = Mapping[str, Any]


def modules(*kinds: str) -> list[dict[str, Any]]:
    names = ["", *(f"{n}_{kind}" for n, kind in enumerate(kinds) if n)]
    return [
        {"idx": n, "name": str(n), "path": path, "type": kind if "." in kind else f"{TYPES}.{kind}"}
        for n, (path, kind) in enumerate(zip(names, kinds, strict=True))
    ]


def pooling(*modes: str) -> dict[str, Any]:
    known = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    return {"word_embedding_dimension": 24, **{f"pooling_mode_{m}": m in modes for m in known}}


def folder_of(folder: Path, files: Files) -> Path:
    """A BERT of random weights, with a tokenizer and further files."""
    torch.manual_seed(0)
    config = transformers.BertConfig(**{**SMALL, "vocab_size": 97})
    transformers.BertModel(config).save_pretrained(folder)
    words = [*WORDS, *(f"w{n}" for n in range(97 - len(WORDS)))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 20}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    write(folder, files)
    return folder


def write(folder: Path, files: Files) -> None:
    for name, value in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(value))


NOTHING_SAID: Files = {"config_sentence_transformers.json": {}}
OLD = {"sentence_bert_config.json": {"max_seq_length": 9, "do_lower_case": False}}
NEW = {
    "sentence_bert_config.json": {
        "transformer_task": "feature-extraction",
        "modality_config": {
            "text": {"method": "forward", "method_output_name": "last_hidden_state"}
        },
        "module_output_name": "token_embeddings",
    },
    "config_sentence_transformers.json": {
        "__version__": {"sentence_transformers": "6.2.0"}, "model_type": "SentenceTransformer",
        "prompts": {"query": "query: ", "document": "", "passage": "passage: "},
        "default_prompt_name": "query", "similarity_fn_name": "dot",
    },
}  # fmt: skip
FOLDERS: dict[str, Files] = {
    "mean, normalised": {
        **OLD,
        "modules.json": modules("Transformer", "Pooling", "Normalize"),
        "1_Pooling/config.json": pooling("mean_tokens"),
    },
    "cls": {
        "modules.json": modules("Transformer", "Pooling"),
        "1_Pooling/config.json": pooling("cls_token"),
        "sentence_bert_config.json": {"model_args": {"attn_implementation": "eager"}},
    },
    "max": {
        "modules.json": modules("Transformer", "Pooling"),
        "1_Pooling/config.json": pooling("max_tokens"),
        "sentence_bert_config.json": {"max_seq_length": 12, "do_lower_case": True},
    },
    "written by 6": {
        **NEW,
        "modules.json": modules(
            "sentence_transformers.base.modules.transformer.Transformer",
            "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
        ),
        "1_Pooling/config.json": {"embedding_dimension": 24, "pooling_mode": "cls"},
    },
}  # fmt: skip
FOLDERS["written by 6"]["modules.json"][1]["path"] = "1_Pooling"


def as_before_2(folder: Path) -> None:
    """Move the files of the network as SentenceTransformer.save laid them out until 1.2."""
    inner = folder / "0_Transformer"
    inner.mkdir()
    for path in [path for path in folder.iterdir() if path.is_file()]:
        path.rename(inner / path.name)
    (inner / "modules.json").rename(folder / "modules.json")
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = inner.name
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "config.json").write_text('{"__version__": "0.3.8"}')


def test_a_folder_from_before_2_0_is_read(library_of, tmp_path):
    folder, run = folder_of(tmp_path / "came", FOLDERS["mean, normalised"]), tmp_path / "run"
    as_before_2(folder)
    expected = library_of(folder).encode(TEXTS)
    imported = import_run(folder, run).imported
    assert imported.program.name == "came"
    export_run(run, tmp_path / "left")
    for each in (folder, run, tmp_path / "left"):
        np.testing.assert_allclose(bertc.load(each).embed(TEXTS), expected, atol=2e-6, rtol=0)
    np.testing.assert_array_equal(library_of(tmp_path / "left").encode(TEXTS), expected)
    resolved = bertc.resolve(f"init='{folder}' task=embed('x.tsv', text=a, positive=b, examples=9)")
    assert resolved.encoder.hidden == 24
    assert (resolved.stages[0].tasks[0].longest, resolved.encoder.vocab_size) == (9, 97)


@pytest.fixture(scope="module")
def library_of() -> Any:
    """``SentenceTransformer``, whose import takes seconds."""
    from sentence_transformers import SentenceTransformer

    return lambda folder: SentenceTransformer(str(folder), device="cpu")


@pytest.mark.parametrize("name", FOLDERS)
def test_vectors_are_those_of_the_library_and_leave_as_they_came(name, library_of, tmp_path):
    folder = folder_of(tmp_path / "came", FOLDERS[name])
    library, run = library_of(folder), tmp_path / "run"
    expected = library.encode(TEXTS)
    import_run(folder, run)
    export_run(run, tmp_path / "left")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    for each in (folder, run, tmp_path / "left"):
        model = bertc.load(each)
        np.testing.assert_allclose(model.embed(TEXTS), expected, atol=2e-6, rtol=0)
        embedded = embed_file(each, tmp_path / "texts.txt", quiet=True)[1]  # in fp32 too
        np.testing.assert_allclose(embedded.vectors, expected, atol=2e-6, rtol=0)
        for prompt in set(library.prompts) & {"passage"}:
            found = model.embed(TEXTS, prompt=prompt)
            again = library.encode(TEXTS, prompt_name=prompt)
            np.testing.assert_allclose(found, again, atol=2e-6, rtol=0)
    np.testing.assert_array_equal(library_of(tmp_path / "left").encode(TEXTS), expected)
    for file in FOLDERS[name]:
        assert (tmp_path / "left" / file).read_bytes() == (folder / file).read_bytes()
    long = np.linalg.norm(model.embed(TEXTS, normalise=True), axis=1)
    np.testing.assert_allclose(long, 1, atol=1e-6)
    assert not np.allclose(np.linalg.norm(model.embed(TEXTS, normalise=False), axis=1), 1)
    with pytest.raises(UsageError, match="has no prompt nothing"):
        model.embed(TEXTS, prompt="nothing")


SPECS = {
    "embeds": "task=embed('pairs.tsv', text=a, positive=b)",
    "reads text": "objective=mlm seq=16 batch=2 data=files('text.txt')",
}


@pytest.mark.parametrize("name", SPECS)
def test_a_run_that_begins_there_learns_and_leaves_with_its_ways(
    name, library_of, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    folder, run = folder_of(tmp_path / "came", FOLDERS["written by 6"]), tmp_path / "run"
    rows = "".join(f"{text[:9]} a\t{text[:7]} b\n" for text in TEXTS * 2)
    Path("pairs.tsv").write_text(f"a\tb\n{rows}")
    Path("text.txt").write_text("\n\n".join(TEXTS * 9))
    spec = f"init='came' steps=1 device=cpu precision=fp32 {SPECS[name]}"
    bertc.train(spec, run)
    shutil.rmtree(folder / "1_Pooling")  # the run has its own by now
    model = bertc.load(run)
    if name == "embeds":
        (task,) = model.resolved.stages[0].tasks
        assert (task.answer.pooling, task.prompt) == ("cls", "query: ")
        assert task.longest == model.resolved.stages[0].seq == 20
    for left in (run / "model", export_run(run, tmp_path / "left").folder):
        library = library_of(left)
        assert (library.max_seq_length, library.prompts["passage"]) == (20, "passage: ")
        assert library.similarity_fn_name == "dot"
        np.testing.assert_allclose(library.encode(TEXTS), model.embed(TEXTS), atol=2e-6)


REFUSED: list[tuple[Files, str]] = [
    ({"modules.json": modules("Transformer", "my.Pooling")}, "my.Pooling"),
    ({"modules.json": modules("WordEmbeddings", "Pooling")}, "a module .WordEmbeddings.,"),
    ({"modules.json": modules("Transformer")}, "no module Pooling"),
    ({"1_Pooling/config.json": pooling("cls_token", "max_tokens")}, r'\["cls", "max"\]'),
    ({"1_Pooling/config.json": pooling("mean_sqrt_len_tokens")}, "mean_sqrt_len_tokens"),
    ({"1_Pooling/config.json": {"pooling_mode": "lasttoken"}}, "lasttoken"),
    (
        {"1_Pooling/config.json": {"pooling_mode": "cls", "include_prompt": False}},
        "include_prompt = false",
    ),
    ({"sentence_bert_config.json": {"method": "x"}}, 'method = "x"'),
    ({"config_sentence_transformers.json": {"model_type": "SparseEncoder"}}, "Sparse"),
    ({"config_sentence_transformers.json": {"prompts": {"a": 1}}}, "prompts = "),
    ({"modules.json": modules("Transformer", "Pooling", "Dense")}, "a module .Dense.,"),
]


def refused(folder: Path) -> None:
    found = vectors_of(folder, None)
    assert found is not None
    found.refuse_obstacle(folder)


def test_vectors_of_other_modules_are_refused_by_name(tmp_path):
    folder = folder_of(tmp_path / "came", {})
    for files, named in REFUSED:
        write(folder, {**FOLDERS["cls"], **OLD, **NOTHING_SAID, **files})
        with pytest.raises(DataError, match=named) as error:
            refused(folder)
        assert "--pooling mean" in error.value.help
    imported = import_run(folder, tmp_path / "run")
    assert "the encoder is imported without them" in imported.summary()
    for each in (folder, tmp_path / "run"):
        with pytest.raises(DataError, match=named):
            bertc.load(each).embed(TEXTS)
        with pytest.raises(DataError, match=named):
            bertc.resolve(f"init='{each}' task=embed('x.tsv', text=a, positive=b, examples=9)")
        assert bertc.load(each).embed(TEXTS, "mean").shape == (5, 24)
    task = "task=embed('x.tsv', text=a, positive=b, examples=9, pooling=max)"
    assert bertc.resolve(f"init='{folder}' {task}").stages[0].tasks[0].answer.pooling == "max"
    exported = export_run(tmp_path / "run", tmp_path / "left")
    assert "without files of sentence-transformers" in exported.summary()
    assert not (tmp_path / "left" / "modules.json").exists()
    export_run(tmp_path / "run", tmp_path / "left", "mean")
    export_run(tmp_path / "run", tmp_path / "left")  # in the place of the one before
    assert not (tmp_path / "left" / "modules.json").exists()


def test_damaged_files_are_named(tmp_path):
    write(tmp_path, FOLDERS["cls"])
    for content in ("", "[", "{}", "[1]", '[{"type": 3}]', "\ud800", "[" * 99999):
        (tmp_path / "modules.json").write_bytes(content.encode("utf-8", "surrogatepass"))
        with pytest.raises(DataError, match=r"modules\.json|module"):
            refused(tmp_path)
