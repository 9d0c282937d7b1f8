"""The shipped specs as a gallery: what each is, its paper and its size.

Sentence and paper are those of the comment that a spec begins with: they stand nowhere else. A spec
that names no paper follows that of the spec it extends. Loads no torch.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile

from bertc.lab_api import Table, model_weights, points, shipped_specs, spec_text

_PAPER = re.compile(r"[A-Z][\w-]+ (?:et al\.|(?:&|and) [A-Z][\w-]+) (?:19|20)\d\d\b")
_SOURCES = re.compile(r" \([^()]*\)")
_SENTENCE_END = re.compile(r"[.;](?: |$)")
_EXTENDS = re.compile(r"^extends ([\w-]+)", re.MULTILINE)


@dataclass(frozen=True)
class Shipped:
    """A shipped spec; ``parameters`` are the fewest and the most of its grid, heads included."""

    name: str
    sentence: str
    paper: str
    parameters: tuple[int, int]

    @property
    def size(self) -> str:
        """Its parameters in millions: ``11.8M``, of a grid ``11.8M to 89.8M``."""
        return " to ".join(f"{count / 1e6:.1f}M" for count in sorted({*self.parameters}))


def gallery() -> list[Shipped]:
    """Every shipped spec, by name; each is resolved to count its parameters."""
    specs = []
    for name in shipped_specs():
        counts = [sum(weight.numel for weight in model_weights(point)) for point in points(name)]
        text = spec_text(name)
        size = min(counts), max(counts)
        specs.append(Shipped(name, sentence_of(text), paper_of(text), size))
    return specs


def gallery_table(specs: Sequence[Shipped]) -> str:
    """Name, parameters, paper and sentence, a line a spec."""
    return str(Table([""] * 4, [(s.name, s.size, s.paper, s.sentence) for s in specs]))


def gallery_json(specs: Sequence[Shipped]) -> str:
    """The shipped specs as JSON."""
    return json.dumps({"schema": 1, "specs": [asdict(spec) for spec in specs]}, indent=2)


def sentence_of(text: str) -> str:
    """The first sentence of a spec's first comment, without what stands in brackets."""
    return _SENTENCE_END.split(_SOURCES.sub("", _first_comment(text)))[0]


def paper_of(text: str) -> str:
    """The first paper that the first comment names, else that of the base; "" for none."""
    if match := _PAPER.search(_first_comment(text)):
        return match[0]
    base = _EXTENDS.search(text)
    return paper_of(spec_text(base[1])) if base else ""


def _first_comment(text: str) -> str:
    comment = takewhile(lambda line: line.startswith("#"), text.splitlines())
    return " ".join(line.strip("# ") for line in comment)
