"""Short names of values of settings: what all values of a setting share is left out."""

import re
from collections.abc import Sequence
from dataclasses import replace

from bertc.runs.groups import Group

LONGEST_SHOWN = 32
CALL = re.compile(r"([\w-]+)\((.*)\)", re.DOTALL)


def with_short_settings(groups: Sequence[Group]) -> list[Group]:
    """Groups whose settings are named by their difference: ``adamw(lr=1e-4)`` without the rest."""
    columns = {
        name: _short([group.settings[name] for group in groups]) for name in groups[0].settings
    }
    return [
        replace(group, settings={name: columns[name][at] for name in columns})
        for at, group in enumerate(groups)
    ]


def _short(texts: Sequence[str]) -> list[str]:
    """The same texts, each still another than the others."""
    for made in (_without_common, _cut):
        found = made(texts)
        if len({*zip(texts, found, strict=True)}) == len({*found}):
            texts = found
    return list(texts)


def _without_common(texts: Sequence[str]) -> list[str]:
    calls = [CALL.fullmatch(text) for text in texts]
    arguments = [_arguments(call[2]) if call else [] for call in calls]
    common = {*arguments[0]}.intersection(*arguments)
    found = []
    for text, call, own in zip(texts, calls, arguments, strict=True):
        left = ", ".join(each for each in own if each not in common)
        found.append(text if call is None else f"{call[1]}({left})" if left else call[1])
    return found


def _arguments(text: str) -> list[str]:
    """The arguments of a call, split at commas that stand in no bracket."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _cut(texts: Sequence[str]) -> list[str]:
    return [
        text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…" for text in texts
    ]
