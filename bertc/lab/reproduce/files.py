"""Files that the runs of a table read, as ``--data`` names them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from glob import iglob
from os.path import lexists
from pathlib import Path
from string import Template

from bertc import MissingInputError, UsageError
from bertc.lab.reproduce.table import Need, Table
from bertc.lab_api import quote


@dataclass(frozen=True)
class Files:
    """The files of a table's needs: the text for each ``$name``, and a line if it is missing.

    ``lacking`` are those without which runs that name them cannot be trained.
    """

    texts: Mapping[str, str]
    missing: Mapping[str, str]
    lacking: frozenset[str]


def data_files(table: Table, data: Sequence[str] = ()) -> Files:
    """The files that ``--data FOLDER`` and ``--data NAME=PATH`` name.

    A path may be a pattern, ``corpus/**/*.txt``, where specs take one.
    """
    folder, named = Path("data"), dict[str, Path]()
    for argument in data:
        name, sign, path = argument.partition("=") if "=" in argument else ("", "", argument)
        if sign and name not in table.needs:
            known = ", ".join(table.needs) or "nothing"
            raise UsageError(f"{table.name} needs no {name[:60]}", help=f"it needs {known}")
        if not _is_there(Path(path)):
            raise MissingInputError(f"there is no {path}", help="check the path")
        if sign:
            named[name] = Path(path)
        elif Path(path).is_dir():
            folder = Path(path)
        else:
            raise UsageError(f"{path} is a file", help="--data NAME=PATH of it, or its folder")
    paths = {name: named.get(name, folder / need.path) for name, need in table.needs.items()}
    absent = {name: need for name, need in table.needs.items() if not _is_there(paths[name])}
    return Files(
        {n: _text(need, paths[n], n not in absent) for n, need in table.needs.items()},
        {name: _line(need, paths[name]) for name, need in absent.items()},
        frozenset(name for name, need in absent.items() if not need.otherwise),
    )


def _text(need: Need, path: Path, there: bool) -> str:
    stand_in = "" if there else need.otherwise or need.sketch
    return stand_in or Template(need.given).safe_substitute(path=quote(str(path)))


def _line(need: Need, path: Path) -> str:
    instead = f"{need.otherwise} in its place" if need.otherwise else ""
    return f"{path} is not there: {instead or f'{need.form}, from {need.source}'}"


def _is_there(path: Path) -> bool:
    return lexists(path) or any(iglob(str(path), recursive=True))
