"""The words of the package, as far as a test can hold them."""

import ast
import re
from collections import defaultdict

import pytest

from tests.test_architecture import PACKAGE, nodes

ALL_ROOMS = sorted(
    "/".join(path.parent.relative_to(PACKAGE).parts) for path in PACKAGE.rglob("__init__.py")
)
"""Folders of the package; "." is the package itself."""
ROOMS = (
    "base/diagnostics", "base/storage", "check", "cli", "cost/planning", "ir/weight_maps",
    "lab/bench", "lang", "learn/optim", "learn/step", "machine", "model/native", "run", "tasks",
    "text", "use",
)  # fmt: skip
"""Rooms whose names were gone through."""
GONE_THROUGH = {room.split("/")[0] for room in ROOMS} - {"ir", "lab", "model", "learn", "cost"}

CLAUSES = re.compile(
    r"(What|Where|Which|Whether|Those|As|Of|That|Who|Whose|How|When|Why|If|It|So|Than"
    r"|To what|In which|With what|The same as|All that|Everything that)\b"
)
"""Beginnings of first lines whose main clause comes late, or not at all."""

PRIVATE = re.compile(r"\b(told|tells|judged|unseen|whoever|nobody|so many|one a)\b")
"""Words that docstrings used in a sense of their own: predicted, scored, query stream, per."""

UNSPEAKING = {"found", "own", "told", "asked", "many", "one", "other", "apart", "made", "put"}
"""Names that say nothing of the thing: bound in no function of these rooms."""

IN_TWO_ROOMS = {
    "ALONE", "Block", "Call", "Candidate", "Count", "ENGLISH", "Ends", "IGNORED", "Ints",
    "LEGEND", "LONGEST_ROW", "MASK", "Name", "Plain", "Predicted", "Progress", "ROWS_AT_ONCE",
    "STEPS", "Score", "Shape", "Source", "Span", "Step", "TABLE", "TITLES",
    "TOKENS_AT_ONCE", "TRIES", "Table", "Text", "Tokens", "VERSION", "Vocabulary", "Within",
    "choose", "finish", "load", "read_text", "rows_of", "survey",
}  # fmt: skip
"""Public names that one of these rooms still shares with another room."""


def files(room):
    """The files of a folder; "." is the package's own files."""
    yield from sorted((PACKAGE / room).glob("*.py"))


def first_lines(path):
    """Line number and first line of every docstring, those of constants and fields included."""
    for node in nodes(path):
        body = getattr(node, "body", None)
        for place, child in enumerate(body if isinstance(body, list) else []):
            if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
                continue
            text = child.value.value
            named = place and isinstance(body[place - 1], ast.Assign | ast.AnnAssign)
            if isinstance(text, str) and (not place or named):
                yield child.lineno, " ".join(text.strip().split("\n\n")[0].split())


def public_names(path):
    """Classes, functions and constants of a module."""
    names = set()
    for node in nodes(path)[0].body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("room", ALL_ROOMS)
def test_first_lines_begin_with_the_main_clause_in_common_words_and_are_short(room):
    wrong = [
        f"{path}:{number}: {line}"
        for path in files(room)
        for number, line in first_lines(path)
        if CLAUSES.match(line)
        or PRIVATE.search(re.sub(r"``.*?``", "", line))
        or len(line.split()) > 20
    ]
    assert wrong == []


@pytest.mark.parametrize("room", ROOMS)
def test_names_say_what_the_thing_is(room):
    for path in files(room):
        functions = [node for node in nodes(path) if isinstance(node, ast.FunctionDef)]
        for node in (inner for function in functions for inner in ast.walk(function)):
            stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            bound = node.id if stored else ""
            bound = node.arg if isinstance(node, ast.arg) else bound
            assert bound not in UNSPEAKING, f"{path}: `{bound}` does not say what it holds"


def test_a_public_name_is_defined_in_one_room():
    top = {"api", "lab", "cli", *(path.name for path in PACKAGE.glob("*.py"))}
    rooms: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0]
        if room not in top:  # functions at the top have the names of what they call
            for name in public_names(path):
                rooms[name].add(room)
    assert {name for name, of in rooms.items() if len(of) > 1 and of & GONE_THROUGH} == IN_TWO_ROOMS
