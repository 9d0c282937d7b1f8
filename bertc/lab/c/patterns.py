"""Regular expressions of tokenizers as items, which ``tokenizing/patterns.c`` matches."""

import re

from bertc import DataError

INSTEAD = "bertc export --onnx FOLDER has it; or train with vocab=wordpiece(30k), bpe or unigram"
MOST = 2**32 - 1
ATOM = (
    r"\[\^?\]?(?:\\.|\[[^\]]*\]|[^\]\\])*\]|\\[pP]\{\^?\w+\}|\\x[0-9a-fA-F]{2}|\\[sSwWdDrnt]|\\\W"
    r"|[^\\?*+{}()|^$\[]"
)
PART = re.compile(
    rf"(?P<bar>\|)|\(\?(?P<fold>i?):(?P<group>(?:{ATOM}|[?*+{{}}|])*)\)(?=\||$)"
    rf"|(?P<look>\(\?<?[=!])(?P<seen>{ATOM})\)"
    rf"|(?P<atom>{ATOM})(?P<times>(?:[?*+]|\{{\d+(?:,\d*)?\}})(?![?+]))?"
)
LOOKS = {"(?=": "AHEAD", "(?!": "NOT_AHEAD", "(?<=": "BEHIND", "(?<!": "NOT_BEHIND"}
TIMES = {"?": "{0,1}", "*": "{0,}", "+": "{1,}", None: "{1}"}
Item = tuple[str, str, int, int]
"""A kind, characters in the words of Oniguruma, how many at least, and at most."""


def refusal(what: str) -> DataError:
    """The error of a tokenizer with something that has no C source."""
    return DataError(f"the tokenizer has the {what}, which has no C source", INSTEAD)


def alternatives(pattern: str, fold: str = "") -> list[list[Item]]:
    """The alternatives of a pattern; others than those of known tokenizers are refused."""
    options, at = list[list[Item]]([[]]), 0
    while part := PART.match(pattern, at):
        at = part.end()
        if part["bar"]:
            options.append([])
        elif part["look"]:
            options[-1].append((LOOKS[part["look"]], part["seen"], 1, 1))
        elif part["atom"]:
            least, comma, most = TIMES.get(part["times"], part["times"])[1:-1].partition(",")
            atom = f"(?i:{part['atom']})" if fold and re.search(r"\w", part[0]) else part["atom"]
            items = "TAKE", atom, int(least), int(most or MOST) if comma else int(least)
            options[-1].append(items)
        elif not options.pop():  # a group is an alternative of its own
            options += alternatives(part["group"], fold or part["fold"])
    takes = [sum(least for kind, _, least, _ in items if kind == "TAKE") for items in options]
    if at < len(pattern) or not all(takes):  # an empty match would lie between characters
        raise refusal(f"pattern {pattern!r}")
    return options
