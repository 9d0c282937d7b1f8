"""Near names: what somebody may have meant."""

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name most like a mistaken one, or empty if none is near."""
    from difflib import get_close_matches

    spelled: dict[str, str] = {}
    for candidate in known:
        spelled.setdefault(_plain(candidate), candidate)
    wanted = _plain(name[:64])
    if wanted in spelled:
        return spelled[wanted]
    ends = [each for each in spelled if len(each) > 2 and wanted.endswith(each)]
    if ends:  # bytebpe, num_layers
        return spelled[max(ends, key=len)]
    found = get_close_matches(wanted, spelled, n=1, cutoff=0.6)
    return spelled[found[0]] if found else ""


def listed(names: Iterable[str], limit: int = 100) -> str:
    """Names for a note, separated by commas; beyond ``limit`` characters the rest is counted."""
    kept: list[str] = []
    every = list(names)
    for name in every:
        if kept and len(", ".join([*kept, name])) > limit:
            return ", ".join(kept) + f" and {len(every) - len(kept)} more"
        kept.append(name)
    return ", ".join(kept)


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")
