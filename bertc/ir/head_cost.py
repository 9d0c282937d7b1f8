"""What the heads of a stage cost: their products, and what they keep for the backward pass."""

from bertc.ir.base import Kept, Matmul
from bertc.ir.objective import Clm, Mlm, Nsp, Plm, Rtd, Sbo, Sop, Tlm
from bertc.ir.resolved import Network, Stage
from bertc.ir.task import Task


def head_matmuls(stage: Stage, network: Network, batch: int) -> tuple[Matmul, ...]:
    """Products of the heads of one network over ``batch`` examples."""
    encoder, products = network.encoder, list[Matmul]()
    if not network.terms:  # its guesses are drawn all the same
        products += encoder.head_matmuls(batch * stage.predictions())
    for term in network.terms:
        match term.objective:
            case Clm() | Plm() as objective:
                products += objective.matmuls(encoder, batch, stage.seq)
            case Mlm() | Tlm() as objective if objective is stage.masking:
                products += objective.matmuls(encoder, batch, stage.seq)
            case Sbo() as objective:
                products += objective.matmuls(encoder, batch, stage.predictions())
            case Nsp() | Sop() as objective:
                products += objective.matmuls(encoder, batch * stage.texts)
            case Task() as task:
                products += task.matmuls(encoder, batch, stage.rows_an_example, stage.seq)
            case Rtd() as objective:
                products += objective.matmuls(encoder, batch * _judged(stage, objective))
    return tuple(products)


def head_kept(stage: Stage, network: Network) -> Kept:
    """What the heads of one network keep for the backward pass, for one example."""
    encoder, total = network.encoder, Kept()
    for term in network.terms:
        match term.objective:
            case Clm() | Plm() as objective:
                total += objective.kept(encoder, stage.seq)
            case Mlm() | Tlm() as objective if objective is stage.masking:
                total += objective.kept(encoder, stage.seq)
            case Sbo() as objective:
                total += objective.kept(encoder, stage.predictions())
            case Nsp() | Sop() as objective:
                total += objective.kept(encoder).times(stage.texts)
            case Task() as task:
                total += task.kept(encoder, stage.rows_an_example, stage.seq)
            case Rtd() as objective:
                total += objective.kept(encoder, _judged(stage, objective))
    return total


def _judged(stage: Stage, objective: Rtd) -> int:
    """Positions a row that are asked about."""
    return stage.seq if objective.over == "all" else stage.predictions()
