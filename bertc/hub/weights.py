"""The weights of a Hugging Face folder: files of safetensors, or of pickled tensors alone.

Of the latter some are checkpoints of Composer, in which ModernBERT, Ettin and mmBERT were trained.
"""

import datetime
import pickle
import re
import warnings
import zipfile
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.torch_version import TorchVersion

from bertc.base.diagnostics import DataError, MissingInputError, UnsafeError, listed
from bertc.base.storage.paths import is_file, is_folder
from bertc.base.storage.plain_file import read_json, refuse_pointer, shown, shown_name
from bertc.hub import families
from bertc.hub.families.family import Family
from bertc.hub.keys import ANGLES, BUFFERS, of_encoder, plain, prefixes
from bertc.hub.tensors import Entry, read_header, read_tensors, refuse_no_numbers

SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"
"""Names of weights in published folders, the first that is there is read."""
MAX_INDEX_BYTES = 64 * 2**20
NAMED = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
_BATCH = re.compile(r"ba(\d+)")
_WRAPPED = re.compile(r"^(module|model)\.|_orig_mod\.|_fsdp_wrapped_module\.")
_OURS = re.compile(r"^bert\.(encoder\.(?=layers\.))?")
"""In AnswerDotAI/ModernBERT src/bert_layers/model.py; ``model.`` in transformers."""
_OF_FLEX = "bert.encoder.layers.0.attn.Wqkv.weight"


@dataclass(frozen=True)
class Stored:
    """The tensors of a folder, those of pickles ``loaded``; ``stored`` has their keys in files."""

    path: Path
    header: Mapping[str, Entry]
    files: Mapping[str, Path]
    loaded: Mapping[str, Tensor]
    stored: dict[str, str]
    prefixes: tuple[str, str, str]
    notes: tuple[str, ...] = ()
    angles: str = ""

    def read(self, names: Mapping[str, str]) -> dict[str, Tensor]:
        """Read tensors as fp32 under new names; ``names`` maps the file's keys to them."""
        tensors = dict[str, Tensor]()
        for key in names.keys() & self.loaded.keys():
            tensors[names[key]] = self.loaded[key].to(torch.float32, copy=True).contiguous()
        refuse_no_numbers(self.path, tensors)
        for file in dict.fromkeys(self.files.values()):
            keys = [key for key in names if self.files.get(key) == file]
            tensors |= read_tensors(file, {key: names[key] for key in keys}) if keys else {}
        return tensors

    @property
    def rates(self) -> list[float]:
        """The rates of rotary angles, if they are there."""
        rates: list[float] = self.read({self.angles: ""})[""].tolist() if self.angles else []
        return rates

    def entry(self, key: str) -> Entry:
        """Dtype and shape of a tensor."""
        return self.header[self.stored[key]]

    def modules(self) -> set[str]:
        """Names of modules that have a tensor."""
        return {key.rpartition(".")[0] for key in self.stored}

    def find_unread(self, family: Family, placed: Collection[str]) -> list[str]:
        """Keys that the network does not read: of heads that it has not, and some of the layout."""
        return [
            key
            for key, name in self.stored.items()
            if key not in placed
            and (key in family.unread or not of_encoder(family, self.prefixes, name))
        ]


def open_layout(folder: Path, family: Family) -> Stored:
    """The weights of a folder, safetensors where there are both, by the names of this layout."""
    path, parts = _files(folder)
    header, files, loaded, notes = _together(parts)
    first, stored, angles = prefixes(family, header), dict[str, str](), ""
    foreign = {f"{layout.prefix}." for layout in families.FAMILIES}
    foreign -= {"bert.", "model.", "transformer.", first[2]}
    if any(first[0].endswith(prefix) for prefix in foreign):
        table = f"{first[0]}{family.names['encoder.embeddings.token']}.weight"
        message = f"{path}: {table} is no name of the {family.title} layout"
        raise DataError(message, help="name the model_type of these weights in config.json")
    for key in header:
        today = plain(first, key)
        old = next((old for old in family.older if today.startswith(old)), "")
        today = f"{family.older.get(old, '')}{today.removeprefix(old)}"
        angles = key if today.endswith(ANGLES) else angles
        if today in BUFFERS or today.endswith(ANGLES):
            continue
        if today in stored:
            both = f"{shown_name(stored[today])} and {shown_name(key)}"
            message = f"{path}: {both} name the same tensor"
            raise DataError(message, help="save the model again with one of them")
        stored[today] = key
    return Stored(path, header, files, loaded, stored, first, notes, angles)


def checkpoint_notes(folder: Path) -> tuple[str, ...]:
    """Lines on the training of a folder whose weights are a checkpoint of Composer."""
    if _checkpoint_in(folder) is None:
        return ()
    path, _ = _files(folder)
    return _unpickle(path)[1] if path.suffix == ".pt" else ()


def _files(folder: Path) -> tuple[Path, list[Path]]:
    """The file or the index of the weights, and all files of them."""
    for name in (SAFE, PICKLED):
        index = folder / f"{name}.index.json"
        if is_file(folder / name):
            return folder / name, [folder / name]
        if is_file(index):
            return index, _parts(index)
    if checkpoint := _checkpoint_in(folder):
        return checkpoint, [checkpoint]
    names = listed(sorted(path.name for path in folder.iterdir()))
    ways = "rename weights of PyTorch, convert others (TensorFlow, Flax) with transformers 4"
    help = f"{ways}, or name a folder that has one; there are {names}"
    raise MissingInputError(f"{folder} has no {SAFE} and no {PICKLED}", help)


