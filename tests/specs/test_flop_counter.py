"""Counted FLOPs against torch's own counter, on shipped specs of every structure.
Of specs that differ in numbers alone the smallest is counted. Everything runs on the meta device:
nothing is computed, and attention is counted as products. The gradient of the vocabulary's bias, a
sum over rows, is run as a product with one column because that is fast; it is no product of the
model, and taken off what torch counts.
"""

from operator import mul

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bertc.api import points
from bertc.cost import estimate
from bertc.ir.learning.objective import Clm, Mlm, Mntp, Plm, Sbo
from bertc.ir.network.table import share_by_zipf
from bertc.ir.program.reading import split_rows
from bertc.learn.objectives import targets
from bertc.learn.objectives.softmax import cross_entropy
from bertc.learn.objectives.terms import with_output_positions
from bertc.learn.step.objective import make_objective
from bertc.model import EncoderInputs, Memory, PermutationMask, build
from tests.shipped import PROGRAMS, STRUCTURES

BATCH = 2


def micro_batch(stage, count=BATCH):
    """A batch without values."""
    rows = torch.zeros(count, stage.seq, dtype=torch.long)
    asked = torch.zeros(count, stage.predictions(), dtype=torch.long)
    weights = asked.float()
    starts = torch.zeros(count, stage.texts, dtype=torch.long)
    pairs = targets.PairTargets(starts, starts, starts.float())
    predicted = targets.Predictions(asked, asked, weights)
    by_name = {
        "mlm": predicted, "mntp": predicted, "tlm": predicted._replace(translated=weights[:, 0]),
        "clm": targets.NextTokenTargets(rows, rows.float()), "plm": predicted,
        "sbo": targets.Boundaries(asked, asked, asked, asked, weights), "nsp": pairs, "sop": pairs,
        "rtd": targets.ReplacedTokens(asked, weights, weights.double(), rows.float()),
    }  # fmt: skip
    scored = [one.title for network in stage.networks() for one in network.scored]
    reading = EncoderInputs(
        rows, rows, attention_mask=rows.bool() if stage.padded else None,
        sequence_ids=rows if stage.pack else None, memory=remembered(stage, count),
        backward=torch.arange(count) % 2 if stage.format.directions > 1 else None,
        permutation=PermutationMask(rows, rows, asked) if stage.row.queries else None,
        causal=stage.encoder.causal or None,
    )  # fmt: skip
    terms = {name: by_name[name] for name in {*scored, *(t.name for t in stage.objective)}}
    masked = reading if stage.generator else None
    return with_output_positions(stage, targets.MicroBatch(reading, rows, terms, masked=masked))


def remembered(stage, count):
    """A memory without values."""
    if not stage.memory:
        return None
    states = torch.zeros(len(stage.encoder.layers), count, stage.memory, stage.encoder.hidden)
    return Memory(states, torch.zeros((), dtype=torch.long), stage.format.parts(stage.seq)[0])


def as_zipf_says(stage):
    """Without values nobody knows which cluster a target is in; Zipf's law says how many are."""
    shares = [share_by_zipf(c, stage.encoder.vocab_size) for c in stage.encoder.token_head.clusters]

    def members(cluster_n, _):
        return [torch.arange(round(len(cluster_n) * share)) for share in shares]

    return members


def shallow(name):
    """Three layers of those that are alike, so that the cost of counting does not grow with depth.
    The first, the last and one between. Layers of stages, of different widths, or that share
    weights or are pruned, stay as they are; windows are taken away below.
    """
    (resolved, *_) = PROGRAMS[name]
    encoder, alike = resolved.encoder, len({*resolved.encoder.layers}) == 1
    same = all(stage.encoder == encoder for stage in resolved.stages)
    own = all(owner == [*range(encoder.depth)] for owner in map(list, encoder.owners.values()))
    return ["layers=3"] if alike and same and own and encoder.depth > 3 else []


def counted_by_torch(resolved, stage):
    """FLOPs of one example: forward, and forward with backward; of two directions the mean."""
    flops_of_both = [_counted_by_torch(resolved, stage, one) for one in split_rows(stage)]
    rows = [one.batch for one in split_rows(stage)]
    forward, trained = (sum(map(mul, rows, flops)) for flops in zip(*flops_of_both, strict=True))
    return forward / sum(rows), trained / sum(rows)


def _counted_by_torch(resolved, whole, stage):
    with torch.device("meta"):
        model = build(resolved.as_in(whole), device="meta")
        batch = micro_batch(stage)
        objective = make_objective(model, whole, compiled=False)
        forward, trained = counted(objective, batch, len(whole.objective))
    kinds = Mlm | Mntp | Clm | Plm | Sbo
    over_vocabulary = sum(isinstance(term.objective, kinds) for term in stage.objective)
    bias = 2 * over_vocabulary * resolved.encoder.token_head.scores(stage.predictions())
    return forward // BATCH, trained // BATCH - bias


def counted(objective, batch, terms=1):
    """FLOPs of forward, and of forward and backward, as torch counts them."""
    with FlopCounterMode(display=False) as counter:
        loss, *_ = objective(batch, torch.ones(terms))
        forward = counter.get_total_flops()
        loss.backward()  # type: ignore[no-untyped-call]
    return forward, counter.get_total_flops()


@pytest.mark.parametrize("name", STRUCTURES)
def test_torch_counts_the_same(name, monkeypatch):
    # Windows are counted as their queries see them, and computed in blocks of more keys: their own
    # counts are held by tests/model/test_positions.py.
    attention = PROGRAMS[name][0].encoder.attention
    whole = ["attention=full(bias=false)"] if attention.at(1).reach else []
    sets = [f"batch={BATCH}", f"microbatch={BATCH}", "batch_warmup=none", *whole]
    resolved = points(name, [*sets, *shallow(name)])[0]
    for stage, found in zip(resolved.stages, estimate(resolved).stages, strict=True):
        monkeypatch.setattr(cross_entropy, "members", as_zipf_says(stage))
        forward, train = counted_by_torch(resolved, stage)
        assert found.flops.forward_per_example == pytest.approx(forward, rel=1e-4)
        assert found.flops.train_per_example == pytest.approx(train, rel=1e-4)
