"""Digests of a run's parts, and the refusal of parts of another run. Loads no torch."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import BertcError, DataError, MissingInputError
from bertc.base.storage import durable
from bertc.base.storage.paths import is_file, is_folder
from bertc.base.storage.plain_file import opened, parse_json, read_json
from bertc.hub.folders import SENTENCES, checkpoint_folders, checkpoint_name
from bertc.ir.program.stage import EVALUATED_FILES
from bertc.text.tokenizers.by_transformers import LARGEST_FILE_BYTES

DIGESTS = "digests.json"
"""sha256 of the files of ``tokenizer/``, ``sentences/`` and ``model/``, as a run wrote them."""
ORIGIN = {
    "resolved": "the program", "data": "the text", "init": "the weights of init",
    "teachers": "the weights of teachers",
}  # fmt: skip
"""Fields of ``lock.json`` that checkpoints repeat, and what they are digests of."""
EDITED = ("config.json", "README.md")
"""Files of ``model/`` that people complete by hand."""
_LIMIT_BYTES = 16 * 2**20


def write_digests(run: Path, model: int | None = None) -> None:
    """Write the digests of ``tokenizer/``, and of ``model/`` as made after ``model`` steps."""
    parts = ["tokenizer", SENTENCES, *(["model"] if model is not None else [])]
    files = {
        path.relative_to(run).as_posix(): _digest(path)
        for part in parts
        for path in sorted((run / part).rglob("*"))
        if is_file(path) and path.name not in EDITED
    }
    content: dict[str, Any] = {"schema": 1, "files": files}
    if model is not None and (weights := _weights_of(run / "checkpoints" / checkpoint_name(model))):
        content["weights"] = {"step": model, "sha256": weights}
    durable.replace(run / DIGESTS, (json.dumps(content, indent=1) + "\n").encode())


def step_of_model(run: Path) -> int | None:
    """The step whose weights ``model/`` has, noted when a run has ended; None before that."""
    with suppress(BertcError):
        step = _mapping(read_json(run / DIGESTS, _LIMIT_BYTES).get("weights")).get("step")
        return step if isinstance(step, int) else None
    return None


def refuse_strangers(run: Path, refusal: type[BertcError] = DataError, files: bool = True) -> None:
    """Refuse a run folder with parts of another run; without ``files`` in a glance.

    Without digests a part is of this run.
    """
    folders = [folder for _, folder in checkpoint_folders(run / "checkpoints")]
    facts = {folder: _mapping(_manifest(folder).get("facts")) for folder in folders}
    pairs = _other_locks(run / "lock.json", facts), _other_lines(run / "metrics.jsonl", facts)
    for what, remedy in chain(*pairs, _other_files(run) if files else ()):
        raise refusal(what, help=remedy)


def _other_locks(path: Path, facts: Mapping[Path, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    if not is_file(path) or not any("origin" in known for known in facts.values()):
        return
    lock = read_json(path, _LIMIT_BYTES)
    for checkpoint, known in facts.items():
        origin = _mapping(known.get("origin"))
        differing = [
            f"{what} ({_short(origin[name])} there, {_short(lock.get(name))} here)"
            for name, what in ORIGIN.items()
            if name in origin and (origin[name] or None) != (lock.get(name) or None)
        ]
        if differing:
            yield (
                f"{checkpoint} and lock.json are of different runs: {', '.join(differing)} differ",
                f"remove {checkpoint} if it is of another run, or restore lock.json from a copy",
            )


def _other_lines(path: Path, facts: Mapping[Path, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Compare the lines until each checkpoint; one that agrees is enough."""
    # After a damaged checkpoint a run writes other lines; if lines were removed, it begins later.
    known = [_mapping(fact["metrics"]) for fact in facts.values() if "metrics" in fact]
    last = max((metrics.get("step", 0) for metrics in known), default=-1)
    if known and is_file(path) and _first_step(path) <= last:
        pairs = [(metrics.get("bytes"), metrics.get("sha256")) for metrics in known]
        if not any(isinstance(n, int) and _digest_of_first(path, n) == d for n, d in pairs):
            what = f"{path} is not of this run: its checkpoints were written after other lines"
            yield what, "restore it from a copy, or remove it to go on without those figures"


def _other_files(run: Path) -> Iterator[tuple[str, str]]:
    stated = read_json(run / DIGESTS, _LIMIT_BYTES) if is_file(run / DIGESTS) else {}
    as_it_is = f"restore a copy of it, or remove {run / DIGESTS} to use it as it is"
    for name, digest in _mapping(stated.get("files")).items():
        path = run / name
        if is_file(path) and _digest(path) != digest:
            yield (f"{path} is not what this run wrote", as_it_is)
    written = _mapping(stated.get("weights"))
    if isinstance(written.get("step"), int) and is_folder(run / "model"):
        weights = _weights_of(run / "checkpoints" / checkpoint_name(written["step"]))
        if weights and weights != written.get("sha256"):
            other = f"was made of other weights than those of step {written['step']:,}"
            yield f"{run / 'model'} {other}", as_it_is


def _first_step(path: Path) -> float:
    """The step of the first line; infinite without a line."""
    with opened(path) as file, suppress(ValueError, TypeError):
        return float(parse_json(file.readline(_LIMIT_BYTES), _LIMIT_BYTES).get("step", 0))
    return math.inf


def _digest_of_first(path: Path, count: int) -> str:
    with opened(path) as file:
        return hashlib.sha256(file.read(max(0, count))).hexdigest()


def _digest(path: Path) -> str:
    """sha256 of a file; empty for what no run writes."""
    return _digest_once(path, path.stat().st_size, path.stat().st_mtime_ns)


@cache
def _digest_once(path: Path, size: int, _: int) -> str:
    weights = path.suffix == ".safetensors"
    return durable.digest(path) if weights or size <= LARGEST_FILE_BYTES else ""


def _weights_of(checkpoint: Path) -> str:
    """sha256 of the weights that the run evaluated, as the manifest states it; or empty."""
    files = _mapping(_manifest(checkpoint).get("files"))
    evaluated = (files[name] for name in (*EVALUATED_FILES, "weights.safetensors") if name in files)
    return str(_mapping(next(evaluated, None)).get("sha256", ""))


def _manifest(checkpoint: Path) -> Mapping[str, Any]:
    """The content of a manifest; nothing of a damaged one, which others report."""
    try:
        return _mapping(read_json(checkpoint / "manifest.json", _LIMIT_BYTES).get("content"))
    except (DataError, MissingInputError):
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _short(value: Any) -> str:
    """The beginning of a digest, or of the digests of several."""
    texts = value.values() if isinstance(value, dict) else [value]
    return "+".join(str(text)[:8] for text in texts) or "none"
