"""The house's own rules, held by reading the source: arrows, sizes, what never loads."""

import ast
import inspect
import re
import statistics
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from bertc.ir.base import Node
from bertc.ir.learning.objective import Pretraining
from bertc.ir.network.attention import Attention
from bertc.passes import PASSES

PACKAGE = Path(__file__).parent.parent / "bertc"
FILES = sorted(PACKAGE.rglob("*.py"))

ROOMS = (
    "diagnostics",
    "ir",
    "ir.network",
    "ir.changing",
    "ir.terms",
    "ir.learning",
    "ir.program",
    "compress",
    "planning",
    "storage",
    "tokenizer_files",
    "passes.settings",
    "passes.teaching",
    "passes.changing",
    "passes.published",
    "passes",
    "estimate.machines",
    "estimate",
    "estimate.latency",
    "data.cache",
    "data.sources",
    "data.vocab",
    "data.rows",
    "data.batches",
    "data.layouts",
    "data.examples",
    "data",
    "native",
    "host",
    "nn",
    "syntax.read",
    "syntax.write",
    "syntax.lowering",
    "syntax",
    "interop.families",
    "interop",
    "objectives.sampling",
    "objectives.softmax",
    "objectives",
    "tasks",
    "runs",
    "distributed",
    "optim",
    "step",
    "evaluation",
    "onnx",
    "bench",
    "train.beginning",
    "train",
    "trackers",
    "inference",
    "inspecting",
    "search",
    "choosing",
    "starting",
    "editor",
    "report",
    "watch",
    "tables",
    "commands",
)
"""Folders of the package from the ground up: one imports only from those before it."""
ON_TOP = ("choosing", "starting", "editor", "report", "tables", "commands")
"""Rooms that call the Python functions of the package."""
TORCH_FREE = (
    "editor",
    "diagnostics",
    "storage",
    "tokenizer_files",
    "planning",
    "passes",
    "ir",
    "syntax",
    "estimate",
    "compress",
    "data.cache",
)
APART = (("nn", "data"), ("objectives", "data"), ("estimate", "nn"))
"""Rooms of which neither knows the other."""
MOST_FILES = 20


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's syntax."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def names_and_texts(path: Path) -> tuple[set[str], set[object]]:
    """Names that a file's code uses or imports, and its constants."""
    names = {node.id for node in nodes(path) if isinstance(node, ast.Name)}
    names |= {node.name for node in nodes(path) if isinstance(node, ast.alias)}
    return names, {node.value for node in nodes(path) if isinstance(node, ast.Constant)}


def room_of(path: Path) -> str:
    """The folder of a file, as a dotted name."""
    return ".".join(path.parent.relative_to(PACKAGE).parts)


def room_named(name: str) -> str:
    """The folder that an imported name of the package stands in."""
    parts = name.split(".")[1:]
    while parts and not PACKAGE.joinpath(*parts).is_dir():
        parts.pop()
    return ".".join(parts)


def imported(path: Path) -> set[str]:
    """Every module a file imports, wherever in the file."""
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import"
            names.add(node.module or "")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_every_folder_is_a_room() -> None:
    assert {room_of(path) for path in FILES} - {""} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_arrows_point_down(room: str) -> None:
    below = {*ROOMS[: ROOMS.index(room) + 1], ""}
    for path in (PACKAGE / room.replace(".", "/")).glob("*.py"):
        for name in imported(path):
            root, *parts = name.split(".")
            if root == "bertc" and parts:
                of_ground = parts[0] in ("__version__", "resources")
                assert room_named(name) in below, f"{path} imports {name}"
                assert room_named(name) or of_ground or room in ON_TOP, f"{path}: {name}"


@pytest.mark.parametrize(("one", "other"), APART)
def test_rooms_that_know_nothing_of_each_other(one: str, other: str) -> None:
    for room, stranger in ((one, other), (other, one)):
        for path in (PACKAGE / room).rglob("*.py"):
            for name in imported(path):
                assert not name.startswith(f"bertc.{stranger}."), f"{path} imports {name}"


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_stay_small(room: str) -> None:
    assert len(list((PACKAGE / room.replace(".", "/")).glob("*.py"))) <= MOST_FILES


@pytest.mark.parametrize("room", TORCH_FREE)
def test_light_rooms_never_name_torch(room: str) -> None:
    for path in (PACKAGE / room.replace(".", "/")).rglob("*.py"):
        heavy = {name.split(".")[0] for name in imported(path)} & {"torch", "numpy", "datasets"}
        assert not heavy, f"{path} imports {heavy}"


EXTRAS = ("plotly", "optuna", "pygls", "tensorboard", "wandb", "mlflow", "trackio")
"""Packages that pages, searches, the editor and trackers load, each where it is used."""


