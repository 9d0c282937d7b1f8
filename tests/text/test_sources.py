"""Every kind of file gives the same documents, and damaged ones say what is wrong and where."""

import csv
import gzip
import io
import itertools
import json
import struct
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path

import fsspec
import pyarrow
import pytest
from pyarrow import parquet

from bertc.api import check
from bertc.base.diagnostics import BertcError, DataError, LostStoreError, MissingInputError
from bertc.base.diagnostics.render import render
from bertc.base.storage import place
from bertc.ir.data import Corpus, Docstrings, Files, Hf
from bertc.tasks.layouts.survey import survey
from bertc.text.sources import files as text_files, opening, source
from bertc.text.sources.opening import open_source
from bertc.text.sources.source import Piece, split_sentences

from . import conftest
from .test_prepared import Faulty

TEXTS = ["One hen. Two ducks.\n\nA goose.", 'He said, "cluck, quack".\tThen left.', "Ende: süß."]


def pieces_of(corpus: Corpus) -> list[Piece]:
    """The pieces of a text, which are as much as it says."""
    opened = open_source(corpus)
    pieces = list(opened.read())
    assert sum(piece.amount for piece in pieces) == opened.total
    return pieces


def documents(path: object, **settings: str) -> list[str]:
    return conftest.documents(pieces_of(Files(path=str(path), **settings)))  # type: ignore[arg-type]


def table() -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows([["id", "text"], *([str(i), t] for i, t in enumerate(TEXTS))])
    return out.getvalue().encode()


def columns(texts: object = TEXTS) -> bytes:
    out = io.BytesIO()
    parquet.write_table(pyarrow.table({"text": texts}), out)
    return out.getvalue()


ROWS = {
    ".jsonl": "".join(json.dumps({"text": t, "n": 1}) + "\r\n" for t in TEXTS).encode(),
    ".csv": table(),
    ".parquet": columns(),
}


def packed(content: bytes, suffix: str) -> bytes:
    compress = {".gz": gzip.compress, ".zst": partial(pyarrow.compress, codec="zstd")}
    return bytes(compress.get(suffix, bytes)(content))


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
def test_rows_are_documents_and_a_text_file_is_one(tmp_path: Path, packing: str) -> None:
    for suffix, content in ROWS.items():
        path = tmp_path / f"a{suffix}{packing}"
        path.write_bytes(packed(content, packing))
        assert [text.replace("\r\n", "\n") for text in documents(path)] == TEXTS
    for name, text in zip("ab", TEXTS, strict=False):
        (tmp_path / f"{name}.txt{packing}").write_bytes(packed(text.encode(), packing))
    assert documents(tmp_path / "**" / f"*.txt{packing}") == TEXTS[:2]
    tabs = tmp_path / "a.tsv"  # where quotes have no meaning
    tabs.write_text('label\tSa\u0308tze\n1\tthe "hen\n0\tduck"\n', encoding="utf-8")
    for column in ("Sa\u0308tze", "S\u00e4tze"):  # as they are written, or the same in NFC
        assert documents(tabs, column=column) == ['the "hen', 'duck"']
    for name in ("a.en", "corpus", "notes.md"):  # any other ending is that of text
        (tmp_path / f"{name}{packing}").write_bytes(packed(b"One line.\nAnother.\n", packing))
        assert documents(tmp_path / f"{name}{packing}") == ["One line.\nAnother.\n"]


def test_lines_are_sentences_and_blank_lines_part_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n\nOne hen. Here.\nTwo\r\n \nThree\n\n\n", encoding="utf-8")
    read = [split_sentences(text, "lines") for text in documents(path, sentences="lines")]
    assert read == [["One hen. Here.", "Two"], ["Three"]]
    text = "A heading\r\n \r\nDr. Hen  came at\nnoon. Then she left."
    read = split_sentences(text, "split")
    assert read == ["A heading", "Dr. Hen came at noon.", "Then she left."]


