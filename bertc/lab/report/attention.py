"""A page of the attention of every head over a text, a layer at a time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from bertc import load
from bertc.lab.report.markup import in_picture, remark
from bertc.lab.report.page import Section, document
from bertc.lab.report.pictures import Picture, menu

MAPS_IN_A_ROW, ROW_PIXELS = 4, 260
"""Maps next to each other, and the pixels of a row of them."""
HOW = "A square is a head: a row for each token that looks, a column for each that it looks at."


def attention_page(run: Path, text: str, pair: str) -> str:
    """The page of a model's attention over a text, or over a pair of texts, as HTML."""
    attention = load(run).attention(text, pair)
    how = remark(HOW + " The text is cut." * attention.is_cut)
    shown = f"{text} / {pair}" if pair else text
    body = Section("Heads", (how, _picture(attention.tokens, attention.maps)))
    return document(f"Attention of {run.resolve().name}", shown, [body])


def _picture(words: Sequence[str], maps: Sequence[Tensor]) -> Picture:
    """The maps of all heads; a menu chooses the layer."""
    tokens = [in_picture(f"{number} {word}") for number, word in enumerate(words)]
    percents = [(100 * map_nqk).round().byte().cpu().numpy() for map_nqk in maps]
    heads = [len(percent_nqk) for percent_nqk in percents]
    traces = [
        {
            "type": "heatmap", "x": tokens, "y": tokens, "z": percent_qk, "visible": layer == 0,
            "xaxis": f"x{head + 1}", "yaxis": f"y{head + 1}", "coloraxis": "coloraxis",
            "hovertemplate": "%{y} looks at %{x}: %{z}%<extra></extra>",
        }
        for layer, percent_nqk in enumerate(percents)
        for head, percent_qk in enumerate(percent_nqk)
    ]  # fmt: skip
    rows = -(-max(heads) // MAPS_IN_A_ROW)
    titles = [_titles(layer, count, rows) for layer, count in enumerate(heads)]
    of_layers = [layer for layer, count in enumerate(heads) for _ in range(count)]
    choices = {
        f"layer {layer}": ({"visible": [of == layer for of in of_layers]}, {"annotations": named})
        for layer, named in enumerate(titles)
    }
    axes = {
        f"{axis}axis{head + 1 if head else ''}": {
            "domain": _domain(head, rows)[axis], "anchor": f"{other}{head + 1}", "ticks": "",
            "showticklabels": False, "showgrid": False,
            "autorange": "reversed" if axis == "y" else True,
        }
        for head in range(max(heads)) for axis, other in ("xy", "yx")
    }  # fmt: skip
    layout = {
        **axes, "height": 60 + rows * ROW_PIXELS, "updatemenus": [menu(choices)],
        "annotations": titles[0], "coloraxis": {"colorscale": "Blues", "cmin": 0, "cmax": 100},
        "showlegend": False,
    }  # fmt: skip
    return Picture("", traces, layout)


def _domain(head: int, rows: int) -> dict[str, tuple[float, float]]:
    """The place of a head's map in the picture."""
    row, column = divmod(head, MAPS_IN_A_ROW)
    below = rows - row - 1
    return {
        "x": ((column + 0.03) / MAPS_IN_A_ROW, (column + 0.97) / MAPS_IN_A_ROW),
        "y": ((below + 0.02) / rows, (below + 0.9) / rows),
    }


def _titles(layer: int, heads: int, rows: int) -> list[dict[str, Any]]:
    """The names of a layer's heads above their maps."""
    return [
        {
            "text": f"{layer}.{head}", "showarrow": False,
            "xref": "paper", "x": _domain(head, rows)["x"][0], "xanchor": "left",
            "yref": "paper", "y": _domain(head, rows)["y"][1], "yanchor": "bottom",
        }
        for head in range(heads)
    ]  # fmt: skip
