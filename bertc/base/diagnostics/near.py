"""Words of messages: the known name nearest to a mistyped one, lists, numbers of things."""

from collections.abc import Iterable

MOST_LAST = 2
"""Names after the limit of a list that are shown all the same."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name most like a mistyped one; empty if none is near."""
    from difflib import get_close_matches

    spelled: dict[str, str] = {}
    for candidate in known:
        spelled.setdefault(_plain(candidate), candidate)
    wanted = _plain(name[:64])
    if wanted in spelled:
        return spelled[wanted]
    suffixes = [word for word in spelled if len(word) > 2 and wanted.endswith(word)]
    if suffixes:  # bytebpe, num_layers
        return spelled[max(suffixes, key=len)]
    matches = get_close_matches(wanted, spelled, n=1, cutoff=0.6)
    return spelled[matches[0]] if matches else ""


def listed(names: Iterable[str], limit: int = 100) -> str:
    """Names joined by commas, each once; beyond ``limit`` characters those left are counted."""
    shown: list[str] = []
    all_names = list(dict.fromkeys(names))
    for at, name in enumerate(all_names):
        rest = all_names[at:]
        short = len(rest) <= MOST_LAST and len(", ".join(rest)) <= limit
        if shown and not short and len(", ".join([*shown, name])) > limit:
            return ", ".join(shown) + f" and {len(rest)} more"
        shown.append(name)
    return ", ".join(shown)


def several(count: int, noun: str) -> str:
    """A number of things: 1 example, 4,096 examples."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")
