"""Statements as a function of C: layers that differ in weights alone as one loop, and memory."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise, repeat, takewhile
from textwrap import wrap

from bertc.lab.c.expressions import c_text
from bertc.lab.c.writing import Statement, Tag

TAG = re.compile(r"\$[bwr]\d+\$")
NUMBER = re.compile(r"\.\d+\b")
TAKEN = ("scratch", "weights", "memory", "wanted", "n", "w")
"""Names that the function has already."""


@dataclass
class Loop:
    """Statements that are repeated, and the tags at the places of them: one for every time."""

    begin: int
    period: int
    times: int
    lines: list[list[tuple[str, ...]]] = field(default_factory=list)
    carried: dict[str, str] = field(default_factory=dict)
    """Buffers that the first time reads, and those that the next ones read for them."""

    @property
    def columns(self) -> list[tuple[str, ...]]:
        """All places."""
        return [*dict.fromkeys(column for line in self.lines for column in line)]

    @property
    def end(self) -> int:
        """The statement after it."""
        return self.begin + self.period * self.times


def find_loop(statements: Sequence[Statement], tags: dict[str, Tag]) -> Loop:
    """The longest repetition of statements; without any it is empty."""
    shapes = [TAG.sub("$", s.text) for s in statements]
    best = Loop(len(statements), 0, 0)
    for period in range(1, len(shapes) // 2 + 1):
        for begin in range(len(shapes) - 2 * period + 1):
            alike = zip(shapes[begin:], shapes[begin + period :], strict=False)
            same = sum(1 for _ in takewhile(lambda two: two[0] == two[1], alike))
            loop = Loop(begin, period, same // period + 1)
            covers, most = loop.times * period, best.times * best.period
            # Of equal ones the last: norms after a layer belong to it.
            better = covers > most or (covers == most and period == best.period)
            if loop.times > 1 and better and _fits(loop, statements, tags):
                best = loop
    return best


def _fits(loop: Loop, statements: Sequence[Statement], tags: dict[str, Tag]) -> bool:
    """True if every time reads what the one before wrote, and nothing else of it is read."""
    rounds = [statements[loop.begin + loop.period * k :][: loop.period] for k in range(loop.times)]
    written = [{s.writes: place for place, s in enumerate(r) if s.writes} for r in rounds]
    after = {tag for s in statements[loop.end :] for tag in TAG.findall(s.text)}
    loop.lines = [
        [*zip(*(TAG.findall(s.text) for s in line), strict=True)]
        for line in zip(*rounds, strict=True)
    ]
    for first, *rest in loop.columns:
        steps = (_number(b) - _number(a) for a, b in pairwise((first, *rest)))
        if first[1] == "r" and len({*steps}) > 1:
            return False
        if first[1] != "b" or {first} == {*rest}:
            continue
        here = {w.get(tag) for w, tag in zip(written, (first, *rest), strict=True)}
        before = [w.get(tag, -1) for w, tag in zip(written, rest, strict=False)]
        if None not in here:
            if len(here) > 1 or after & {first, *rest[:-1]}:
                return False
            continue
        read = first in after or first in written[0] or first in loop.carried
        if read or before[0] < 0 or len({*before}) > 1 or tags[first].size != tags[rest[0]].size:
            return False
        loop.carried[first] = {place: tag for tag, place in written[0].items()}[before[0]]
    fixed = {column[0] for column in loop.columns if len({*column}) == 1}
    return not fixed & {*loop.carried} and len({*loop.carried.values()}) == len(loop.carried)


def _number(tag: str) -> int:
    return int(tag[2:-1])


def _wrapped(text: str) -> list[str]:
    pieces = wrap(text.replace(" + ", "~"), 96, initial_indent=" " * 8, subsequent_indent=" " * 12)
    return [piece.replace("~", " + ") for piece in pieces]


class Function:
    """The function of a network and its memory; ``names`` of tags are unique."""

    def __init__(
        self, early: Sequence[Statement], late: Sequence[Statement], tags: dict[str, Tag]
    ) -> None:
        loop = self.loop = find_loop(late, tags)
        self.tags, self.begin = tags, len(early) + loop.begin
        self.statements = [*early, *late[: loop.begin + loop.period], *late[loop.end :]]
        self.end, self.names = self.begin + loop.period, dict[str, str]()
        carried = dict.fromkeys(loop.carried, "states")
        for tag, about in tags.items():
            name = clean = carried.get(tag) or re.sub(r"\W+", "_", about.name)
            number = 1
            while name in {*TAKEN, *self.names.values()}:
                name = f"{clean}_{(number := number + 1)}"
            self.names[tag] = name
        # What the last time wrote is where the next one would read it.
        back = {role: first for first, role in loop.carried.items()}
        moved = (c for c in loop.columns if c[0][1] == "b" and len({*c}) > 1)
        self.after = {column[-1]: back.get(column[0], column[0]) for column in moved}
        self.slots = [*self._slots()]

    def _used(self) -> dict[str, tuple[int, int]]:
        """The first and last statement of every buffer."""
        used = dict[str, tuple[int, int]]()
        around = {*self.loop.carried, *self.loop.carried.values()}
        for number, statement in enumerate(self.statements):
            for tag in TAG.findall(statement.text):
                tag = self.after.get(tag, tag) if number >= self.end else tag
                if tag[1] == "b":
                    used[tag] = used.get(tag, (number,))[0], number
        for tag, (first, last) in used.items():
            if tag in around or first < self.begin <= last < self.end:
                used[tag] = min(first, self.begin), max(last, self.end - 1)
        for pair in self.loop.carried.items():  # they change places every time
            last = max(used[tag][1] for tag in pair)
            used |= {tag: (used[tag][0], last) for tag in pair}
        return used

    def _slots(self) -> list[list[str]]:
        """Buffers of one size, each where those before it in the list are read no more."""
        used, slots = self._used(), list[list[str]]()
        for tag, (first, _) in sorted(used.items(), key=lambda item: item[1]):
            for slot in slots:
                if self.tags[slot[0]].size == self.tags[tag].size and used[slot[-1]][1] < first:
                    slot.append(tag)
                    break
            else:
                slots.append([tag])
        return slots

    def memory(self) -> list[str]:
        """The function that says how many numbers a row takes in memory."""
        needs = [*filter(None, dict.fromkeys(s.scratch for s in self.statements))] or ["0"]
        scratch = reduce(lambda most, need: f"larger_whole({most}, {need})", needs)
        sizes = (f"    count += padded({c_text(self.tags[slot[0]].size)});" for slot in self.slots)
        return [
            "static long scratch_of(long n) {", f"    return padded({scratch});", "}", "",
            "/* The numbers that a row of n tokens takes in memory. */",
            "static long memory_of(long n) {", "    long count = scratch_of(n);", *sizes,
            "    return count;", "}",
        ]  # fmt: skip

    def text(self, inputs: Sequence[str], groups: Sequence[int]) -> list[str]:
        """The function; results of a group are computed if its bit is wanted."""
        fields = [c for c in self.loop.columns if c[0][1] == "w" and len({*c}) > 1]
        around = self.statements[: self.begin] + self.statements[self.end :]
        fixed = {t for s in around for t in TAG.findall(s.text) if t[1] == "w"}
        fixed |= {c[0] for c in self.loop.columns if c[0][1] == "w" and c not in fields}
        names = sorted(fixed, key=[*self.tags].index)
        read = "".join(f" const int32_t *{name}," for name in inputs)
        lines = [
            f"static void network(const float *weights, long n,{read}",
            "    float *memory, unsigned wanted, receiver receive, void *context) {",
            *(f"    const float *{self.names[t]} = {self._weight(t)};" for t in names),
            "    float *scratch = memory, *next = memory + scratch_of(n);",
            "    (void)wanted;",
        ]
        for slot in self.slots:
            for tag in slot:
                kind = "float" if self.tags[tag].floats else "int32_t"
                cast = "" if kind == "float" else f"({kind} *)"
                lines.append(f"    {kind} *{self.names[tag]} = {cast}next;")
            lines.append(f"    next += padded({c_text(self.tags[slot[0]].size)});")
        if fields:
            names = [f"*{self._field(fields, column)}" for column in fields]
            rows = (", ".join(self._weight(c[k]) for c in fields) for k in range(self.loop.times))
            lines += ["    const struct {", *_wrapped(f"const float {', '.join(names)};")]
            lines.append(f"    }} layers[{self.loop.times}] = {{")
            lines += [*(line for row in rows for line in _wrapped(f"{{{row}}},")), "    };"]
        lines += self._statements(fields, groups)
        return [*lines, "}"]

    def _statements(self, fields: list[tuple[str, ...]], groups: Sequence[int]) -> list[str]:
        lines, about, needed = list[str](), "", self._needed(groups)
        everything = guard = sum({1 << group for group in groups})
        for number, statement in enumerate(self.statements):
            inside = self.begin <= number < self.end
            if number == self.begin and self.loop.period:
                lines.append(f"for (int layer = 0; layer < {self.loop.times}; layer++) {{")
            mask = needed[number] if number >= self.end or not self.loop.period else everything
            if mask != guard:
                lines += ["}"] * (guard != everything)
                lines += [f"if (wanted & {mask}u) {{"] * (mask != everything)
                guard = mask
            module = NUMBER.sub("", statement.about).removeprefix("model.").removeprefix("encoder.")
            comment = [f"/* {module or 'results'} */"] * (module != about)
            about, depth = module, int(inside or guard != everything)
            lines += [f"{'    ' * depth}{ln}" for ln in (*comment, *self._rendered(number, fields))]
            if number == self.end - 1 and self.loop.period:
                for a, b in self.loop.carried.items():
                    a, b = self.names[a], self.names[b]
                    swap = (f"float *last_{a} = {a};", f"{a} = {b};", f"{b} = last_{a};")
                    lines += [f"    {line}" for line in swap]
                lines.append("}")
        return [f"    {line}" for line in (*lines, *["}"] * (guard != everything))]

    def _rendered(self, number: int, fields: list[tuple[str, ...]]) -> list[str]:
        """The lines of a statement."""
        inside = self.begin <= number < self.end
        columns = iter(self.loop.lines[number - self.begin]) if inside else repeat(())
        shown = lambda match: self._shown(match[0], next(columns), fields)  # noqa: E731
        return TAG.sub(shown, self.statements[number].text).split("\n")

    def _shown(self, tag: str, column: tuple[str, ...], fields: list[tuple[str, ...]]) -> str:
        """A tag in the function."""
        if tag[1] == "r":
            step = _number(column[1]) - _number(tag) if column else 0
            return f"{tag[2:-1]}{' + layer' * (step > 0)}{f' * {step}' * (step > 1)}"
        if column in fields:
            return f"layers[layer].{self._field(fields, column)}"
        return self.names[tag if column else self.after.get(tag, tag)]

    def _field(self, fields: list[tuple[str, ...]], column: tuple[str, ...]) -> str:
        alike = [c for c in fields if c[0] == column[0]].index(column)
        return self.names[column[0]] + (f"_{alike + 1}" if alike else "")

    def _weight(self, tag: str) -> str:
        before = [*self.tags].index(tag)
        sizes = (weight.size for name, weight in [*self.tags.items()][:before] if name[1] == "w")
        return f"weights + {sum(-(-int(size) // 16) * 16 for size in sizes)}"

    def _needed(self, groups: Sequence[int]) -> list[int]:
        """The bits of the results that every statement is for."""
        needed, bits = [0] * len(self.statements), dict[str, int]()
        for number in reversed(range(len(self.statements))):
            tags = [self.after.get(t, t) for t in TAG.findall(self.statements[number].text)]
            written = self.statements[number].writes
            mask = sum({1 << groups[_number(t)] for t in tags if t[1] == "r"})
            needed[number] = mask | bits.get(self.after.get(written, written), 0)
            bits |= {t: bits.get(t, 0) | needed[number] for t in tags}
        return needed
