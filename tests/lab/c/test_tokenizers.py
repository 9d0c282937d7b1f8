"""Tokenizers in C against the tokenizers library: ids, cuts, and what must not be read."""

import json
import random

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers

from bertc import DataError
from bertc.ir.learning.custom_task import Classify
from bertc.lab.c.tokenizer import tokenizer_parts
from bertc.tasks.examples.encode import encode
from bertc.tasks.layouts.example import TextExample
from bertc.text.vocab.vocabulary import vocabulary_of
from tests.hub.hf_tokenizers import Folder, Words
from tests.hub.test_tokenizers import ODD
from tests.lab.c.rows import ERRORS, SANITIZED, compiled, rows, strange_texts

KINDS = ["BertTokenizer", "AlbertTokenizer", "PreTrainedTokenizerFast"]


@pytest.fixture(scope="module")
def words() -> Words:
    return Words.of([*ODD * 3, *map(str.lower, ODD)], 700)


def tokenizer_of(kind: str, folder, words: Words) -> Tokenizer:
    """One of each sort, with words and runs of spaces added, as ModernBERT's has them."""
    Folder(kind).write(folder, words)
    tokenizer = Folder(kind).reference(folder).backend_tokenizer
    if kind == "PreTrainedTokenizerFast":
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in (4, 3, 2)])
    tokenizer.add_tokens([AddedToken("Quagga", single_word=True, lstrip=True, rstrip=True)])
    return tokenizer


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_library_and_damage_is_noticed(kind, words, tmp_path):
    tokenizer = tokenizer_of(kind, tmp_path, words)
    program = compiled(tmp_path, tokenizer, *SANITIZED)
    texts = [*ODD, *strange_texts(1500, 7)]
    for text, row in zip(texts, rows(program, texts), strict=True):
        wanted = tokenizer.encode(text)
        assert row == (len(wanted.ids), wanted.ids, wanted.type_ids), ascii(text)
    data, drawn = program.with_suffix(".bin").read_bytes(), random.Random(5)
    for _ in range(12):
        damaged = bytearray(data[: drawn.choice([len(data), drawn.randrange(len(data))])])
        for _ in range(drawn.choice([1, 9, 99])):
            damaged[drawn.randrange(drawn.choice([min(400, len(damaged)), len(damaged)]))] ^= 255
        program.with_suffix(".bin").write_bytes(damaged)
        assert len(rows(program, texts[:99], 64)) == 99  # or the sanitizers would end it


def test_rows_are_cut_as_those_of_tasks_and_bad_texts_are_errors(words, tmp_path):
    Folder("BertTokenizer").write(tmp_path, words)
    vocabulary = vocabulary_of(tmp_path, 1000)
    program = compiled(tmp_path, vocabulary.tokenizer, *SANITIZED)
    task = Classify(train="-", labels=("x", "y"))
    for most in (5, 12, 13):
        sent = [*ODD, *zip(ODD, ODD[1:], strict=False)]
        for texts, row in zip(sent, rows(program, sent, most), strict=True):
            example = TextExample("0", texts if isinstance(texts, tuple) else (texts,), "x")
            made = encode(task, [example], vocabulary, most, 256)
            ids, segments = made.token_ids.tolist(), made.segment_ids.tolist()
            assert row == (len(ids), ids, segments)
    bad = [b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\x80", b"\xe2\x82", b"\xf8\x88"]
    assert [row[0] for row in rows(program, bad)] == [-ERRORS["NOT_UTF8"]] * len(bad)
    assert rows(program, ["a"], 1)[0][0] == -ERRORS["TOO_LONG"]


def test_what_has_no_c_source_is_refused_by_name():
    tokenizer = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    for change, named in [
        ({"pre_tokenizer": {"type": "UnicodeScripts"}}, "UnicodeScripts"),
        ({"normalizer": json.loads(replacing(r"(a|b)\1"))["normalizer"]}, r"\\1"),
        ({"model": json.loads(Tokenizer(models.BPE(dropout=0.5)).to_str())["model"]}, "BPE"),
    ]:
        written = json.dumps({**json.loads(tokenizer.to_str()), **change})
        with pytest.raises(DataError, match=named) as error:
            tokenizer_parts(written)
        assert "onnx" in error.value.help


def replacing(pattern: str) -> str:
    """A tokenizer.json that replaces what a pattern matches."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Replace(Regex(pattern), "")
    return tokenizer.to_str()
