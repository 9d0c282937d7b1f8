"""A forecast: rungs, their law with its spread, and the loss expected of a program."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from math import inf, log, sqrt
from operator import mul
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import TypeAdapter

from bertc import DataError, Estimate, MissingInputError, Resolved, UsageError, estimate
from bertc.lab.fit.candidate import tokens_of
from bertc.lab.forecast.law import LEAST, MOST, PARAMETERS, Law, Rung, fit
from bertc.lab_api import Expected, Table, model_weights, step_flops, units

LAW = "law.json"
DRAWS, INSIDE = 100, 0.8
"""Laws of drawn rungs, and the share of results that an interval is to hold."""
TESTED = 2
"""Rungs, those with the most FLOPs, that a law of the others is tested on."""
FEWEST = PARAMETERS + TESTED
"""Rungs of a ladder."""


@dataclass(frozen=True)
class Forecast:
    """The law of a ladder for a spec; ``draws`` are laws of drawn rungs, for intervals.

    ``text`` is the digest of text, vocabulary and objective; ``tested`` the relative error on the
    largest rungs of a law of the others, ``width`` that of the spec.
    """

    name: str
    width: int
    text: str
    rungs: tuple[Rung, ...]
    law: Law
    draws: tuple[Law, ...]
    tested: float

    @classmethod
    def of(cls, resolved: Resolved, rungs: Sequence[Rung]) -> Self:
        """The law of rungs, with tables in N or without: whichever predicts the largest better."""
        data = estimate(resolved).data
        once = data.tokens_read / data.passes if data else inf
        ordered = sorted(rungs, key=lambda rung: rung.flops)
        fits = partial(fit, pass_tokens=once)

        def test(*, tables: bool) -> float:
            before = fits(ordered[:-TESTED], with_tables=tables)
            return max(abs(_error(before, rung)) for rung in ordered[-TESTED:])

        tables = test(tables=True) < test(tables=False)
        random = np.random.default_rng(0)

        def draw() -> Law:
            """A law of drawn rungs, with drawn exponents."""
            drawn = [ordered[n] for n in random.integers(len(ordered), size=len(ordered))]
            a, b = map(float, random.uniform(LEAST, MOST))
            return fits(drawn, powers=(a, b), with_tables=tables)

        return cls(
            name=resolved.name, width=resolved.encoder.hidden, text=text_of(resolved),
            rungs=tuple(ordered), law=fits(ordered, with_tables=tables),
            draws=tuple(draw() for _ in range(DRAWS)), tested=test(tables=tables),
        )  # fmt: skip

    def refuse_others(self, resolved: Resolved) -> None:
        """Refuse a program that the clock ends, or of another text, vocabulary or objective.

        Raises:
            UsageError: with the remedy.
        """
        if resolved.run.most_seconds:
            raise UsageError("a law needs steps, and a time ends this run", help="steps=100k")
        if text_of(resolved) != self.text:
            raise UsageError(
                f"the law is of another text, vocabulary or objective than {resolved.name}",
                help="bertc forecast SPEC makes a law of its text",
            )

    def expected(self, resolved: Resolved) -> Expected:
        """The loss of a program of the same text and objective."""
        parameters, tables = sizes_of(resolved)
        tokens = tokens_of(resolved)
        flops = flops_of(resolved)
        least, most = self.rungs[0].flops, self.rungs[-1].flops
        loss = self.law.loss(parameters, tables, tokens)
        # As far again as from the smallest rung to the largest the error of the test is doubled.
        farther = self.tested * (1 + max(0.0, log(flops / most)) / log(most / least))
        ratios = [log(law.loss(parameters, tables, tokens) / loss) for law in self.draws]
        low, high = np.quantile(ratios, [(1 - INSIDE) / 2, (1 + INSIDE) / 2])
        return Expected(
            loss=loss, low=loss * (1 - sqrt(min(0.0, low) ** 2 + farther**2)),
            high=loss * (1 + sqrt(max(0.0, high) ** 2 + farther**2)), times=flops / most,
        )  # fmt: skip

    def as_table(self) -> str:
        """The rungs with their losses, measured and by the law."""
        rows = [
            (
                rung.name, units.count_text(rung.parameters), units.count_text(rung.tokens),
                units.flops_text(rung.flops), f"{rung.loss:.3f}",
                f"{self.law.loss(rung.parameters, rung.tables, rung.tokens):.3f}",
            )
            for rung in self.rungs
        ]  # fmt: skip
        law = self.law
        counted = "with" if law.with_tables else "without"
        notes = (
            f"loss = {law.floor:.3g} + {law.of_size:.3g} / N^{law.size_power:.3g} + "
            f"{law.of_tokens:.3g} / D^{law.tokens_power:.3g}, N parameters {counted} tables, "
            "D tokens",
            f"A law of the others misses the {TESTED} largest rungs by {self.tested:.1%} or less.",
            *["Without a floor it expects too little far from its rungs: a longer ladder (--time)."]
            * (not law.floor),
        )
        head = ("rung", "parameters", "tokens", "FLOPs", "loss", "by the law")
        return str(Table(head, rows, notes=notes))

    def as_json(self) -> str:
        """All of it, as ``law.json`` has it."""
        return json.dumps({"schema": 1, **asdict(self)}, indent=1)


def read_law(path: Path) -> Forecast:
    """Read a ``law.json``."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        is_old, forecast = facts.pop("schema") != 1, TypeAdapter(Forecast).validate_python(facts)
        losses = [law.loss(2e6, 1e6, 1e6) for law in (forecast.law, *forecast.draws)]
        is_short = len(forecast.rungs) < FEWEST or not forecast.draws
        if is_old or is_short or not all(0 < loss < inf for loss in losses):
            raise ValueError
        return forecast
    except OSError as error:
        raise MissingInputError(
            f"cannot read {path}: {error.strerror}", help="bertc forecast SPEC makes one"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is no law", help="bertc forecast SPEC makes one") from error


def add_losses(
    law: Path, estimates: Sequence[Estimate], programs: Sequence[Resolved]
) -> list[Estimate]:
    """The estimates with the loss that a law expects of each program."""
    known = read_law(law)
    for program in programs:
        known.refuse_others(program)
    losses = map(known.expected, programs)
    return [replace(e, expected=loss) for e, loss in zip(estimates, losses, strict=True)]


def text_of(resolved: Resolved) -> str:
    """A digest of the text, vocabulary and objective that a program learns."""
    stage, data = resolved.stages[-1], estimate(resolved).data
    parts: list[Any] = [resolved.vocabulary, *stage.data, *stage.objective, stage.format]
    texts = [f"{data.text_bytes if data else 0}", *(part.model_dump_json() for part in parts)]
    return sha256("\n".join(texts).encode()).hexdigest()


def sizes_of(resolved: Resolved) -> tuple[int, int]:
    """The number of weights, and of those in tables."""
    weights = model_weights(resolved)
    tables = sum(weight.numel for weight in weights if weight.role == "table")
    return sum(weight.numel for weight in weights), tables


def flops_of(resolved: Resolved) -> float:
    """FLOPs of a whole training, with those of updates."""
    steps = (stage.steps for stage in resolved.stages)
    return float(sum(map(mul, steps, step_flops(resolved, {}))))


def _error(law: Law, rung: Rung) -> float:
    return law.loss(rung.parameters, rung.tables, rung.tokens) / rung.loss - 1
