"""Values that change over the steps of a stage of text: rows of a batch, and shares of masks.

Memory is what rows keep from step to step: earlier tokens of a stream, whose states every layer
attends to (Transformer-XL).
"""

import math
from operator import not_
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from bertc.ir.base import BY_KIND, Count, Node, Tokens, once
from bertc.ir.data import RUNNING
from bertc.ir.fixes import Also, Rule, Rules, span_if_written
from bertc.ir.methods.method import Method, Pieces
from bertc.ir.terms.masking import Masks

MOST_STAGES = 100
"""Stages that a run may have, each size of their batches counted."""


class FullBatch(Node):
    """Every batch has all rows."""

    kind: Literal["none"] = "none"


class RisingBatch(Method):
    """Batches of ``rows`` rows, then of ``by`` more, ..., each size for as many steps as any other.

    After ``over`` steps, or that share of them, a batch has all its rows (ModernBERT,
    ``batch_size_warmup_min_size`` and ``_tokens``: sizes are 1, 2, ... micro-batches of a device;
    cramming, ``batch_size_ramp``; GPT-BERT, ``batch_reduction``). ``by`` 0: by ``rows``.
    """

    kind: Literal["rising"] = "rising"
    rows: Annotated[int, Field(ge=1, le=10**12)]
    over: Annotated[int, Field(ge=1, le=10**12)] | Annotated[float, Field(gt=0, le=1)] | Tokens
    by: Annotated[Count, Field(exclude_if=not_)] = 0
    positional = ("rows", "over", "by")

    setting = "batch_warmup"
    reads = "text"
    rules = Rules(
        stage=(
            Rule("E328", lambda s: _misfit(s)[0], lambda s: _misfit(s)[0],
                 lambda s: f"batch_warmup {_misfit(s)[2]}",
                 also=lambda s: _misfit(s)[1], help=lambda s: _misfit(s)[3]),
        ),
        tasks=(
            Rule("E327", "batch_warmup", lambda s: True,
                 "batch_warmup is of text: a task learns from batches of one size",
                 help="batch_warmup=none"),
        ),
        timed=(
            Rule("E329", "batch_warmup", lambda s: True,
                 "batch_warmup counts steps, and a time does not say how many there are",
                 help="batch_warmup=none"),
        ),
    )  # fmt: skip

    def _sizes(self, batch: int) -> range:
        """The numbers of rows before ``batch``."""
        return range(self.rows, batch, self.by or self.rows)

    @property
    def in_tokens(self) -> bool:
        return isinstance(self.over, Tokens)

    @once
    def over_steps(self, batch: int, seq: int, steps: int, tokens: float | None) -> Self:
        if isinstance(self.over, int):
            return self
        # Beyond the batch is an error that is reported later; over all steps, the last has all.
        sizes = self._sizes(batch) or range(max(1, batch // 8), batch, max(1, batch // 8))
        mean = (sizes[0] + sizes[-1]) / 2 if sizes else batch
        if isinstance(self.over, Tokens):
            over = self.over.tokens / (mean * seq)
        elif tokens is None:
            over = min(steps - 1, self.over * steps)
        else:
            steps = math.ceil(tokens / ((self.over * mean + (1 - self.over) * batch) * seq))
            over = min(steps - 1, self.over * steps)
        return self.model_copy(update={"over": max(1, round(over))})

    @once
    def batches(self, batch: int, steps: int) -> Pieces:
        """Sizes that have steps, fewer if they are more than a run may have, which is refused."""
        assert isinstance(self.over, int), "a pass has made them steps"
        sizes = self._sizes(batch)
        count = min(len(sizes), self.over, MOST_STAGES)
        ends = [min(steps, -(-n * self.over // count)) for n in range(1, count + 1)]
        begins = [0, *ends]
        rows = (*(sizes[n * len(sizes) // count] for n in range(count)), batch)
        pieces = zip(rows, (*ends, steps), begins, strict=True)
        return tuple((rows, end - begin) for rows, end, begin in pieces if end > begin)


def _misfit(stage: Any) -> tuple[str, Also, str, str]:
    """The setting at fault, another one, the fault, the remedy of a batch warm-up; or ""s.

    It has to begin below the batch, and to end before the stage does.
    """
    batch, steps, microbatch = stage.batch, stage.steps, stage.microbatch
    rising, wrong, fault = stage.batch_warmup, "", ""
    rows, over = rising.rows, rising.over
    fewer = rows if rows < batch else batch // 8
    sooner = over if over < steps else steps // 10
    instead = f"batch_warmup={f'rising({fewer}, {sooner})' if fewer and sooner else 'none'}"
    if rows >= batch:
        wrong, fault = "batch", f"begins with {rows} examples, but batch = {batch}"
    elif over >= steps:
        end = f"and has to end before stage {stage.name} does, after {steps}"
        wrong, fault = "steps", f"takes {over} steps, {end}"
    elif microbatch and math.gcd(rows, rising.by) % microbatch:
        fault = f"rises by {rising.by or rows} examples, which is no multiple of microbatch = "
        wrong, fault = "microbatch", f"{fault}{microbatch}"
        instead = f"microbatch={math.gcd(microbatch, rows, rising.by, batch)}"
    if not wrong:
        return "", ("", ""), "", ""
    if span_if_written(stage.origins[wrong]) and not span_if_written(stage.origins["batch_warmup"]):
        return wrong, ("batch_warmup", "batch_warmup is set here"), fault, instead
    return "batch_warmup", (wrong, f"{wrong} = {getattr(stage, wrong)}"), fault, instead


BatchWarmup = Annotated[FullBatch | RisingBatch, BY_KIND]
FULL_BATCH = FullBatch()


class FallingMasks(Method):
    """Terms with ``p_end``, whose share of masked tokens falls to that over the steps."""

    setting = "objective"
    rules = Rules(timed=(
        Rule("E329", "objective", lambda s: True,
             "p_end falls by steps, and a time does not say how many there are: leave it out"),
    ))  # fmt: skip

    @property
    def text(self) -> str:
        return "p_end"

    def terms_between(self, terms: Any, begin: float, end: float) -> Any:
        return tuple(
            term.model_copy(update={"objective": term.objective.restrict(begin, end)})
            if isinstance(term.objective, Masks)
            else term
            for term in terms
        )

    def extent(self, done: int, steps: int) -> float:
        return done / steps


def falls(terms: Any) -> bool:
    """True if the share of masked tokens of a term falls from step to step."""
    return any(isinstance(t.objective, Masks) and t.objective.p_end for t in terms)


def _reading_on(stage: Any) -> str:
    near_alone = not stage.attention.distances
    placed = stage.origins["positions"].kind != "derived" and stage.positions.kind != "none"
    changes = [
        "pack=false" * stage.pack,
        "format=stream" * (stage.format.kind not in RUNNING),
        "attention=relative" * near_alone,
        "positions=none" * (near_alone and placed),
    ]
    paired = stage.pairing or stage.translation_term
    if paired or (near_alone and "memory" in stage.own):  # a stage cannot set attention
        return "memory=0"
    return " ".join(filter(None, changes))


def _packs(stage: Any) -> bool:
    return bool(stage.pack) and not span_if_written(stage.origins["format"])


def _rows(s: Any) -> Also:
    return ("pack", "pack = true") if _packs(s) else ("format", f"format = {s.format.kind}")


class RowMemory(Method):
    """The states of ``tokens`` tokens before a row, kept from step to step."""

    tokens: Annotated[int, Field(ge=1)]

    setting = "memory"
    why_final = "what its rows remember ends with it (memory)"
    rules = Rules(rows=(
        Rule("E219", "memory", lambda s: s.format.kind not in RUNNING,
             lambda s: f"memory = {s.memory} needs rows that continue the row before, which "
             f"{'packed' if _packs(s) else s.format.kind} rows do not",
             also=_rows, help=_reading_on),
        Rule("E222", "memory", lambda s: not s.attention.distances,
             lambda s: f"memory = {s.memory} needs relative attention, but attention = "
             f"{s.attention.kind}",
             label="tokens in memory would have the positions of the row's own",
             also=("attention", "attention is set here"), help=_reading_on),
        Rule("E222", "memory",
             lambda s: s.attention.distances and s.positions.kind != "none",
             lambda s: f"memory contradicts positions = {s.positions.kind}, which count from 0 in "
             "every row",
             label="tokens in memory carry the positions of their own row",
             also=("positions", "positions are set here"),
             help=lambda s: "memory=0" if "memory" in s.own else "positions=none"),
    ))  # fmt: skip
