"""Tokenizers read from files: those of runs as they are written, those of others once, aside."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from bertc.base.diagnostics import BertcError, DataError, MissingInputError, UnsafeError
from bertc.base.diagnostics.errors import as_data_error
from bertc.base.storage import durable
from bertc.base.storage.paths import cache_folder, is_file, is_folder, is_taken
from bertc.base.storage.plain_file import read_bytes, read_json, read_text, refuse_pointer
from bertc.text.tokenizers import by_transformers as known
from bertc.text.tokenizers.by_transformers import ANOTHER, FILE_NAMES, LARGEST_FILE_BYTES

READING_VERSION = 2
"""Changes with what is stored of a tokenizer, so that those read before are read anew."""
MOST_MEMORY_BYTES = 3 * 2**30
CPU_SECONDS, CLOCK_SECONDS = 4, 300
"""Processor time to read a small tokenizer, and time on a clock for any.

The 250,000 pieces of XLM-R take 3 s, 1.3 GiB of addresses, and 5 ms for a text.
"""
TOKENS_IN_A_SECOND, LARGEST_VOCABULARY = 100_000, 2_000_000
"""Tokens that a slow machine reads in a second, and the most: XLM-V has 901,629."""
BYTES_OF_PIECE = 16
"""Least bytes of a piece in a file of SentencePiece: XLM-R's 5 MB hold 250,000."""
FIRST_MODULE = "0_Transformer"  # SentenceTransformer.save until 1.2
SEEN_OF_CONFIG = ("model_type", "tokenizer_class", "transformers_version")
"""Settings of config.json that AutoTokenizer reads."""


class ReadTokenizer(NamedTuple):
    """A tokenizer.json, ``written``, special tokens by role, and settings for other readers."""

    file: Path
    written: str
    named: Mapping[str, str]
    passed_on: Mapping[str, Any]
    lower: bool

    @property
    def tokenizer(self) -> Any:
        """The ``Tokenizer`` itself, made anew."""
        from tokenizers import Tokenizer

        with as_data_error(f"{self.file}: not a tokenizer.json", ANOTHER):
            return Tokenizer.from_str(self.written)

    @property
    def sentencepiece_files(self) -> dict[str, bytes]:
        """The files of SentencePiece next to it, by name."""
        paths = [self.file.with_name(name) for name in known.SENTENCEPIECE_FILES]
        return {path.name: read_bytes(path, LARGEST_FILE_BYTES) for path in paths if is_file(path)}


def tokenizer_folder(run: Path) -> Path:
    """The folder of a tokenizer: ``tokenizer/`` of a run, a model's folder itself."""
    return run / "tokenizer" if is_folder(run / "tokenizer") else network_folder(run)


def network_folder(folder: Path) -> Path:
    """The folder of a network's files: sentence-transformers before 2.0 had one inside its own."""
    inner = folder / FIRST_MODULE
    return inner if is_file(folder / "modules.json") and is_file(inner / "config.json") else folder


def read_tokenizer(path: Path, lower: bool = True) -> ReadTokenizer:
    """The tokenizer of a run as it is; of others as transformers makes it, aside and once."""
    file = _file(path)
    refuse_pointer(file)
    of_run = path.name == "tokenizer" and is_file(path.parent / "resolved.json")
    if of_run and file == path / "tokenizer.json":
        return _of_run(file)
    result = _of_others(path, file, lower=True)
    if not lower and result["lower"]:
        result = _of_others(path, file, lower=False)
    return ReadTokenizer(file, **result)


def _file(path: Path) -> Path:
    """The vocabulary file at a path, or the first inside it if it is a folder."""
    if is_folder(path):
        if files := [path / name for name in FILE_NAMES if is_file(path / name)]:
            return files[0]
        help = "copy the tokenizer's files into it: without them nothing can be read"
        raise MissingInputError(f"{path} has no {', '.join(FILE_NAMES)}", help)
    if not is_file(path):
        message = f"{path}: there is no such file"
        raise MissingInputError(message, f"name a folder or one of {', '.join(FILE_NAMES)}")
    if path.suffix not in (".json", ".txt", ".model"):
        message = f"{path}: a {path.suffix or 'file without ending'} is no vocabulary"
        raise DataError(message, f"bertc reads {', '.join(FILE_NAMES)}")
    return path


def _of_run(file: Path) -> ReadTokenizer:
    config = settings_in(file.with_name("tokenizer_config.json"))
    settings = {name: value for name, value in config.items() if name not in known.NOT_PASSED_ON}
    if settings.get("tokenizer_class") in known.GENERIC_CLASSES:
        del settings["tokenizer_class"]
    tokens = {role: config.get(f"{role}_token") for role in known.TOKEN_ROLES}
    named = {role: token for role, token in tokens.items() if isinstance(token, str)}
    written = read_text(file, LARGEST_FILE_BYTES)
    return ReadTokenizer(file, written, named, settings, settings.get("do_lower_case", True))