def test_checking_and_estimating_never_load_torch() -> None:
    code = (
        "import sys; from bertc.api import points; from bertc.estimate import estimate;"
        "estimate(points('layers=2')[0], 'h200');"
        f"bad = {{'torch', 'numpy', 'datasets', *{EXTRAS}}} & {{*sys.modules}}; assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE.parent)


def test_the_command_line_starts_without_the_compiler() -> None:
    code = (
        "import sys, bertc.planning.cores, bertc.commands;"
        "bad = {'pydantic', 'bertc.ir.base', 'torch'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE.parent)


def test_estimating_reads_no_hugging_face_layouts() -> None:
    code = (
        "import sys; from bertc.api import points; points('layers=2');"
        "assert 'bertc.interop.families' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE.parent)


def test_looking_at_model_folders_and_files_of_tasks_never_loads_torch() -> None:
    code = (
        "import sys, bertc.diff, bertc.external, bertc.interop.config, bertc.interop.program;"
        "import bertc.data.layouts, bertc.data.examples.task_sets;"
        "assert 'torch' not in sys.modules;"
        "import bertc.inference.predict, bertc.train.loop, bertc.nn;"
        "bad = {'torch._dynamo', 'transformers', 'datasets', 'matplotlib'};"
        f"bad = {{*bad, *{EXTRAS}}} & {{*sys.modules}}; assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE.parent)


def test_files_and_functions_stay_small() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in FILES}
    assert statistics.median(lengths.values()) < 150
    assert {path: n for path, n in lengths.items() if n > 300} == {}
    long = [
        f"{path}:{node.name}"
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= 50
    ]
    assert long == []


def test_the_map_names_the_passes_in_their_order() -> None:
    text = (PACKAGE.parent / "docs" / "architecture.md").read_text()
    assert ", ".join(each.__name__ for each in PASSES) in text


def test_files_that_the_map_names_are_there() -> None:
    text = (PACKAGE.parent / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`([\w/]+\.py)`", text))
    assert len(named) > 50
    roots = (PACKAGE, PACKAGE.parent)
    assert [name for name in named if not any((root / name).is_file() for root in roots)] == []


def test_no_file_is_named_for_nothing() -> None:
    assert not {path.stem for path in FILES} & {"utils", "util", "common", "helpers", "misc"}


LISTING = ("interop/families/", "ir/program/settings.py", "tables/table.py")
"""Files that say kinds as data: what a layout has, by its heads too, and defaults of settings.

A scale of tables is called as an attention kind.
"""


def files_naming(kind: type[Node]) -> set[str]:
    """The files that name a kind by its class, or as a spec does, but for those that list some."""
    found = set[str]()
    for path in FILES:
        names, texts = names_and_texts(path)
        if kind.__name__ in names or kind.model_fields["kind"].default in texts:
            found.add(str(path.relative_to(PACKAGE)))
    return {file for file in found if not file.startswith(LISTING)}


@pytest.mark.parametrize("kind", get_args(Pretraining))
def test_an_objective_is_named_in_its_own_files_alone(kind: type[Node]) -> None:
    """Those are its node and nodes that build on it, its tensors, the union, and the match."""
    tensors = f"objectives/{Path(inspect.getfile(kind)).name}"
    known = {tensors, "ir/learning/objective.py", "objectives/terms.py"}
    strangers = {file for file in files_naming(kind) - known if not file.startswith("ir/terms/")}
    assert strangers == set()


@pytest.mark.parametrize("kind", get_args(get_args(Attention)[0]))
def test_an_attention_is_named_in_its_own_files_alone(kind: type[Node]) -> None:
    """Those are its node in the union, its module, and the match."""
    module = f"nn/{kind.model_fields['kind'].default}.py"
    assert files_naming(kind) - {"ir/network/attention.py", "nn/attention.py", module} == set()


OF_STORAGE = {"read_text", "read_bytes", "expanduser", "is_file", "is_dir", "exists"}
OWN_FILES = (
    "resources.py", "syntax/read/grammar.py", "syntax/read/table.py", "diagnostics/codes.py",
    "estimate/machines/processor.py", "host/machine.py", "host/resident.py",
    "data/sources/docstrings.py", "data/cache/store.py", "syntax/files.py", "starting/gallery.py",
    "commands/completing.py",
    "planning/cores.py", "native/library.py",
)  # fmt: skip
"""Files of the package, of the system, and those whose kind and size were looked at before."""


def test_files_of_others_are_looked_at_and_read_through_storage() -> None:
    """The methods of paths raise at names that no file has, and read devices without end."""
    for path in FILES:
        # Of tables nothing is lost if one cannot be read.
        if path.parent.name in ("storage", "tables") or str(path.relative_to(PACKAGE)) in OWN_FILES:
            continue
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                used = f"{path}:{node.lineno} calls {node.func.attr}"
                assert node.func.attr not in OF_STORAGE, used
