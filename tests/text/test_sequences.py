"""Sequences and lists of items: read as Biopython reads them, cut anywhere, turned, or refused."""

import gzip
import json
import random
from io import StringIO
from itertools import pairwise
from pathlib import Path

import fsspec
import numpy as np
import pyarrow
import pytest
from Bio import SeqIO
from Bio.Seq import Seq
from pyarrow import parquet

from bertc.api import check
from bertc.base.diagnostics import DataError, SpecError
from bertc.ir.data import Fasta, Files
from bertc.tasks.corpus import prepare
from bertc.tasks.layouts.table import names_of_columns, table
from bertc.text.batches.order import draw_below
from bertc.text.cache.store import Silent
from bertc.text.sources import files, source
from bertc.text.sources.opening import open_source
from bertc.text.sources.tables import ColumnSelection
from bertc.use.embed import _rows

from .conftest import documents, joined, resolved, same

ODD = """; by hand
>sp|P1|ONE a protein,  with blanks
MKV LLE\tggx

ACDE*
>two
;within
mk
>three\tby a tab

MKVLEE-.W
  RR
> four
A"""
READS = "@r1 first\nACGTN\n+\nIIIII\n@r2\nacgt\n+r2\n@@@+\n\n"


def read(path: object, **how: str) -> list[str]:
    """The documents of a source, whose pieces are as much as it says."""
    corpus = Fasta(path=str(path), **how)  # type: ignore[arg-type]
    pieces = list(open_source(corpus).read())
    assert sum(piece.amount for piece in pieces) == open_source(corpus).total
    return documents(pieces)


def write(path: Path, count: int, letters: str = "ACGT", longest: int = 300) -> list[str]:
    """Records of random letters, in lines of 60; their letters."""
    draw = random.Random(path.name)
    texts = ["".join(draw.choices(letters, k=draw.randint(9, longest))) for _ in range(count)]
    lines = ((text[at : at + 60] for at in range(0, len(text), 60)) for text in texts)
    path.write_text("".join(f">{n}\n" + "\n".join(of) + "\n" for n, of in enumerate(lines)))
    return texts


