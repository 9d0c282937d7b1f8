"""Lines about an evaluation: losses, scores, costs, and signs that little was learned."""

import math
from dataclasses import dataclass

from bertc.base.diagnostics import several
from bertc.ir.learning.objective import MASKED_LM, titled
from bertc.ir.program.stage import Stage
from bertc.ir.terms.masking import shown_figures
from bertc.run.evaluation.held_out import Evaluation

PLATEAU = 0.2
"""Nats below guessing by token frequency down to which a model knows little else."""
SOONER = "rotary positions, norm=pre, more masks and muon leave this sooner (docs/measured.md)"
LARGEST_SHOWN, LARGEST_KNOWN = 50.0, 700.0
"""Nats above which a perplexity is shown as infinite, and above which no float holds it."""


def score_lines(evaluation: Evaluation) -> list[str]:
    """The scores of tasks, one line per part."""
    same = always_lines(evaluation)
    return [
        f"{task} {part}: "
        + ", ".join(f"{metric} {value:.4f}" for metric, value in values.items())
        + (f" ({same[task, part]})" if (task, part) in same else "")
        for task, parts in evaluation.scores.items()
        for part, values in parts.items()
    ]


def always_lines(evaluation: Evaluation) -> dict[tuple[str, str], str]:
    """A remark by task and part where all examples got the same answer."""
    return {
        (task, part): f"every example got {f'the answer `{shown}`' if shown else 'no answer'}"
        for task, parts in evaluation.always.items()
        for part, shown in parts.items()
    }


def loss_line(evaluation: Evaluation) -> str:
    """The losses that are shown, each beside that of guessing by token frequency."""
    losses, unigram = evaluation.losses, evaluation.unigram_losses
    shown = (
        f"{titled(name)} {losses[name]:.3f}"
        + (f" (unigram {unigram[name]:.3f})" if name in unigram else "")
        for name in shown_figures(losses)
    )
    return ", ".join(shown)


def plateau_lines(evaluation: Evaluation) -> list[str]:
    """A remark where masked tokens are predicted as by their frequencies, or there are none."""
    losses, unigram = evaluation.losses, evaluation.unigram_losses
    below = [
        unigram[name] - losses[name]
        for name in shown_figures(losses)
        if name in evaluation.positions
    ]
    if not below:
        bare = "no held-out position is masked: losses are of all predicted ones"
        return [bare] * bool(MASKED_LM & losses.keys())
    least = round(max(below), 2)
    than = f"only {least:.2f} nat below" if least > 0 else "no better than"
    line = f"masked positions are {than} guessing by token frequency: little else is learned yet"
    return [f"{line}; {SOONER}"] * (max(below) < PLATEAU)


@dataclass(frozen=True)
class NextTokenCost:
    """An evaluation of next tokens; ``seconds`` are of reading alone, without loading."""

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
        tokens=tokens, seconds=seconds, tokens_per_second=tokens / max(seconds, 1e-9),
        perplexity=math.exp(min(evaluation.loss, LARGEST_KNOWN)), bits_per_token=bits,
        bits_per_character=bits * tokens / characters if characters else None,
    )  # fmt: skip


def as_told(nats: float) -> str:
    """A next-token loss as perplexity and bits a token."""
    perplexity = math.exp(nats) if nats < LARGEST_SHOWN else math.inf
    return f"perplexity {perplexity:,.2f}, {nats / math.log(2):.3f} bits a token"
