"""What a folder holds, told by the names in it; loads nothing heavy."""

from pathlib import Path

from bertc.diagnostics import MissingInputError

RESOLVED = "resolved.json"


def refuse_several(folder: Path) -> None:
    """A grid's folder holds its points.

    Raises:
        MissingInputError: it is one; names some of them.
    """
    runs = sorted(path.parent for path in folder.glob(f"*/{RESOLVED}"))
    if runs and not (folder / "config.json").is_file():
        raise MissingInputError(
            f"{folder} is a folder of {len(runs)} runs",
            help=f"name one: {', '.join(map(str, runs[:3]))}",
        )