@pytest.mark.parametrize("piece_bytes", [1, 7, 1 << 20])
@pytest.mark.parametrize("content", [ODD, ODD.replace("\n", "\r\n"), f"{ODD}\n\n", f"\n\n{ODD}"])
def test_records_are_those_of_biopython(tmp_path, monkeypatch, content, piece_bytes):
    monkeypatch.setattr(source, "PIECE_BYTES", max(piece_bytes, 41))  # longer than a title
    for name in ("a.fasta", "a.faa.gz", "a.txt"):
        raw = content.encode()
        (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
        known = list(SeqIO.parse(StringIO(content.replace("\r", "").strip()), "fasta-pearson"))
        texts = [str(record.seq).replace("\t", "").removesuffix("*") for record in known]
        assert read(tmp_path / name) == [text.upper() for text in texts]
        skipped = ["".join(c for c in text if not c.islower()) for text in texts]
        assert read(tmp_path / name, masked="skip") == skipped
    rows = [row.cells for row in table(tmp_path / "a.fasta", ColumnSelection(("sequence", "id")))]
    assert rows == [(t.upper(), r.id or "four") for t, r in zip(texts, known, strict=True)]
    (tmp_path / "r.fastq").write_text(READS)
    reads = SeqIO.parse(StringIO(READS), "fastq")
    expected = [str(record.seq).upper() for record in reads]
    (tmp_path / "wrapped.fq").write_text(READS.replace("GTN", "G\nTN").replace("III", "II\nI"))
    assert [read(tmp_path / name) for name in ("r.fastq", "wrapped.fq")] == [expected, expected]


def test_rows_of_sequences_are_named(tmp_path):
    rows_at = tmp_path / "a.fa"
    rows_at.write_text(">x one of  two\nAC\nGT\n>y\nA\n")
    names = names_of_columns(rows_at)
    rows = list(table(rows_at, ColumnSelection(tuple(names))))
    assert [row.cells for row in rows] == [("x", "one of  two", "ACGT"), ("y", "", "A")]
    assert names == ["id", "description", "sequence"]
    assert rows[1].place == f"{tmp_path}/a.fa:4"
    assert [row.text for row in _rows(rows_at, "")] == ["ACGT", "A"]
    (tmp_path / "b.fa").write_text("سلام\n")  # Persian has this ending too
    assert documents(open_source(Files(path=f"{tmp_path}/b.fa")).read()) == ["سلام\n"]


@pytest.mark.parametrize("wide", [60, 10**9])
def test_long_records_come_in_frames_and_parts_hold_each_once(tmp_path, monkeypatch, wide):
    texts = write(tmp_path / "a.fasta", 40, longest=9000)
    if wide > 60:
        lines = (f">{n}\n{text}\n" for n, text in enumerate(texts))
        (tmp_path / "a.fasta").write_text("".join(lines))
    monkeypatch.setattr(source, "PIECE_BYTES", 2000)
    monkeypatch.setattr(files, "PART_BYTES", 20_000)
    monkeypatch.setattr(files, "SAMPLED_BYTES", 64)
    opened = open_source(Fasta(path=f"{tmp_path}/*.fasta"))
    pieces = [piece for part in opened.parts for piece in part.read()]
    assert len(opened.parts) > 5
    assert documents(pieces) == texts == read(tmp_path / "a.fasta")
    whole = {len(one.text) for one, later in pairwise(pieces) if not later.first}
    assert whole == {1680}, "a multiple of all small k"


DAMAGED = [
    ("a.fasta", "a protein\n>x\nMKV\n", ":1: text before a line that begins with >"),
    ("b.fasta", ">x\nMKV\n>y\n\n>z\nM\n", ":3: a sequence without letters"),
    ("c.fasta", ">x\nMKV\n\nM1V\n", ":4: '1' in a sequence"),
    ("d.faa", ">x\n<b>MK\n", ":2: '<' in a sequence"),
    ("e.txt", "One hen. Two ducks.\n", ":1: text before a line that begins with >"),
    ("f.fq", "@x\nAC\n+\nII\n@y\nAC\n+\nI\n", ":5: no read of FASTQ: 2 letters, 1 qualities"),
    ("g.fastq", "@x\nAC\n-\nII\n", ":1: no read of FASTQ: 5 letters, 0 qualities"),
    ("h.fastq", "@x\nAC\n", ":1: no read of FASTQ: 2 letters, 0 qualities"),
    ("i.fna.gz", "no gzip", "cannot unpack"),
    ("j.fasta", ">" + "x" * (3 << 20), ":1: a title is longer than 1 MiB"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), DAMAGED, ids=[d[0] for d in DAMAGED])
def test_damage_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    fsspec.filesystem("memory").pipe_file(f"/{tmp_path.name}/{name}", content.encode())
    for path in (tmp_path / name, f"memory:///{tmp_path.name}/{name}"):
        caught = pytest.raises(DataError, read, path).value
        assert f"{path}{message}" in caught.message or message in caught.message
    if ":1:" in message:  # before any is read
        pytest.raises(DataError, check, f'data=fasta("{tmp_path / name}")').match(message)
    if name == "a.fasta":
        helped = pytest.raises(DataError, check, f'data=files("{tmp_path / name}")').value.help
        assert f'fasta("{tmp_path / name}")' in helped


ITEMS = [["a.", "b?", "a."], ["c?d"], [], None, ["b?"] * 9]


def test_lists_are_documents_of_items_and_ids_are_tokens(tmp_path):
    rows = {"items": ITEMS, "ids": [[5, 6, 5], [7], [], None, [6] * 9]}
    parquet.write_table(pyarrow.table(rows), tmp_path / "a.parquet")
    lines = (dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a.", "b?", "c?d"]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens))
    how = "format=doc-sentences seq=16 batch=2 steps=1 holdout=20%"
    for ending in ("parquet", "jsonl"):
        for column, vocab in (("items", "words(50)"), ("ids, ids=true", f'"{tmp_path}/vocab.txt"')):
            data = f'data=files("{tmp_path}/a.{ending}", column={column})'
            program = resolved(data, f"{how} vocab={vocab}")
            corpus = prepare(program, tmp_path / "cache", Silent())
            (text,) = corpus.texts
            parts = [shard.opened() for shard in (*text.train, *text.heldout)]
            ids = [t.ids[a : b - 1].tolist() for t in parts for a, b in pairwise(t.sentences)]
            known = [[corpus.vocabulary.token(i) for i in row] for row in ids]
            assert sorted(known) == sorted(filter(None, ITEMS)), "whole, in one sentence"
    with pytest.raises(SpecError, match="E411: data has token ids, and vocab = words"):
        resolved(f'data=files("{tmp_path}/a.jsonl", column=ids, ids=true) vocab=words(90)')


@pytest.mark.parametrize(
    ("row", "ids", "message"),
    [
        ([5, 99], True, "'x' has token id 99, from 0 to 30 expected"),
        ([-1], True, "'x' has token id -1, from 0"),
        ("5 6", True, "'x' has no list of token ids"),
        (["a"], True, "'x' has 'a' in its list, a whole number expected"),
        ([[5]], True, "'x' has a list in its list"),
        ([[1]], False, "'x' has a list in its list"),
        (["a", 1], False, "'x' has 1 in its list, a word without blanks expected"),
        (["a b"], False, "'x' has 'a b' in its list"),
        (["a", None], False, "'x' has empty in its list"),
        ([True], False, "'x' has True in its list"),
    ],
)  # fmt: skip
def test_lists_of_others_are_refused_with_their_row(tmp_path, row, ids, message):
    (tmp_path / "a.jsonl").write_text(f'{{"x": [5]}}\n{{"x": {json.dumps(row)}}}\n')
    opened = open_source(Files(path=f"{tmp_path}/a.jsonl", column="x", ids=ids))
    caught = pytest.raises(DataError, list, opened.read(below=31))
    caught.match(f"a.jsonl:2: {message}")


CUT = "vocab=bytes objective=mlm seq=64 batch=8 format=doc-sentences(cut=random)"


def letters(corpus, batch):
    """The rows of a batch as text, without special tokens."""
    rows = zip(batch.token_ids, batch.lengths, strict=True)
    return ["".join(map(corpus.vocabulary.token, row[1 : n - 1].tolist())) for row, n in rows]


def test_long_sequences_are_cut_anew_in_every_pass(tmp_path):
    texts = write(tmp_path / "a.fasta", 90) + write(tmp_path / "b.fasta", 90)
    program = resolved(CUT, f'data=fasta("{tmp_path}/*.fasta") steps=900 holdout=10%')
    corpus, again = (prepare(program, tmp_path / name, Silent()) for name in "xy")
    stage = corpus.stages[0]
    places, count = dict[str, list[float]](), stage.examples
    for step in range(30 * count // 8):
        batch = stage.train(step)
        for row in letters(corpus, batch):
            (text,) = [text for text in texts if row in text]
            places.setdefault(text, []).append(text.index(row) / max(1, len(text) - len(row)))
            assert len(row) == min(len(text), 62)
    assert len(places) == count, "a row a document and pass"
    long = {text: of for text, of in places.items() if len(text) > 100}
    assert min(len({*of}) for of in long.values()) > 15
    assert abs(np.mean([*map(np.mean, long.values())]) - 0.5) < 0.03
    for step in (17, 3, 100):
        halves = [again.stages[0].train(step, part) for part in (slice(0, 3), slice(3, 8))]
        assert same(joined(*halves), stage.train(step))
    held_out = (c.stages[0].heldout(range(1, 4), 99) for c in (corpus, again))
    assert all(map(same, *held_out))
    wide = CUT.replace("=64", "=200"), f'pack=true steps=1 data=fasta("{tmp_path}/*.fasta")'
    (packed,) = prepare(resolved(*wide), tmp_path / "x", Silent()).stages
    assert not same(packed.train(0), packed.train(packed.examples))
    drawn = draw_below(np.full(10_000, 7), 1, "x", np.arange(10_000), 3)
    assert np.bincount(drawn).min() > 1300


@pytest.mark.parametrize("form", ["doc-sentences", "full-sentences", "doc-sentences pack=true"])
def test_rows_of_dna_are_turned(tmp_path, form):
    write(tmp_path / "a.fasta", 60, "ACGTRYKMBVDHSWN", longest=40)
    how = f'data=fasta("{tmp_path}/a.fasta") {CUT} steps=99 holdout=10%'.replace(
        "doc-sentences(cut=random)", form
    )
    plain, turned = (
        prepare(resolved(how, more), tmp_path / "cache", Silent())
        for more in ("", "augment=reverse_complement(50%)")
    )
    share = []
    for step in range(60):
        batches = [corpus.stages[0].train(step) for corpus in (plain, turned)]
        for row, other, starts, n in zip(*(b.token_ids for b in batches), batches[0].starts,
                                         batches[0].lengths, strict=True):  # fmt: skip
            bounds = [*starts[starts < 64], n]
            texts = [
                ["".join(map(plain.vocabulary.token, ids[a + 1 : b - 1].tolist()))
                 for a, b in pairwise(bounds)]
                for ids in (row, other)
            ]  # fmt: skip
            strands = [str(Seq(t.replace("</s>", "-")).reverse_complement()) for t in texts[0]]
            share.append([t.replace("</s>", "-") for t in texts[1]] == strands)
            assert share[-1] or texts[0] == texts[1]
            assert (row[n:] == other[n:]).all()
    assert 0.4 < np.mean(share) < 0.6
    assert all(map(same, *(c.stages[0].heldout(range(1, 4), 9) for c in (plain, turned))))
    assert plain.fingerprint != turned.fingerprint
    write(tmp_path / "p.fasta", 60, "ACDE")
    protein = resolved(how.replace("a.fasta", "p.fasta"), "augment=reverse_complement")
    caught = pytest.raises(DataError, prepare, protein, tmp_path / "cache", Silent())
    caught.match("of the token 'E'")
    for wrong in ("2*reverse_complement", "reverse_complement format=stream objective=clm"):
        pytest.raises(SpecError, resolved, f"augment={wrong}").match("augment copies examples")
