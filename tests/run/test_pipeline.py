"""The end of a datatrove pipeline: prepared text, the same however its tasks run."""

import contextlib
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from bertc import resolve
from bertc.base.diagnostics import DataError, UsageError
from bertc.base.storage.place import FolderAt
from bertc.data.cache.store import Silent
from bertc.data.corpus import prepare
from bertc.data.prepared.finishing import finish_preparing
from bertc.data.prepared.making import begin_preparing
from bertc.run.pipeline import PreparedWriter
from bertc.run.preparing import standing
from tests.data.test_prepared import contents

TASKS = 3
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SPEC = (
    "layers=1 hidden=16 heads=1 seq=32 batch=4 steps=9 holdout=20% objective=mlm "
    'format=doc-sentences vocab="vocab.txt"'
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BERTC_CACHE", str(tmp_path / "cache"))
    Path("vocab.txt").write_text("\n".join([*SPECIAL, *"abcdefgh.", *(f"##{c}" for c in "abcd")]))


def documents(rank: int) -> Iterator[SimpleNamespace]:
    """The documents of a task; the last task has none."""
    for number in range(30 if rank < TASKS - 1 else 0):
        yield SimpleNamespace(text="ab cd. e f g h. " * (1 + (number + rank) % 5))


def dying(rank: int) -> Iterator[SimpleNamespace]:
    yield from list(documents(rank))[:7]
    raise KeyboardInterrupt


def test_processes_may_put_the_same_file_at_once() -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(FolderAt("to").write, ["plan.json"] * 400, [b"x"] * 400))
    assert [path.name for path in Path("to").iterdir()] == ["plan.json"]


def test_tasks_in_any_order_killed_and_repeated_make_the_same_text(tmp_path: Path) -> None:
    writers = [PreparedWriter(resolve(SPEC), name) for name in ("one", "two")]
    for rank in range(TASKS):
        writers[0](documents(rank), rank, TASKS)
    again = pickle.loads(pickle.dumps(writers[1]))
    for rank in (2, 0, 1):
        with contextlib.suppress(KeyboardInterrupt):
            again(dying(rank), rank, TASKS)
        again(documents(rank), rank, TASKS)
        again(dying(rank), rank, TASKS)  # what is there is not made again
    corpora = [finish_preparing(FolderAt(writer.to), Silent()) for writer in writers]
    assert contents(Path("one")) == contents(Path("two"))
    splits = [corpora[0].facts[split]["documents"] for split in ("train", "heldout")]
    assert sum(splits) == 60
    program = resolve(SPEC.replace('vocab="vocab.txt"', 'data=prepared("one")'))
    batches = prepare(program, tmp_path / "cache", Silent()).stages[0]
    assert batches.train(3).token_ids.shape == (4, 32)


def test_a_pipeline_needs_a_tokenizer_and_a_place_of_as_many_tasks() -> None:
    with pytest.raises(UsageError, match="no vocabulary is learned"):
        PreparedWriter(resolve(SPEC.replace('"vocab.txt"', "bytes")), "to")(documents(0))
    writer = PreparedWriter(resolve(SPEC), "to")
    writer(documents(0), 0, TASKS)
    with pytest.raises(DataError, match="holds another preparation"):
        writer(documents(0), 0, TASKS + 1)
    assert len(repr(writer)) < 100
    assert all(words not in standing("to")[0] for words in ("0 B", "files edited"))
    with pytest.raises(DataError) as error:
        finish_preparing(FolderAt("to"), Silent())
    assert "run these tasks of the pipeline again: 00001, 00002" in error.value.help
    learned = resolve(
        f'{SPEC.replace(chr(34) + "vocab.txt" + chr(34), "wordpiece(90)")} data="vocab.txt"'
    )
    with pytest.raises(DataError, match=r'vocab: tokenizer\("vocab.txt".* there, wordpiece'):
        begin_preparing(learned, FolderAt("to"), Path("cache"), Silent())
