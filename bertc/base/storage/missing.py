"""Reasons why the file or folder of a name cannot be used, each with its remedy."""

from bertc.base.storage.paths import check_path, is_file, is_folder, user_path
from bertc.base.storage.plain_file import kind_there


def no_folder(name: str) -> tuple[str, str] | None:
    """A name that is no folder, and the remedy; None of a folder."""
    return None if is_folder(user_path(name)) else (f"there is no folder {name}", check_path(name))


def no_file(name: str) -> tuple[str, str] | None:
    """A name that is no file, and the remedy; None of a file."""
    if is_file(user_path(name)):
        return None
    return _no_plain_file(name) or (f"there is no file {name}", check_path(name))


def no_match(name: str) -> tuple[str, str]:
    """The reason why a name matches no file, and the remedy."""
    if is_folder(user_path(name)):
        return f"{name} is a folder", f'files("{name.rstrip("/")}/**/*.txt")'
    return _no_plain_file(name) or (f"no file matches {name}", check_path(name))


def _no_plain_file(name: str) -> tuple[str, str] | None:
    """The kind of what has this name and is no plain file, and the remedy; None of others."""
    kind = kind_there(user_path(name))
    return (f"{name} cannot be read: {kind}", "a plain file with its content") if kind else None
