"""Specs made at random: each gets an answer, in two seconds of CPU and 500 MB.

    nice python -m tests.campaigns.specs [--fuzzed 10000] [--extreme 1000] [--seed 0] [--first 0]

A fuzzed spec is a shipped one, or one of a page or a test, with tokens replaced and settings of
any kind added, with values at their limits or wrong. An extreme one has the largest numbers, long
lists, sums and grids, hundreds of stages or brackets. ``bertc check`` and ``bertc fmt`` are timed,
and a sound program is estimated, in a process forked for a few hundred. ``--first N`` goes on from
spec N. Prints what raises anything but a BertcError, or takes more; exits 1 if there is any.
"""

import json
import os
import random
import re
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import bertc
from bertc import lab_api
from bertc.base.diagnostics import BertcError, codes, render
from bertc.base.storage.paths import shipped_specs
from bertc.ir.fixes import call_text
from bertc.ir.program.settings import STAGE_SETTINGS, Settings
from bertc.lang.read import shapes
from tests.campaigns.options import read_options
from tests.lang.test_golden import CASES

MOST_SECONDS, MOST_MB, BATCH, HANGS, MOST_LAYERS = 2.0, 500, 250, 60, 200
LARGEST = 3 << 19
TOKEN = re.compile(r"\s+|[\w.%-]+|\"[^\"]*\"|.", re.DOTALL)
NUMBERS = """0 -1 7 255 4096 10k 65536 1M 2G 1T 1e15 1e18 9223372036854775807 1e19 1e38 1e100 1e308
1e-308 1e-9 0.5 0.999999999 1e999 4e-416777216 15% 101% 5ms 16Mi 1Gi 24h 1e-9h 5min 1G_tokens
3_epochs 1e18_tokens 1e9_epochs 100M_words 1e18_words 1e18_flops 1e300_flops""".replace("_", " ")
NUMBERS = re.findall(r"\S+(?: [a-z]{5,})?", NUMBERS)
SIGNS = [*"=()[]{},+*/:#\n\"'\\", ".."]
STRANGE = ["é", "\u202e", "\0", "\x1b[31m", "\ud800", "\ufeff", "ａ", "٣", "\U0001f600", "½"]
FILES = [f'"{name}"' for name in ("no.md", ".", "*", "../x", "", "x" * 300)]
FILES += ['"text.md"', '"rows.tsv"'] * 4
Draw = random.Random


def number(bounds: shapes.Limits, draw: Draw, extreme: bool) -> str:
    """A number at or next to a limit, of any size, or small."""
    limits = [int(limit) for limit in bounds if limit is not None and limit == int(limit)]
    if limits and draw.random() < 0.6:
        limit = max(limits) if extreme else draw.choice(limits)
        return str(limit + (-1 if limit else 1) * draw.choice((0, 0, 0, 1, 1, -1)))
    return draw.choice(NUMBERS if draw.random() < 0.2 else ["1", "2", "4", "8", "12", "64", "0.5"])


def value(shape: shapes.Shape, draw: Draw, extreme: bool, depth: int = 0) -> str:
    """A text for a shape, now and then for another."""
    if draw.random() < 0.01 or depth > 6:
        return draw.choice([*NUMBERS, *FILES, "none", "true", "[]", "[[1]]", "{1, 2}", "1/2"])
    most = (1, 2, 30, 300, 3000) if extreme and depth < 2 else (1, 1, 2, 3)

    def several(inner: shapes.Shape, count: int | None = None) -> list[str]:
        return [value(inner, draw, extreme, depth + 1) for _ in range(count or draw.choice(most))]

    forms = ("whole", "number", "text", "words", "kinds", "item")
    match draw.choice([form for form in forms if getattr(shape, form)]):
        case "whole" | "number" as form:
            return number(getattr(shape, form), draw, extreme)
        case "text":
            return draw.choice(FILES)
        case "words":
            return draw.choice([*shape.words])
        case "kinds":
            kind, node = draw.choice(sorted(shape.kinds.items()))
            known, needed = shapes.arguments(node), shapes.required(node)
            names = [n for n in known if n in needed or draw.random() < 0.25]
            return call_text(kind, *(f"{n}={several(known[n], 1)[0]}" for n in names))
    texts = several(shape.item, shape.length)
    if shape.term:
        return " + ".join(draw.choice(["", "2*"]) + term for term in texts)
    return f"[{', '.join(texts)}]"


EVERY = tuple(Settings.model_fields)


def setting(draw: Draw, extreme: bool, names: tuple[str, ...] = EVERY) -> str:
    """A setting with a value, or with alternatives."""
    name, count = draw.choice(names), draw.choice((1,) * 9 + (2,))
    texts = [value(shapes.setting_shape(name), draw, extreme) for _ in range(count)]
    if extreme and draw.random() < 0.1:
        texts = [str(n) for n in range(1, draw.choice((30, 300, 1000, 1001, 3000)))]
    return f"{name}={texts[0] if len(texts) == 1 else '{' + ', '.join(texts) + '}'}"


@cache
def sound() -> list[str]:
    """Texts of specs that are shipped, of pages and of goldens."""
    texts = [path.read_text(encoding="utf-8") for path in shipped_specs().values()]
    texts += [text for page in codes().values() for text in (page.bad, page.good)]
    return [*texts, *(case.spec for case in CASES)]


def base_of(draw: Draw) -> str:
    """What a spec extends, or nothing."""
    return draw.choice(("", f"extends {draw.choice(sorted(shipped_specs()))}"))


