"""Attention heads by where their attention goes, over texts.

Axes: n heads, q queries, k keys.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import torch
from rich.console import Console
from rich.table import Table

from bertc import AttentionMaps, load

TINY = 1e-30
WIDE = 120
NOTE = "entropy in nats, distance in tokens; the rest are shares of attention"


@dataclass(frozen=True)
class Head:
    """Means of a head over the tokens of texts: entropy, distance, and shares of its attention.

    ``special`` is on special tokens, ``itself``, ``next`` and ``previous`` by place.
    """

    entropy: float
    distance: float
    special: float
    itself: float
    next: float
    previous: float


@dataclass(frozen=True)
class AttentionReport:
    """The heads of a run by name, layer and number from 0 (``3.5``), over ``texts`` texts."""

    run: Path
    texts: int
    heads: dict[str, Head]

    def as_json(self) -> str:
        """The report as one JSON object."""
        return json.dumps({"schema": 1, **asdict(self), "run": str(self.run)}, indent=1)

    def as_table(self) -> str:
        """A row a head."""
        table = Table(title=f"{self.run}: attention of each head", title_justify="left")
        for name in ("head", *Head.__annotations__):
            table.add_column(name, justify="right")
        for name, head in self.heads.items():
            entropy, distance, *shares = vars(head).values()
            percents = (f"{share:.0%}" for share in shares)
            table.add_row(name, f"{entropy:.2f}", f"{distance:.1f}", *percents)
        console = Console(width=WIDE, highlight=False, no_color=True)
        with console.capture() as captured:
            console.print(table)
        return f"{captured.get().rstrip()}\n{NOTE}"


def attention_of_heads(run: Path, texts: Sequence[tuple[str, str]]) -> AttentionReport:
    """Read texts, or pairs (the second of them may be ""), and say what each head looks at."""
    model, sums = load(run), dict[str, list[tuple[float, ...]]]()
    for text, pair in texts:
        for name, figures in head_figures(model.attention(text, pair)):
            sums.setdefault(name, []).extend(figures)
    heads = {name: Head(*map(fmean, zip(*rows, strict=True))) for name, rows in sums.items()}
    return AttentionReport(run, len(texts), heads)


def head_figures(attention: AttentionMaps) -> Iterator[tuple[str, list[tuple[float, ...]]]]:
    """The figures of ``Head`` of each head for each token of a text."""
    places = torch.arange(len(attention.tokens))
    apart_qk, special_k = places[None, :] - places[:, None], torch.tensor(attention.special)
    for layer, map_nqk in enumerate(attention.maps):
        columns = (
            -map_nqk * map_nqk.clamp(min=TINY).log(),
            map_nqk * apart_qk.abs(),
            map_nqk * special_k,
            *(map_nqk * (apart_qk == apart) for apart in (0, 1, -1)),
        )
        figures_nqf = torch.stack([column.sum(-1) for column in columns], -1).tolist()
        yield from ((f"{layer}.{n}", [*map(tuple, rows)]) for n, rows in enumerate(figures_nqf))