@cache  # each look reads the whole description of the package
def _release() -> str:
    from importlib.metadata import version

    return version("transformers")


def _of_others(path: Path, file: Path, lower: bool) -> dict[str, Any]:
    files = _seen(path, file)
    tokens = max(map(_tokens_in, files, files.values()))
    if tokens > LARGEST_VOCABULARY:
        most = f"{LARGEST_VOCABULARY:,} are the most"
        raise DataError(f"{path}: its vocabulary has about {tokens:,} tokens, {most}", ANOTHER)
    read = hashlib.sha256(f"{READING_VERSION} {_release()} {lower}".encode())
    for name, content in sorted(files.items()):
        read.update(f" {name} {len(content)} ".encode() + content)
    key = read.hexdigest()
    cached = cache_folder() / "tokenizers" / key
    with suppress(BertcError, ValueError):  # it is not there, or damaged
        read_before = read_bytes(cached, 2 * LARGEST_FILE_BYTES) if is_file(cached) else b""
        checksum, content = read_before.split(b"\n", 1)
        if hashlib.sha256(key.encode() + content).hexdigest().encode() == checksum:
            return dict(json.loads(content))
    place = Path(tempfile.gettempdir())
    with durable.writing(place, 0, "name another by TMPDIR"), tempfile.TemporaryDirectory() as name:
        for file_name, content in files.items():
            Path(name, file_name).write_bytes(content)
        result = in_process(Path(name), lower, CPU_SECONDS + tokens / TOKENS_IN_A_SECOND)
    if "refused" in result:
        error = UnsafeError if result["unsafe"] else DataError
        raise error(f"{path}: {result['refused']}", result["help"])
    content = json.dumps(result, ensure_ascii=False).encode()
    checksum = hashlib.sha256(key.encode() + content).hexdigest().encode()
    with suppress(BertcError), durable.writing(cached):  # without it they are read again
        durable.make_folder(cached.parent)
        durable.replace(cached, checksum + b"\n" + content)
    return result


def _seen(path: Path, file: Path) -> dict[str, bytes]:
    """The files that transformers is to see, with the names that it knows."""
    folder, named = file.parent, file.name
    if named not in FILE_NAMES:
        named = {".txt": "vocab.txt", ".json": "tokenizer.json"}.get(file.suffix, "spiece.model")
    others = known.OTHER_FILES if path == file else (*known.OTHER_FILES, *FILE_NAMES)
    names = {name: folder / name for name in others if is_taken(folder / name)} | {named: file}
    files = {name: read_bytes(place, LARGEST_FILE_BYTES) for name, place in names.items()}
    if "vocab.txt" in files:  # transformers counts empty lines at its end as a token
        files["vocab.txt"] = files["vocab.txt"].rstrip() + b"\n"
    if path == file and named == "tokenizer.json":
        config = settings_in(folder / "tokenizer_config.json")
        config = {name: config[name] for name in config.keys() - {"tokenizer_class", "auto_map"}}
        return {**files, "tokenizer_config.json": json.dumps(config).encode()}
    model = settings_in(folder / "config.json")
    model = {name: model[name] for name in SEEN_OF_CONFIG if isinstance(model.get(name), str)}
    return {**files, "config.json": json.dumps(model).encode()}


def settings_in(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if there is none."""
    return read_json(path, LARGEST_FILE_BYTES) if is_taken(path) else {}


def _tokens_in(name: str, content: bytes) -> int:
    """The number of tokens that a file of a vocabulary has at most, about."""
    if name.endswith(".model"):
        return len(content) // BYTES_OF_PIECE
    marks = (b'":', b'",') if name.endswith(".json") else (b"\n",)
    return max(map(content.count, marks))


def in_process(folder: Path, lower: bool, seconds: float) -> dict[str, Any]:
    """The result of ``read_or_refuse``, by a process that ends where it takes too much."""
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "PYTHONWARNINGS": "ignore"}
    serial = {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    serve = "from bertc.text.tokenizers.by_transformers import serve_tokenizer; serve_tokenizer()"
    limits = str(MOST_MEMORY_BYTES), str(seconds)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", serve, folder, "lower" * lower, *limits],
            stdin=subprocess.DEVNULL, capture_output=True,
            env={**os.environ, **quiet, **serial, "PYTHONPATH": path}, timeout=CLOCK_SECONDS,
        )  # fmt: skip
        printed, code, errors = done.stdout, done.returncode, done.stderr
    except subprocess.TimeoutExpired:
        printed, code, errors = b"", -signal.SIGXCPU, b""
    if code == 0:
        return dict(json.loads(printed))
    if code > 0:
        raise RuntimeError(errors.decode(errors="replace"))
    reason = "ends the process that reads it"
    if code == -signal.SIGXCPU:
        reason = "takes too much time"
    elif code == -signal.SIGKILL or b"memory allocation" in errors:
        reason = f"takes more than {MOST_MEMORY_BYTES >> 20:,} MiB of memory"
    return {"refused": f"its tokenizer {reason}", "help": ANOTHER, "unsafe": False}