def fuzzed(draw: Draw) -> str:
    """A spec with settings more, and tokens replaced, doubled, cut or moved."""
    more = [setting(draw, False) for _ in range(draw.choice((0, 1, 2, 4)))]
    tokens = TOKEN.findall("\n".join((draw.choice((draw.choice(sound()), base_of(draw))), *more)))
    words = [*TOKEN.findall(draw.choice(sound())), " "]
    for _ in range(draw.choice((0, 0, 0, 1, 2, 5))):
        first, again = (draw.randrange(len(tokens) + 1) for _ in range(2))
        pieces = [draw.choice(these) for these in (words, NUMBERS, SIGNS, STRANGE)]
        piece = draw.choice(([], tokens[again : again + 6], *([one] for one in pieces)))
        tokens[first : first + draw.randint(0, 2)] = piece
    return "".join(tokens)


def extreme(draw: Draw) -> str:
    """A spec of numbers at limits, with a large grid, many stages or brackets now and then."""
    text = " ".join((base_of(draw), *(setting(draw, True) for _ in range(draw.choice((1, 2, 4))))))
    match draw.randrange(6):
        case 0:
            inside = " ".join(setting(draw, True, STAGE_SETTINGS) for _ in range(2))
            for n in range(draw.choice((2, 99, 100, 101, 2000))):
                text += f' stage "s{n}" {{ steps={n + 1} {inside} }}'
        case 1:
            deep, opened = draw.choice((60, 65, 5000)), draw.choice(("(", "[", "{", "f(", "{1, "))
            text += f" {draw.choice(('share', 'objective', 'heads'))}={opened * deep}1{')' * deep}"
        case 2:
            for name in draw.sample(("seed", "layers", "seq", "hidden", "batch", "steps"), 3):
                text += f" {name}={{{', '.join(map(str, range(8, 8 + draw.choice((3, 10, 33)))))}}}"
    return text


def checked(spec: str) -> bool:
    """Whether ``bertc check`` finds no mistake in a spec, which is formatted as well."""
    found = None
    with suppress(BertcError):
        found = lab_api.findings(spec)
        render(found.found)
    with suppress(BertcError):
        lab_api.formatted(spec)
    return found is not None and not found.found


def tried(make: Callable[[int], str], numbers: range) -> None:
    """Print a line of JSON for each spec before and after it is tried."""
    for n in numbers:
        print(json.dumps([n]), flush=True)
        spec = make(n)
        Path("/proc/self/clear_refs").write_text("5")  # the peak is that of this spec
        begun, seconds, said = time.process_time(), 0.0, ""
        try:
            said = "fine" if checked(spec) else "refused"
            seconds = time.process_time() - begun
            with suppress(BertcError):  # of a grid, for one
                resolved = bertc.resolve(spec, sparing=True) if said == "fine" else None
                if resolved and sum(stage.layers for stage in resolved.stages) <= MOST_LAYERS:
                    bertc.estimate(resolved)
        except BaseException as error:  # whatever it is
            said = f"{type(error).__name__}: {str(error)[:100]}"
        peak = re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
        print(json.dumps([n, said, seconds, int(*peak) / 1024]), flush=True)


def forked(make: Callable[[int], str], numbers: range) -> Iterator[list[Any]]:
    """Results from a process of its own; that of a spec that ends or hangs it says so."""
    end, start = os.pipe()
    if not (child := os.fork()):
        os.dup2(start, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        tried(make, numbers)
        os._exit(0)
    os.close(start)
    rest, last, result = b"", numbers.start, []
    while select.select([end], [], [], HANGS)[0] and (data := os.read(end, 1 << 16)):
        *lines, rest = (rest + data).split(b"\n")
        for last, *result in map(json.loads, lines):
            if result:
                yield [last, *result]
    os.kill(child, signal.SIGKILL)
    os.close(end)
    os.waitpid(child, 0)
    if not result:
        yield [last, "it ends or hangs the process", HANGS, 0]
    if last + 1 < numbers.stop:
        yield from forked(make, range(last + 1, numbers.stop))


def campaign(sort: Callable[[Draw], str], numbers: range, seed: int) -> int:
    """Try specs of a sort; print those that are wrong, and a line about all; the number wrong."""
    wrong, fine, begun, worst = 0, 0, time.perf_counter(), [0.0, 0.0]

    def make(number: int) -> str:
        return sort(Draw(f"{sort.__name__} {seed} {number}"))[:LARGEST]

    for at in range(0, len(numbers), BATCH):
        for n, said, seconds, peak in forked(make, numbers[at : at + BATCH]):
            worst = [max(worst[0], seconds), max(worst[1], peak)]
            fine += said == "fine"
            if said not in ("fine", "refused") or seconds > MOST_SECONDS or peak > MOST_MB:
                wrong += 1
                spec = make(n)
                shown = spec if len(spec) < 1000 else f"{spec[:700]} ... {spec[-200:]}"
                print(f"{sort.__name__} {n}: {said}, {seconds:.1f} s, {peak:.0f} MB: {shown!r}")
    rate = len(numbers) / (time.perf_counter() - begun)
    most = f"at most {worst[0]:.1f} s and {worst[1]:.0f} MB; {rate:.0f} a second"
    print(f"{len(numbers):,} {sort.__name__}: {wrong} wrong, {fine:,} fine; {most}")
    return wrong


def main() -> int:
    """Try specs of both sorts in a folder with a text and examples."""
    options = read_options(__doc__, fuzzed=10_000, extreme=1_000, seed=0, first=0)
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("text.md").write_text("A line of text.\n\nAnother one.\n" * 50)
        Path("rows.tsv").write_text("text\tlabel\n" + "a text\tyes\nanother\tno\n" * 20)
        sorts = ((fuzzed, options.fuzzed), (extreme, options.extreme))
        return int(any([campaign(s, range(options.first, n), options.seed) for s, n in sorts]))


if __name__ == "__main__":
    sys.exit(main())
