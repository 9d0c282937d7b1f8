"""The house's own rules, held by reading the source: arrows, sizes, what never loads."""

import ast
import inspect
import re
import statistics
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest

from bertc.check.passes import PASSES
from bertc.ir.base import Node
from bertc.ir.learning.objective import Pretraining
from bertc.ir.methods.method import Method
from bertc.ir.network.attention import Attention, OwnAttention
from bertc.ir.network.attention_node import AttentionNode
from bertc.ir.network.body_node import BodyNode
from bertc.ir.network.encoder import Encoder
from bertc.ir.program.settings import Settings
from bertc.ir.program.stage import METHODS, Stage
from bertc.ir.terms.node import TermNode

PACKAGE = Path(__file__).parent.parent / "bertc"
FILES = sorted(PACKAGE.rglob("*.py"))

ROOMS = (
    "base", "ir", "lang", "cost", "model", "text", "tasks", "machine", "hub", "check", "learn",
    "run", "use", "api", "lab", "cli",
)  # fmt: skip
"""Rooms of the package from the ground up: one imports only from those before it.
``check`` is above ``tasks`` and ``hub``, since its first passes read the facts of files.
"""
TORCH_FREE = ("base", "ir", "lang", "cost", "check", "text/cache", "text/tokenizers", "lab/editor")
APART = (
    ("model", "text"), ("model", "tasks"), ("learn/objectives", "text"),
    ("learn/objectives", "tasks"), ("cost", "model"),
)  # fmt: skip
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


def room_of(name: str) -> str:
    """The room of a module or of a name in it; "" of the package itself."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else ""


def module_of(path: Path) -> str:
    """The dotted name of a file."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


@cache
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


def test_the_package_has_its_rooms_and_no_loose_files() -> None:
    names = {path.name for path in PACKAGE.iterdir()} - {"__pycache__"}
    assert names - {"py.typed"} == {"__init__.py", "lab_api.py", *ROOMS}


@pytest.mark.parametrize("room", ROOMS)
def test_arrows_point_down(room: str) -> None:
    below = {*ROOMS[: ROOMS.index(room) + 1], ""}
    for path in FILES:
        if room_of(module_of(path)) == room:
            for name in imported(path):
                if name.split(".")[0] == "bertc":
                    assert room_of(name) in below, f"{path} imports {name}"


@cache
def arrows() -> dict[str, set[str]]:
    """The modules that each module imports."""
    modules = {module_of(path): path for path in FILES}
    return {name: _imported_modules(path, {*modules}) - {name} for name, path in modules.items()}


def _imported_modules(path: Path, modules: set[str]) -> set[str]:
    """Modules that a file imports: of ``from package import module`` the module alone."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else node.module or "" for name in names}
    return found & modules


def test_no_files_import_each_other_in_a_circle() -> None:
    """Packages count as what they import themselves."""
    order = TopologicalSorter({name: to - {"bertc"} for name, to in arrows().items()})
    order.prepare()  # raises CycleError
    assert [path for path in FILES if module_of(path) in imported(path)] == []


DOTTED = re.compile(r"``([a-z_]\w*(?:\.\w+)+)``")
ENDINGS = (".json", ".txt", ".toml", ".tsv", ".hashes")


def test_docstrings_name_modules_that_are_there_and_follow_what_they_describe() -> None:
    """A name with dots leads on from a room, a library, a setting, or a name of the file's code."""
    fields, others = ("id", "arg", "attr", "name"), {"torch", "plotly", *Settings.model_fields}
    codes = {p: {getattr(n, field, "") for n in nodes(p) for field in fields} for p in FILES}
    there = {module_of(path) for path in FILES}
    there |= {f"{module_of(path)}.{name}" for path, names in codes.items() for name in names}
    for path, names in codes.items():
        for name in DOTTED.findall(path.read_text()):
            full, head = f"bertc.{name.removeprefix('bertc.')}", name.split(".")[0]
            led = full in there or head in names | others or name.endswith(ENDINGS)
            assert led, f"{path}: {name}"
        body = [type(n) is ast.Expr and ast.unparse(n)[0] in "'\"" for n in nodes(path)[0].body]
        assert (True, True) not in pairwise(body), f"{path} has two docstrings in a row"