def test_long_documents_come_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "PIECE_BYTES", 200)
    text = "\n\n".join(f"Sentence {n} of a longer text. Another one, süß." for n in range(100))
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}), encoding="utf-8")
    for name in ("a.txt", "a.jsonl"):
        pieces = pieces_of(Files(path=str(tmp_path / name)))
        assert [p.first for p in pieces] == [True] + [False] * (len(pieces) - 1)
        assert len(pieces) > 10
        assert "".join(p.text for p in pieces) == text
        sentences = [s for p in pieces for s in split_sentences(p.text, "split")]
        assert sentences == split_sentences(text, "split")


def test_a_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "PIECE_BYTES", 20)
    monkeypatch.setattr(source, "LARGEST_LINE_BYTES", 200)
    path = tmp_path / "a.txt"
    path.write_text(f"One hen.\n{'two ' * 40}\n", encoding="utf-8")
    assert documents(path, sentences="lines")[0].count("two") == 40
    path.write_text(f"One hen.\n{'two ' * 60}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"a.txt:2: a line is longer than 256 MiB"):
        documents(path, sentences="lines")


NO_UTF8 = pyarrow.array([b"a", b"b", b"\xff\xfe"]).view(pyarrow.string())
DAMAGED: list[tuple[str, bytes, str]] = [
    ("a.jsonl", b'{"text": "a"}\n{"text": \n', ":2: not JSON"),
    ("b.jsonl", b'{"text": "a"}\n[1]\n', ":2: not a JSON object"),
    ("c.jsonl", b'{"text": "a"}\n\n{"txt": "b"}\n', ":3: no column 'text'; there are txt"),
    ("d.jsonl", b'{"text": 5}', ":1: 'text' is 5, text expected"),
    ("e.jsonl", b'{"text": "a"}\n{"text": "\xff"}', ":2: byte 0xff is not UTF-8"),
    ("f.jsonl", b'{"text": "\\ud800"}', ":1: 'text' has half of a surrogate pair"),
    ("g.jsonl", b"[" * 100_000, ":1: not JSON: too deep"),
    ("h.csv", b"id,text\n1,a\n2\n", ":3: 1 columns, line 1 has 2"),
    ("i.csv", b'id,text\n1,"a\n', ":2: no row of comma-separated values"),
    ("j.csv", b"id,words\n1,a\n", ":1: no column 'text'; there are id, words"),
    ("k.tsv", b"text\na\n\xc3\n", ":3: byte 0xc3 is not UTF-8"),
    ("l.txt", b"fine\n\nnot \xe9 fine", ":3: byte 0xe9 is not UTF-8"),
    ("m.txt.gz", gzip.compress(b"some text " * 999)[:40], "cannot unpack"),
    ("n.txt.gz", b"no gzip at all", "cannot unpack"),
    ("o.jsonl.zst", b"no zstandard", "cannot unpack"),
    ("p.parquet", b"PAR1 no parquet PAR1", "not a whole Parquet file"),
    ("q.parquet.gz", gzip.compress(columns()[:-9]), "not a whole Parquet file"),
    ("r.docx", b"PK", "a .docx file is neither plain text nor rows"),
    ("s.parquet", columns([1, 2]), "row 1: 'text' is 1, text expected"),
    ("t.parquet", columns(NO_UTF8), ": rows 1 to "),
    ("u.npy", b"\x93NUMPY", "a .npy file is neither plain text nor rows"),
]


@pytest.mark.parametrize(("name", "content", "message"), DAMAGED, ids=[d[0] for d in DAMAGED])
def test_damage_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    fsspec.filesystem("memory").pipe_file(f"/{tmp_path.name}/{name}", content)
    for path in (tmp_path / name, f"memory:///{tmp_path.name}/{name}"):
        caught = pytest.raises(DataError, documents, path)
        assert message in caught.value.message
        assert str(path) in caught.value.message
        assert "no column" not in message or f'files("{path}", column=' in caught.value.help
        assert "\n" not in caught.value.message


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an empty folder in a store."""
    monkeypatch.setattr(place, "FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr("bertc.base.storage.files.BLOCK_BYTES", 40)
    yield f"faulty://{tmp_path.name}"
    Faulty.faults.clear()


def test_text_in_a_store_is_read_where_it_lies(store, tmp_path, monkeypatch):
    monkeypatch.setattr("bertc.base.storage.files.LARGEST_RANGE_BYTES", 64)
    files = {
        f"{'b' if packing else 'a'}{suffix}{packing}": packed(content, packing)
        for suffix, content in ROWS.items()
        for packing in ("", ".gz", ".zst")
    }
    for name, content in files.items():
        fsspec.filesystem("faulty").pipe_file(f"{store}/{name}", content)
        (tmp_path / name).write_bytes(content)
        Faulty.faults[:] = [ConnectionError(), b"cut", TimeoutError()]  # after the first answer
        assert documents(f"{store}/{name}") == documents(tmp_path / name)
        assert Faulty.faults == []
    assert len(documents(f"{store}/*")) == len(documents(tmp_path / "*.*"))
    assert check(f"data=files('{store}/a.*')") == 1
    write = partial(fsspec.filesystem("faulty").pipe_file, f"{store}/a.csv", ROWS[".csv"])
    assert_identity_changes(f"{store}/a.csv", write)
    for name in ("a.parquet", "b.csv.gz"):
        pieces = open_source(Files(path=f"{store}/{name}")).read()
        Faulty.faults[:] = [TimeoutError("too slow")] * 7
        said = f"cannot read {store}/{name}: 7 tries in 0 s, too s"
        pytest.raises(LostStoreError, list, pieces).match(said)


def assert_identity_changes(path: object, write: Callable[[], object]) -> None:
    """The identity of text is the same until it is written again."""
    before = open_source(Files(path=str(path))).identity
    assert open_source(Files(path=str(path))).identity == before
    write()
    assert open_source(Files(path=str(path))).identity != before


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("files('faulty://nowhere/*.txt')", "no file is at faulty://nowhere/*.txt"),
        ("files('quack://x/*.txt')", "no store has addresses with quack://"),
        ("files('gs://bucket/*.txt')", "gs:// needs another package"),
        ("files('s3://key:sec/ret@bucket/*.txt')", "an address has no keys"),
        ("files('https://a.b/c.txt?X-Amz-Signature=secret')", "an address has no keys"),
        ("prepared('s3://key:secret@bucket')", "an address has no keys"),
    ],
)
def test_addresses_that_cannot_be_read_are_reported_by_check(data: str, said: str) -> None:
    shown = render(pytest.raises(BertcError, check, f"data={data}").value.diagnostics)
    assert said in shown
    assert "sec" not in shown


def test_text_that_is_not_utf8_is_reported_before_any_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    russian = "Настоящая лицензия является свободной.\n".encode("koi8-r") * 9
    (tmp_path / "a.txt").write_bytes("日".encode() * 40_000)  # a sample ends within a character
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(russian))
    pairs = "data=pairs(en='a.txt', ru='b.txt.gz') objective=mlm+tlm"
    every = [(check, "data=files('*.txt*')"), (check, pairs), (survey, "*.txt*")]
    for look, name in (*every, (open_source, Files(path="*.txt*"))):
        pytest.raises(DataError, look, name).match("b.txt.gz:1: byte 0xee is not UTF-8")
    (tmp_path / "b.txt.gz").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(text_files, "DECODED_BYTES", 0)  # a sample ends within a character
        assert check("data=files('*.txt*')") == 1
    lines = [b"hens\n"] * 20_000
    (tmp_path / "c.txt").write_bytes(b"".join([*lines, b"h\xfchner\n", *lines]))
    pytest.raises(DataError, check, "data=files('*.txt*')").match("c.txt:20001: ")
    texts, names = ("Hens lay.\n", russian.decode("koi8-r")), ("UTF-16LE", "UTF-32LE", "UTF-32BE")
    for text, name in itertools.product(texts, names):
        (tmp_path / "c.txt").write_bytes(text.encode(name) * 9)
        with pytest.raises(DataError, match=f"c.txt: .* bytes are 0; it seems to be {name}"):
            check("data=files('*.txt*')")
    (tmp_path / "c.txt").write_bytes(b"a\0")
    pytest.raises(DataError, check, "data=files('c.txt')").match("it seems to be UTF-16LE")
    (tmp_path / "c.txt").write_bytes(b"")
    assert check("data=files('*.txt*')") == 1
    for look, name in ((check, "data=files('c.txt')"), (survey, "c.txt")):
        pytest.raises(DataError, look, name).match("c.txt is empty")


def test_identity_follows_the_content_and_missing_files_have_none(tmp_path: Path) -> None:
    for name in (tmp_path, tmp_path / "none/*.txt"):
        with pytest.raises(MissingInputError) as caught:
            open_source(Files(path=str(name)))
        assert caught.value.help
    path = tmp_path / "a.txt"
    path.write_text("one hen", encoding="utf-8")
    assert_identity_changes(path, partial(path.write_text, "two hen"))


MODULE = '''"""Short."""
def f():
    """A documentation string that is long enough to be kept, since it has more than eighty
    characters in all, and \\u00fc too.
    """
    x = """Another long string that is not documentation at all, and so it must not be kept here."""
class C:
    r"""The documentation string of a class, again long enough that it is kept, counted in letters.
    """
    async def g(self):
        if True:
            def h():
                """The innermost function has one as well, and it is longer
                than eighty letters, too."""
def again():
    """A documentation string that is long enough to be kept, since it has more than eighty
    characters in all, and \\u00fc too.
    """
'''


def test_docstrings_are_found_and_nothing_is_imported(tmp_path, monkeypatch) -> None:
    for name, text in {
        "pond/__init__.py": "", "pond/duck.py": MODULE, "pond/broken.py": "def f(:",
        "pond/tests/test_duck.py": MODULE, "alone.py": MODULE.replace("kept", "held"),
        "not-a-package/x.py": MODULE,
    }.items():  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(opening, "_roots", lambda: [tmp_path])
    texts = [piece.text for piece in pieces_of(Docstrings()) if piece.text]
    assert [text.count("\n\n") for text in texts] == [2, 1]
    assert "held" in texts[0]
    assert "ü too." in texts[1]
    assert "not documentation" not in "".join(texts)
    assert texts[1].index("A doc") < texts[1].index("The documentation")

    pieces = pieces_of(Docstrings(packages=("pond",)))
    assert sum(bool(piece.text) for piece in pieces) == 1
    with pytest.raises(MissingInputError, match="'swan'"):
        open_source(Docstrings(packages=("pond", "swan")))


def test_data_sets_from_disk(tmp_path: Path) -> None:
    import datasets

    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    rows = datasets.Dataset.from_dict({"text": [*TEXTS, None], "n": [1, 2, 3, 4]})
    rows.save_to_disk(one)
    datasets.DatasetDict({"train": rows, "test": rows.select([0])}).save_to_disk(two)
    assert conftest.documents(pieces_of(Hf(name=one))) == [*TEXTS, ""]
    assert conftest.documents(pieces_of(Hf(name=two, split="test"))) == TEXTS[:1]
    for wrong in (
        Hf(name=two, split="dev"), Hf(name=one, column="words"), Hf(name=f"{one}/nothing")
    ):  # fmt: skip
        assert "\n" not in pytest.raises(BertcError, open_source, wrong).value.message
    with pytest.raises(DataError, match="does not hold text"):
        list(open_source(Hf(name=one, column="n")).read())


def test_damaged_data_sets_are_refused_in_own_words(tmp_path: Path) -> None:
    import datasets

    folder, rows = tmp_path / "saved", datasets.Dataset.from_dict({"text": TEXTS})
    rows.save_to_disk(str(folder))
    (data,) = folder.glob("*.arrow")
    state, whole = (folder / "state.json").read_text(), data.read_bytes()
    places = struct.pack(
        f"<{len(TEXTS) + 1}i", *accumulate((len(t.encode()) for t in TEXTS), initial=0)
    )
    assert places in whole, "where each text begins"
    for path, content in (
        (folder / "state.json", b"{}"),
        (folder / "state.json", b'{"_data_files": [{}]}'),
        (data, whole[: len(whole) // 2]),
        (data, whole.replace(TEXTS[0][:3].encode(), b"\xe9\xe9\xe9")),
        (data, whole.replace(places, places[:-4] + b"\xff\xff\xff\x7f")),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match="its files are damaged"):
            list(open_source(Hf(name=str(folder))).read())
        data.write_bytes(whole)
        (folder / "state.json").write_text(state)


def test_packages_of_users_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site-packages").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    monkeypatch.syspath_prepend(tmp_path)
    assert tmp_path / "site-packages" in opening._roots()
    assert tmp_path not in opening._roots()
