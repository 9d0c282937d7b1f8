"""What the heads of a stage cost: their products, and what they keep for the backward pass."""

from typing import assert_never

from bertc.ir.base import Kept, Matmul
from bertc.ir.learning.objective import Clm, Mlm, Nsp, Plm, Pretraining, Rtd, Sbo, Sop, Tlm
from bertc.ir.learning.task import Task
from bertc.ir.program.resolved import Network, Stage


def head_matmuls(stage: Stage, network: Network, batch: int) -> tuple[Matmul, ...]:
    """Products of the heads of one network over ``batch`` examples."""
    encoder, products = network.encoder, list[Matmul]()
    if not network.terms:  # its guesses are drawn all the same
        products += encoder.head_matmuls(batch * stage.predictions())
    for objective in (term.objective for term in network.terms):
        if isinstance(objective, Task):
            products += objective.matmuls(encoder, batch, stage.rows_an_example, stage.seq)
        elif rows := head_rows(stage, objective):
            products += objective.matmuls(encoder, batch * rows)
    return tuple(products)


def head_kept(stage: Stage, network: Network) -> Kept:
    """What the heads of one network keep for the backward pass, for one example."""
    encoder, total = network.encoder, Kept()
    for objective in (term.objective for term in network.terms):
        if isinstance(objective, Task):
            total += objective.kept(encoder, stage.rows_an_example, stage.seq)
        elif rows := head_rows(stage, objective):
            total += objective.kept(encoder, rows)
    return total


def vocabulary_heads(stage: Stage, network: Network) -> int:
    """Heads of one network that score every token of the vocabulary."""
    return sum(
        not isinstance(term.objective, Task)
        and term.objective.scored == "tokens"
        and head_rows(stage, term.objective) > 0
        for term in network.terms
    )


def head_rows(stage: Stage, objective: Pretraining) -> int:
    """States of a row that the head of a term reads; 0 where another term's head does it."""
    match objective:
        case Mlm() | Tlm():  # one head for all rows; the term that hides the most says how many
            return objective.predictions(stage.seq) if objective is stage.masking else 0
        case Clm() | Plm():
            return objective.predictions(stage.seq)
        case Sbo():
            return stage.predictions()
        case Nsp() | Sop():
            return stage.texts
        case Rtd():
            return stage.seq if objective.over == "all" else stage.predictions()
        case unreachable:
            assert_never(unreachable)