@pytest.mark.parametrize(("one", "other"), APART)
def test_rooms_that_know_nothing_of_each_other(one: str, other: str) -> None:
    for room, stranger in ((one, other), (other, one)):
        for path in (PACKAGE / room).rglob("*.py"):
            for name in imported(path):
                dotted = stranger.replace("/", ".")
                assert not name.startswith(f"bertc.{dotted}."), f"{path} imports {name}"


def test_folders_stay_small() -> None:
    sizes = Counter(path.parent for path in FILES)
    assert {folder: size for folder, size in sizes.items() if size > MOST_FILES} == {}


@pytest.mark.parametrize("room", TORCH_FREE)
def test_light_rooms_never_name_torch(room: str) -> None:
    for path in (PACKAGE / room).rglob("*.py"):
        heavy = {name.split(".")[0] for name in imported(path)} & {"torch", "numpy", "datasets"}
        assert not heavy, f"{path} imports {heavy}"


EXTRAS = "plotly optuna pygls tensorboard wandb mlflow"
"""Packages that pages, searches, the editor and trackers load, each where it is used."""
NEVER_LOADED = {
    "check, estimate": (
        "from bertc.cli.options import app_for; words = ['estimate', 'bert-base'];"
        "app_for(words)(words, standalone_mode=False)",
        f"torch numpy datasets transformers tokenizers pandas bertc.hub.families {EXTRAS}",
    ),
    "command line": ("import bertc.base.cores, bertc.cli.app", "pydantic bertc.ir.base torch"),
    "emitted values": (
        "from bertc.cli.emit import emit; emit('electra-small', (), 'weights')",
        "torch numpy",
    ),
    "folders and files": (  # functions of the package keep their names whatever is loaded
        "import bertc, sys; assert not any(name.startswith('bertc.') for name in sys.modules);"
        "import bertc.run.records.folder, bertc.cost;"
        "assert bertc.train.__name__ == 'train' and callable(bertc.estimate);"
        "import bertc.lab.results.diff, bertc.check, bertc.hub.config, bertc.hub.program;"
        "import bertc.lab.results.compare, bertc.lab.results.listing;"
        "import bertc.tasks.layouts, bertc.tasks.examples.task_sets",
        "torch",
    ),
    "training": (
        "import bertc.use.predict, bertc.run.train.loop, bertc.model",
        f"torch._dynamo transformers datasets {EXTRAS}",
    ),
}
"""What a part of the package runs, and the modules that this never loads."""


@pytest.mark.parametrize(("code", "modules"), NEVER_LOADED.values(), ids=NEVER_LOADED)
def test_a_part_never_loads_what_it_does_not_need(code: str, modules: str) -> None:
    code += f"; import sys; bad = {{*{modules.split()}}} & {{*sys.modules}}; assert not bad, bad"
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


def test_the_map_names_the_passes_in_their_order_and_pages_files_that_are_there() -> None:
    docs = PACKAGE.parent / "docs"
    text = (docs / "architecture.md").read_text()
    assert ", ".join(each.__name__ for each in PASSES) in text
    text += (docs / "new-kinds.md").read_text() + (docs / "ideas.md").read_text()
    named = set(re.findall(r"`([\w/]+\.py)`", text))
    assert len(named) >= 12
    roots = (PACKAGE, PACKAGE.parent)
    assert [name for name in named if not any((root / name).is_file() for root in roots)] == []


def test_no_file_is_named_for_nothing() -> None:
    assert not {path.stem for path in FILES} & {"utils", "util", "common", "helpers", "misc"}


LISTING = ("hub/families/", "ir/program/settings.py", "lab/reproduce/table.py")
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
    tensors = f"learn/objectives/text/{Path(inspect.getfile(kind)).name}"
    known = {tensors, "ir/learning/objective.py", "learn/objectives/terms.py"}
    assert not {file for file in files_naming(kind) - known if not file.startswith("ir/terms/")}


ATTENTION = get_args(get_args(Attention)[0])