def _parts(index: Path) -> list[Path]:
    mapped = read_json(index, MAX_INDEX_BYTES).get("weight_map")
    names = sorted({*map(str, mapped.values())}) if isinstance(mapped, dict) else []
    for name in names or [""]:
        if Path(name).name != name or not name:
            message = f"{index}: weight_map names {shown(name)}, which is no file beside it"
            raise DataError(message, help="copy the file again from its source")
        if not is_file(index.parent / name):
            message = f"{index.parent} lacks {name}, a part of the weights"
            raise MissingInputError(message, help="download it too")
    return [index.parent / name for name in names]


def _together(
    parts: list[Path],
) -> tuple[dict[str, Entry], dict[str, Path], dict[str, Tensor], tuple[str, ...]]:
    """Dtypes and shapes of all tensors, files of some, the others as loaded, and notes on them."""
    header, files, loaded = dict[str, Entry](), dict[str, Path](), dict[str, Tensor]()
    notes: tuple[str, ...] = ()
    for part in parts:
        refuse_pointer(part)
        if part.suffix == ".safetensors":
            entries = read_header(part)
            files |= dict.fromkeys(entries, part)
        else:
            tensors, notes = _unpickle(part)
            loaded |= tensors
            entries = {
                name: Entry(NAMED.get(tensor.dtype, str(tensor.dtype)), tuple(tensor.shape))
                for name, tensor in tensors.items()
            }
        header |= entries
    return header, files, loaded, notes


def _unpickle(path: Path) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The tensors of a pickle, of one with anything else none; notes on a checkpoint."""
    damaged = DataError(f"{path} is no file of tensors", "copy it, or save its state_dict alone")
    try:
        zipped = zipfile.is_zipfile(path)
        if zipped:
            with zipfile.ZipFile(path) as file:  # packed, a small file can fill the memory
                if any(member.compress_type != zipfile.ZIP_STORED for member in file.infolist()):
                    raise damaged
        known = _known_types() if path.suffix == ".pt" else nullcontext()
        with warnings.catch_warnings(action="ignore"), known:
            loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except pickle.UnpicklingError as error:
        if not re.search("GLOBAL|Can only", str(error)):
            raise damaged from None
        everything = "torch.load(p, weights_only=False)"
        tensors_only = f"{{n: t for n, t in {everything}.items() if torch.is_tensor(t)}}"
        if path.suffix == ".pt":
            tensors_only = f"{{'state': {{'model': {everything}['state']['model']}}}}"
        raise UnsafeError(
            f"{path} has more than tensors, and reading that can run code",
            help="if you trust it, leave only its tensors, as in python -c "
            f'"import torch; p = {str(path)!r}; torch.save({tensors_only}, p)"',
        ) from None
    except OSError as error:
        raise MissingInputError(f"{path} cannot be read: {error.strerror}") from None
    except DataError:
        raise
    except Exception:  # damage can end anywhere in the reader
        raise damaged from None
    if not isinstance(loaded, Mapping):
        raise damaged
    state = loaded.get("state")
    state = state if isinstance(state, Mapping) else {}
    model = state.get("model")
    weights = _names_of_today(model) if isinstance(model, Mapping) else loaded
    if not all(map(_is_dense, weights.values())):
        raise damaged
    return {str(n): tensor.detach() for n, tensor in weights.items()}, _progress_of(state)


def _is_dense(tensor: object) -> bool:
    """True for a tensor of numbers that are all there: none is repeated in memory."""
    if not isinstance(tensor, Tensor) or tensor.layout != torch.strided or tensor.is_meta:
        return False
    return tensor.untyped_storage().nbytes() >= tensor.numel() * tensor.element_size()


def _checkpoint_in(folder: Path) -> Path | None:
    """The checkpoint of a folder after most batches; None if it has none."""
    files = sorted(folder.glob("*-rank0.pt")) if is_folder(folder) else []
    return max(files, key=lambda file: int((_BATCH.findall(file.name) or [-1])[-1]), default=None)


def _known_types() -> AbstractContextManager[None]:
    """Allow the types that Composer saves beside tensors: times, versions, states of numpy."""
    dates = [getattr(datetime, name) for name in ("timedelta", "datetime", "date", "timezone")]
    arrays: list[Any] = [np.ndarray, np.dtype, type(np.dtype(np.uint32))]
    make: Any = np.empty(0).__reduce__()[0]
    named = [(make, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]
    return torch.serialization.safe_globals([*dates, TorchVersion, *arrays, *named])


def _names_of_today(model: Mapping[str, Any]) -> dict[str, Any]:
    """The weights of a checkpoint by the names of today's ModernBERT, or as they are."""
    plain = {_WRAPPED.sub("", str(name)): tensor for name, tensor in model.items()}
    ours = _OF_FLEX in plain
    return {_OURS.sub("model.", name) if ours else name: x for name, x in plain.items()}


def _progress_of(state: Mapping[str, Any]) -> tuple[str, ...]:
    """A line on how far the training was, where a checkpoint says it."""
    time = state.get("timestamp")
    time = time.get("Timestamp", time) if isinstance(time, Mapping) else {}
    counts = [(name, time.get(unit)) for unit, name in (("batch", "batches"), ("token", "tokens"))]
    done = [f"{count:,} {name}" for name, count in counts if isinstance(count, int) and count]
    return (f"its training was at {' and '.join(done)}; the moments stay behind",) if done else ()
