"""Files that the runs of a table read, as ``--data`` names them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertc.diagnostics import MissingInputError, UsageError, listed
from bertc.storage.paths import check_path, files_matching, is_folder, is_taken
from bertc.tables.table import Need, Table


@dataclass(frozen=True)
class Files:
    """Places of the files that a table needs: ``--data FOLDER`` and ``--data NAME=PATH``.

    A place may be a pattern, ``corpus/**/*.txt``, where specs take one.
    """

    folder: Path | None
    named: Mapping[str, Path]

    def of(self, name: str, need: Need) -> Path:
        """The path of a need, whether there is anything or not."""
        return self.named.get(name) or (self.folder or Path("data")) / need.path

    def there(self, name: str, need: Need) -> bool:
        """True if it is there, or files match it as a pattern."""
        return _is_there(self.of(name, need))


def data_files(table: Table, data: Sequence[str]) -> Files:
    """The files that ``--data`` arguments name.

    Raises:
        UsageError: if one names what the table does not need, or two folders are given.
        MissingInputError: if a path does not exist.
    """
    folder, named = None, dict[str, Path]()
    for text in data:
        name, sign, path = text.partition("=")
        if not sign:
            if folder:
                raise UsageError(f"two folders of data: {folder}, {text}", help="NAME=PATH for one")
            folder = Path(text)
        elif name not in table.needs:
            known = listed(table.needs) or "nothing"
            raise UsageError(f"{table.name} needs no {name[:60]}", help=f"it needs {known}")
        else:
            named[name] = Path(path)
    for each in (folder, *named.values()):
        if each and not _is_there(each):
            raise MissingInputError(f"there is no {each}", help=check_path(each))
    if folder and not is_folder(folder):
        raise UsageError(f"{folder} is a file", help="--data NAME=PATH of it, or its folder")
    return Files(folder, named)


def _is_there(path: Path) -> bool:
    return is_taken(path) or any(files_matching(path))