@pytest.mark.parametrize("kind", ATTENTION[: ATTENTION.index(OwnAttention)])
def test_an_attention_is_named_in_its_own_files_alone(kind: type[Node]) -> None:
    """Those are its node in the union, its module, and the match."""
    room = "model/attention"
    module = f"{room}/{kind.model_fields['kind'].default}.py"
    assert files_naming(kind) <= {"ir/network/attention.py", f"{room}/kinds.py", module}


OF_METHODS = ("ir/methods/", "run/methods/", "ir/program/stage.py")
"""Files that name methods: their own, and the union with the match over it."""
OF_ADAPTERS = ("model/encoder.py", "model/weights.py", "hub/leaving/adapte")
"""An adapter is a part of its network as well."""


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_a_method_is_named_in_its_own_files_alone(method: type[Method]) -> None:
    """The loop, checkpoints, resuming, costs and checks walk the methods of a stage."""
    name = f"{method.__module__}.{method.__name__}"
    files = {path.relative_to(PACKAGE).as_posix() for path in FILES if name in imported(path)}
    assert {file for file in files if not file.startswith((*OF_METHODS, *OF_ADAPTERS))} == set()


MOST_ANSWERS = 18
"""Methods, properties and class variables of a base; fields are what programs store."""


@pytest.mark.parametrize("node", [TermNode, AttentionNode, Stage, BodyNode, Encoder, Method])
def test_a_base_answers_few_questions(node: type[Node]) -> None:
    """What one kind alone answers is a value of its own, as ``masks`` or ``distances``."""
    (tree,) = (
        n
        for n in nodes(Path(inspect.getfile(node)))
        if isinstance(n, ast.ClassDef) and n.name == node.__name__
    )
    names = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    names += [
        n.target.id
        for n in tree.body
        if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    ]
    assert len({*names} - node.model_fields.keys()) <= MOST_ANSWERS


OF_STORAGE = {"read_text", "read_bytes", "expanduser", "is_file", "is_dir", "exists"}
OWN_FILES = (
    "lang/read/grammar.py", "base/cores.py",
    "base/diagnostics/diagnostic.py", "cost/machines/device.py", "machine/machine.py",
    "machine/memory.py", "text/sources/opening.py", "text/cache/store.py", "lang/files.py",
    "model/native/library.py",
)  # fmt: skip
"""Files of the package, of the system, and those whose kind and size were looked at before."""


def test_files_of_others_are_looked_at_and_read_through_storage() -> None:
    """The methods of paths raise at names that no file has, and read devices without end."""
    for path in FILES:
        # In a lab nothing is lost if a file cannot be read.
        room = path.relative_to(PACKAGE)
        if path.parent.name == "storage" or room.parts[0] == "lab" or str(room) in OWN_FILES:
            continue
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                used = f"{path}:{node.lineno} calls {node.func.attr}"
                assert node.func.attr not in OF_STORAGE, used


def test_the_lab_is_built_on_public_names() -> None:
    import bertc
    from bertc import lab_api

    assert set(bertc.__all__) == set(bertc.PUBLIC)
    assert set(lab_api.__all__) == set(lab_api.PUBLIC)
    beyond = set[str]()
    for path in (PACKAGE / "lab").rglob("*.py"):
        for node in nodes(path):
            match node:
                case ast.ImportFrom(module=str(module)) if module.startswith("bertc.lab."):
                    continue
                case ast.ImportFrom(module="bertc.lab_api", names=names):
                    beyond |= {n.name for n in names if n.name not in lab_api.__all__}
                case ast.ImportFrom(module="bertc", names=names):
                    beyond |= {n.name for n in names if n.name not in bertc.__all__}
                case ast.ImportFrom(module=str(module), names=names) if module.startswith("bertc"):
                    beyond |= {f"{module}.{alias.name}" for alias in names}
                case ast.Import(names=names):
                    beyond |= {n.name for n in names if n.name.startswith("bertc.")}
                case ast.Attribute(value=ast.Name(id="bertc"), attr=name):
                    beyond |= {name} - {*bertc.__all__}
    beyond -= {"lab", "lab_api", "__version__"}
    assert beyond == set()
