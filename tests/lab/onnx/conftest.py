"""A run folder of several tasks, and one of masked text, with random weights."""

from pathlib import Path

import pytest

import bertc
from tests.hub.programs import tensors
from tests.hub.test_runs import make_run

NETWORK = "layers=2 hidden=24 heads=3 ffn=40 vocab=wordpiece(97) seq=24 device=cpu precision=fp32 "
TEXTS = [" ".join(f"w{5 + (7 * n + k) % 90}" for k in range(3 + n % 5)) for n in range(12)]


def table(path: Path, header: str, rows: list[tuple[object, ...]]) -> str:
    """A file of rows that is both parts of a task, as its arguments."""
    lines = [header.replace(" ", "\t"), *("\t".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return f"'{path}', '{path}'"


@pytest.fixture
def tasks(tmp_path: Path) -> dict[str, str]:
    """A task of every kind of answer."""
    words = [text.split() for text in TEXTS]
    rows = {
        "classify": ("text label", [(t, "odd" if n % 2 else "even") for n, t in enumerate(TEXTS)]),
        "regress": ("text label", [(t, n / 4) for n, t in enumerate(TEXTS)]),
        "choose": ("question a b label", [(t, "w9 w8", "w7", n % 2) for n, t in enumerate(TEXTS)]),
        "tag": ("words tags", [(" ".join(w), " ".join("XY"[n % 2] for n in range(len(w))))
                               for w in words]),
        "read": ("context question answer start", [
            (t, "w6 w5", w[1], t.index(w[1])) for t, w in zip(TEXTS, words, strict=True)]),
    }  # fmt: skip
    files = {name: table(tmp_path / f"{name}.tsv", *each) for name, each in rows.items()}
    more = {"choose": ", choices=['a','b']"}
    return {name: f"{name}({own}{more.get(name, '')})" for name, own in files.items()}


def run_of(folder: Path, spec: str) -> Path:
    """A run folder of a spec with a checkpoint of random weights."""
    resolved = bertc.resolve(spec)
    folder.mkdir()
    make_run(folder, resolved, {0: tensors(resolved)})
    return folder
