"""The losses of a program for its file: a batch as tensors by name, and the sums of its terms."""

import re
from collections.abc import Callable

from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_map

from bertc.ir.program.stage import Stage
from bertc.learn.objectives import Losses, MicroBatch, tensors_of, with_guesses
from bertc.model import Model


def with_all_states(batch: MicroBatch) -> MicroBatch:
    """The same, for networks that compute the last states of all tokens."""
    masked = batch.masked and batch.masked.asked(None, None)
    return batch._replace(reading=batch.reading.asked(None, None), masked=masked)


def named_tensors(batch: MicroBatch) -> dict[str, Tensor]:
    """The tensors of a batch, each once, by the names of their fields."""
    named = dict[int, tuple[str, Tensor]]()
    for path, leaf in tree_flatten_with_path(batch)[0]:
        if isinstance(leaf, Tensor):
            first, *steps = re.findall(r"\w+", keystr(path))
            name = "_".join(steps if first in ("reading", "terms") else [first, *steps])
            named.setdefault(id(leaf), (name, leaf))
    return dict(named.values())


def with_tensors(batch: MicroBatch, function: Callable[[str, Tensor], Tensor]) -> MicroBatch:
    """A batch with tensors made of the names and the tensors of another."""
    made = {id(x): function(name, x) for name, x in named_tensors(batch).items()}
    result: MicroBatch = tree_map(lambda leaf: made.get(id(leaf), leaf), batch)
    return result


def numbers(stage: Stage, batch: MicroBatch) -> dict[str, Tensor]:
    """Numbers by which the summed losses of terms are divided."""
    terms = {term.name: tensors_of(term.objective) for term in stage.objective}
    return {
        f"{name}_count": tensors.count(batch.terms[name]) + tensors.divisor_extra
        for name, tensors in terms.items()
    }


def summed_losses(model: Model, stage: Stage, batch: MicroBatch) -> dict[str, Tensor]:
    """The summed loss of each term over the rows of a batch with all states."""
    sums = dict[str, Tensor]()
    for network in stage.networks():
        outputs = model.read_on(batch.read_by(network), network.name, network.wanted)
        terms = Losses(model, stage, network)(batch, outputs)
        sums |= {term.name: terms[term.name].sum for term in network.terms}
        guesses = [term.guesses for term in terms.values() if term.guesses is not None]
        if guesses:
            batch = with_guesses(stage, batch, guesses[0])
    return sums
