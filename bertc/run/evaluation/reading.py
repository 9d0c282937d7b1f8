"""Cost of next tokens to a model, and the speed at which it read them."""

import math
from dataclasses import dataclass

from bertc.base.diagnostics import several
from bertc.ir.program.stage import Stage
from bertc.run.evaluation.held_out import Evaluation

LARGEST_SHOWN, LARGEST_KNOWN = 50.0, 700.0
"""Nats above which a perplexity is shown as infinite, and above which no float holds it."""


@dataclass(frozen=True)
class NextTokenCost:
    """An evaluation of next tokens; ``seconds`` are of reading alone, without loading.

    ``bits_per_character`` is None where tokens do not spell all of the text.
    """

    tokens: int
    seconds: float
    tokens_per_second: float
    perplexity: float
    bits_per_token: float
    bits_per_character: float | None

    def told(self) -> str:
        """A line for the summary."""
        bits = self.bits_per_character
        return (
            f"{as_told(self.bits_per_token * math.log(2))}"
            f"{'' if bits is None else f', {bits:.3f} bits a character'}; "
            f"{several(self.tokens, 'token')} in {self.seconds:.1f} s, "
            f"{self.tokens_per_second:,.0f} a second"
        )


def next_token_cost(evaluation: Evaluation, stage: Stage, seconds: float) -> NextTokenCost | None:
    """The reading of a stage of next tokens alone; None for other objectives."""
    if [term.objective.order for term in stage.objective] != ["forward"]:
        return None
    bits, tokens = evaluation.loss / math.log(2), evaluation.predictions
    characters = evaluation.characters
    return NextTokenCost(
        tokens=tokens,
        seconds=seconds,
        tokens_per_second=tokens / max(seconds, 1e-9),
        perplexity=math.exp(min(evaluation.loss, LARGEST_KNOWN)),
        bits_per_token=bits,
        bits_per_character=bits * tokens / characters if characters else None,
    )


def as_told(nats: float) -> str:
    """A next-token loss as perplexity and bits a token."""
    perplexity = math.exp(nats) if nats < LARGEST_SHOWN else math.inf
    return f"perplexity {perplexity:,.2f}, {nats / math.log(2):.3f} bits a token"
