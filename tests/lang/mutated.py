"""Random and mutated specs through parse, lower, resolve and render: nothing may be raised."""

import random
from collections.abc import Iterator

from bertc import lang
from bertc.base.diagnostics import Diagnostics, MissingInputError, SpecError, codes, render
from bertc.base.resources import shipped_specs
from bertc.check import passes

NAMES = (
    "layers hidden heads ffn share objective vocab optimizer data format stage extends E H A V "
    "mlm sop nsp sbo span ngram groups map none all attention wordpiece lamb adamw files "
    "docstrings true false 12 768 15% 30k 8Ki -1 1e-4 1e999 0 80/10/10 hiden lambb"
)
SIGNS = "====()()[]{},+*/#\n\n\"'\\:;\t\x00\x1b\u202e\ufeff\u00e9\U0001f600"
WORDS = (*NAMES.split(), *SIGNS)


def seeds() -> list[str]:
    """Sound and unsound specs to start from."""
    shipped = [path.read_text(encoding="utf-8") for path in shipped_specs().values()]
    pages = [text for page in codes().values() for text in (page.bad, page.good)]
    return shipped + pages


def mutated(text: str, draw: random.Random) -> str:
    """A text with a few bytes changed, cut, doubled or swapped."""
    data = bytearray(text.encode())
    for _ in range(draw.randint(1, 6)):
        place = draw.randrange(len(data) + 1)
        end = min(len(data), place + draw.randint(1, 12))
        match draw.randrange(5):
            case 0:
                data[place:place] = bytes([draw.randrange(256)])
            case 1:
                del data[place:end]
            case 2:
                data[place:place] = data[place:end] * draw.randint(1, 4)
            case 3:
                data[place:end] = draw.choice(WORDS).encode()
            case _:
                other = draw.randrange(len(data) + 1)
                data[other:other] = data[place:end]
    return data.decode("utf-8", "replace")


def texts(count: int, seed: int) -> Iterator[str]:
    """Half mutations of specs, half random words."""
    draw, known = random.Random(seed), seeds()
    for index in range(count):
        if index % 2:
            yield mutated(draw.choice(known), draw)
        else:
            between = draw.choice([" ", " ", ""])
            yield between.join(draw.choices(WORDS, k=draw.randint(1, 60)))


def check(text: str) -> int:
    """Everything ``bertc check`` does with a text; how many mistakes it finds."""
    diagnostics = Diagnostics()
    try:
        for program in lang.load(f"# fuzz\n{text}", (), diagnostics)[:3]:
            passes.complete(program, diagnostics)
        diagnostics.raise_if_any()
    except SpecError as error:
        shown = render(error.diagnostics, color=False)
        assert not any(ord(c) < 32 and c != "\n" for c in shown), "a control character is shown"
    except MissingInputError:
        pass
    return len(diagnostics.found)
