"""Tokens that others made: the ids that were written, from MDS and datatrove, whole or refused."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow
import pytest

from bertc.api import check
from bertc.base.diagnostics import DataError, SpecError
from bertc.base.storage.place import FolderAt
from bertc.data.cache.store import Silent
from bertc.data.corpus import PreparedCorpus, prepare
from bertc.data.prepared.finishing import finish_preparing
from bertc.data.prepared.making import begin_preparing, make_parts
from bertc.data.sources import datatrove, tokens

from .conftest import resolved, same

SPECIAL, CLS, SEP, SIZE = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), 2, 3, 200
SETTINGS = "seq=32 batch=4 steps=20 holdout=20% objective=mlm"


def spec(data: str, more: str = "") -> str:
    return f'data={data} vocab="vocab.txt" {SETTINGS} {more}'


@pytest.fixture
def documents() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(5, SIZE, rng.integers(1, 90)).astype(np.uint16) for _ in range(60)]


@pytest.fixture(autouse=True)
def vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [*SPECIAL, *(f"w{number}" for number in range(SIZE - len(SPECIAL)))]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    monkeypatch.chdir(tmp_path)


def framed(ids: np.ndarray) -> np.ndarray:
    return np.array([CLS, *ids, SEP], dtype=ids.dtype)


def write_mds(
    folder: Path,
    documents: list[np.ndarray],
    encoding: str = "ndarray:uint16",
    compression: str | None = None,
) -> None:
    """Write MDS as mosaicml-streaming does: a name, an int of eight bytes, and the ids."""
    folder.mkdir(parents=True, exist_ok=True)
    shards = []
    for first in range(0, len(documents), 25):
        samples = []
        for number, ids in enumerate(map(framed, documents[first : first + 25])):
            dynamic = b"" if ":" in encoding else bytes([16])
            shape = bytes([1 << 2 | 1]) + np.uint16(len(ids)).tobytes()
            fields = (b"name" * number, dynamic + shape + ids.tobytes())
            sizes = np.array([len(fields[0]), len(fields[1])], np.uint32).tobytes()
            samples.append(sizes + fields[0] + fields[1] + np.int64(7).tobytes())
        text = b"{}"
        ends = np.cumsum([4 * (len(samples) + 2) + len(text), *map(len, samples)])
        raw = np.array([len(samples), *ends], np.uint32).tobytes() + text + b"".join(samples)
        name = f"shard.{len(shards):05}.mds"
        shard: dict[str, Any] = {
            "column_names": ["id", "input_ids", "n"],
            "column_encodings": ["str", encoding, "int"],
            "column_sizes": [None, None, 8], "compression": compression, "format": "mds",
            "samples": len(samples), "version": 2, "zip_data": None,
            "raw_data": {"basename": name, "bytes": len(raw), "hashes": {}},
        }  # fmt: skip
        if compression:
            raw, name = pyarrow.compress(raw, "zstd", asbytes=True), f"{name}.zstd"
            shard["zip_data"] = {"basename": name, "bytes": len(raw), "hashes": {}}
        (folder / name).write_bytes(raw)
        shards.append(shard)
    (folder / "index.json").write_text(json.dumps({"shards": shards, "version": 2}))


def write_datatrove(folder: Path, documents: list[np.ndarray], name: str = "0_shuffled") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    ids = [np.append(document, SEP).astype(np.uint16) for document in documents]
    (folder / f"{name}.ds").write_bytes(b"".join(one.tobytes() for one in ids))
    (folder / f"{name}.ds.index").write_bytes(np.cumsum([*map(len, ids)], dtype="<u8").tobytes())
    (folder / f"{name}.ds.metadata").write_text(f"bert|2\n{sum(map(len, ids))}\n1 T")


def by_library(folder: Path, documents: list[np.ndarray]) -> None:
    columns = {"input_ids": "ndarray:uint16"}
    writer = pytest.importorskip("streaming").MDSWriter
    with writer(columns=columns, out=str(folder), size_limit=2000, compression="zstd:3") as out:
        for document in documents:
            out.write({"input_ids": framed(document)})


def nested(folder: Path, documents: list[np.ndarray]) -> None:
    write_mds(folder / "a" / "0-tokenized", documents[:30])
    write_mds(folder / "b", documents[30:], compression="zstd:3")


def merged(folder: Path, documents: list[np.ndarray]) -> None:
    nested(folder, documents)
    shards = []
    for below in ("a/0-tokenized", "b"):
        index = json.loads((folder / below / "index.json").read_text())
        for shard in index["shards"]:
            for data in filter(None, (shard["raw_data"], shard["zip_data"])):
                data["basename"] = f"{below}/{data['basename']}"
        shards += index["shards"]
    (folder / "index.json").write_text(json.dumps({"shards": shards, "version": 2}))


def several(folder: Path, documents: list[np.ndarray]) -> None:
    write_datatrove(folder, documents[:20])
    write_datatrove(folder / "below", documents[20:])
    write_datatrove(folder, [], "2_unshuffled")  # of a task without documents


WRITERS = {
    "mds": write_mds, "mds-any-dtype": lambda f, d: write_mds(f, d, "ndarray"), "mds-zstd": nested,
    "mds-merged": merged, "mds-library": by_library, "datatrove": several,
}  # fmt: skip


def read_back(corpus: PreparedCorpus) -> list[tuple[int, ...]]:
    """All documents of a text, held-out ones too."""
    read = list[tuple[int, ...]]()
    for shard in (*corpus.texts[0].train, *corpus.texts[0].heldout):
        text = shard.opened()
        bounds = text.sentences[text.documents].tolist()
        assert len(text.documents) == len(text.sentences)
        read += [
            tuple(text.ids[a : b - 1].tolist()) for a, b in zip(bounds, bounds[1:], strict=False)
        ]
    return sorted(read)


@pytest.mark.parametrize("part_tokens", [tokens.PART_TOKENS, 300])
@pytest.mark.parametrize("written", WRITERS)
def test_the_documents_are_those_written(tmp_path, documents, monkeypatch, written, part_tokens):
    for module in (tokens, datatrove):
        monkeypatch.setattr(module, "PART_TOKENS", part_tokens)
    WRITERS[written](tmp_path / "data", documents)
    kind = written.split("-")[0]
    assert check(spec(f'{kind}("data")')) == 1
    program = resolved(spec(f'{kind}("data")', "format=doc-sentences"))
    straight = prepare(program, tmp_path / "cache", Silent())
    assert read_back(straight) == sorted(tuple(document.tolist()) for document in documents)
    fsspec.filesystem("memory").put("data", f"/{tmp_path.name}-data", recursive=True)
    stored = resolved(spec(f'{kind}("memory://{tmp_path.name}-data")', "format=doc-sentences"))
    assert prepare(stored, tmp_path / "stored", Silent()).fingerprint == straight.fingerprint
    place = FolderAt(f"memory://{tmp_path.name}")
    work = begin_preparing(program, place, tmp_path / "other", Silent())
    assert (len(work.parts) > 1) == (part_tokens == 300)
    make_parts(work, pickle.loads(pickle.dumps(work)).plan.parts, Silent())
    finish_preparing(place, Silent())
    there = resolved(spec(f'prepared("{place.address}")', "format=doc-sentences"))
    read = prepare(there, tmp_path / "third", Silent()).stages[0]
    for step in range(20):
        assert same(read.train(step), straight.stages[0].train(step))


def changed(path: str, old: str, new: str) -> Callable[[], object]:
    return lambda: Path(path).write_text(Path(path).read_text().replace(old, new))


def overwrite(path: str, at: int) -> None:
    raw = bytearray(Path(path).read_bytes())
    raw[at : at + 2] = b"\xff\xff"
    Path(path).write_bytes(raw)


MDS, ZIP, DS = 'mds("mds")', 'mds("zip")', 'datatrove("ds")'
WRONG: list[tuple[str, Callable[[], object], str]] = [
    (MDS, lambda: Path("mds/shard.00001.mds").unlink(), "shard.00001.mds is not there"),
    (MDS, lambda: Path("mds/shard.00001.mds").write_bytes(b"x"), "has 1 bytes, its index says"),
    (MDS, changed("mds/index.json", "ndarray:uint16", "ndarray:float32"), "integers expected"),
    (MDS, changed("mds/index.json", "ndarray:uint16", "str"), "is str, integers expected"),
    (MDS, changed("mds/index.json", "ndarray:uint16", "ndarray:int8"), "ids up to 127, but the"),
    (MDS, changed("mds/index.json", '"input_ids"', '"tokens"'), "no column 'input_ids'; there"),
    (MDS, changed("mds/index.json", "shards", "shard"), "is no index of MDS"),
    (MDS, changed("mds/index.json", "{", "["), "index.json is no index of MDS"),
    (MDS, changed("mds/index.json", '"samples": ', '"samples": 0, "n": '), "has no samples"),
    (MDS, lambda: Path("mds/index.json").unlink(), "there is no index.json of MDS in mds"),
    (MDS, lambda: Path("mds").rename("there"), "there is no folder mds"),
    (ZIP, changed("zip/index.json", "zstd:3", "bz2"), "compressed by bz2, zstd or gz expected"),
    (DS, lambda: Path("ds/0_shuffled.ds.index").unlink(), "has no .ds.index"),
    (DS, lambda: Path("ds/0_shuffled.ds").write_bytes(b"abc"), "has 3 bytes, its index says"),
    (DS, lambda: write_datatrove(Path("ds"), []), "ds has no documents"),
    (DS, lambda: Path("ds/0_shuffled.ds").unlink(), "there is no .ds file of datatrove in ds"),
]
DAMAGED: list[tuple[str, Callable[[], object], str]] = [
    (MDS, lambda: overwrite("mds/shard.00002.mds", -20), "00002.mds: a document has ids from 2"),
    (MDS, lambda: overwrite("mds/shard.00002.mds", 4), "shard.00002.mds is damaged"),
    (DS, lambda: overwrite("ds/0_shuffled.ds", 40), "0_shuffled.ds: a document has ids from 3"),
]


@pytest.mark.parametrize(("data", "spoil", "said"), [*WRONG, *DAMAGED])
def test_what_an_index_says_wrong_is_reported_by_check_and_damage_when_it_is_read(
    tmp_path: Path, documents: list[np.ndarray], data: str, spoil: Callable[[], object], said: str
) -> None:
    write_mds(Path("mds"), documents)
    write_mds(Path("zip"), documents, compression="zstd:3")
    write_datatrove(Path("ds"), documents)
    program = spec(data)
    assert check(program) == 1
    spoil()
    if (data, spoil, said) in WRONG:
        with pytest.raises(SpecError) as caught:
            check(program)
        (found,) = caught.value.diagnostics
        assert found.code == "E307"
        assert found.help
        assert said in found.message
    else:
        with pytest.raises(DataError, match=said):
            prepare(resolved(program), tmp_path / "cache", Silent())


@pytest.mark.parametrize("settings", ["vocab=bytes", 'vocab="vocab.txt" format=segment-pair'])
def test_tokens_need_their_vocabulary_and_rows_without_sentences(settings: str) -> None:
    with pytest.raises(SpecError) as caught:
        resolved(f'data=datatrove("ds") {SETTINGS} {settings}')
    assert [found.code for found in caught.value.diagnostics] == ["E296"]
