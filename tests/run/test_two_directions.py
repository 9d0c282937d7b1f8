"""Networks that read causally and in both directions, by rows of a step or stage by stage."""

import pytest
import torch
import torch.nn.functional as F

from bertc.api import resolve
from bertc.cost import estimate
from bertc.cost.planning.world import World
from bertc.ir.changing.growth import Turned
from bertc.ir.program.reading import split_rows
from bertc.learn.objectives import token_logits
from bertc.learn.step.feed import text_feed
from bertc.learn.step.micro_batches import corruption
from bertc.model import EncoderInputs, build
from bertc.run.beginning.synthetic import RandomText, uniform_vocab
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.evaluation.manner import Manner
from bertc.run.models.loading import load
from bertc.run.models.runs import export_run
from bertc.run.train.loop import train
from bertc.text.vocab.vocabulary import vocabulary_of
from bertc.use.fill_mask import fill
from tests.bench.rig import make_step, random_rows
from tests.net.programs import TOY
from tests.run.conftest import lines, text
from tests.run.test_average import stood_at
from tests.run.test_growth import begun
from tests.run.test_minimal_pairs import ROWS, pairs_in

CPU = torch.device("cpu")
LINE = "layers=2 hidden=32 heads=2 ffn=64 seq=24 vocab=100 dropout=0 steps=10 precision=fp32"


@pytest.mark.parametrize(("batch", "causal"), [(32, 2), (20, 1), (250, 16)])
@pytest.mark.parametrize("size", [1, 3])
def test_shares_of_rows_are_exact_and_each_row_is_read_once(batch, causal, size):
    stage = resolve(f"{LINE} objective=15*mntp+clm batch={batch}").stages[0]
    assert [one.batch for one in split_rows(stage)] == [batch - causal, causal]
    rows, vocab, read = RandomText(stage, 100), uniform_vocab(100, CPU), {False: [], True: []}
    shares = []
    for rank in range(size):
        places = World(size).rows(rank, batch)
        cut = corruption(stage, vocab, 1, 7, places.start)
        with text_feed(rows, 0, 3, CPU, cut, places) as feed:
            *_, parts = [feed.take().micro_batches for _ in range(3)]
        assert max(len(part.originals) for part in parts) <= 7
        for part in parts:
            read[bool(part.reading.causal)] += part.originals.tolist()
            assert [*part.terms] == ["clm" if part.reading.causal else "mntp"]
        shares.append(sum(len(part.originals) for part in parts if part.reading.causal))
    assert [len(read[False]), len(read[True])] == [batch - causal, causal]
    assert max(shares) - min(shares) <= 1
    assert sorted(read[False] + read[True]) == sorted(rows.train(2).token_ids.tolist())


def masked_loss(states, model, part, name):
    """The mean over masked tokens, by a loop; of mntp from the states before them."""
    nats, targets = [], part.terms[name]
    for row, (places, weights) in enumerate(zip(targets.positions, targets.weights, strict=True)):
        for at in places[weights > 0].tolist():
            state = states[row, at - (name == "mntp")]
            scores = token_logits(state[None], model.heads["mlm"], model.encoder)
            nats.append(F.cross_entropy(scores, part.originals[row, at][None]))
    return torch.stack(nats).mean()


RELATED = "mntp attention=disentangled(8,24) positions=none"


@pytest.mark.parametrize("objective", ["mntp", "mlm", RELATED, "mntp pack=true"])
def test_the_loss_is_that_of_a_masked_and_a_causal_network_in_their_shares(objective):
    name, _, more = objective.partition(" ")
    resolved = resolve(f"{LINE} objective=3*{name}+clm batch=8 {more}")
    step = make_step(resolved, 6)
    masked, causal = step.read(random_rows(resolved)).micro_batches
    sums, counts, _ = step.gradients([masked, causal], 0)

    ahead = build(resolve(f"{LINE} objective=clm(head=mlm) head=transform batch=8 {more}"))
    both = build(resolved)
    for model in (both, ahead):
        model.load_state_dict(dict(step.parameters))
    first = masked_loss(both.read(EncoderInputs(masked.reading.token_ids)), both, masked, name)
    states = ahead.read(EncoderInputs(causal.originals))[:, :-1].flatten(0, 1)
    scores = token_logits(states, ahead.heads["mlm"], ahead.encoder)
    second = F.cross_entropy(scores, causal.originals[:, 1:].flatten())
    means = torch.stack(sums).sum(0) / counts
    assert means.tolist() == pytest.approx([first.item(), second.item()], rel=1e-5)
    (0.75 * first + 0.25 * second).backward()
    weights = [dict(model.named_parameters()) for model in (both, ahead)]
    for weight, tensor in step.parameters.items():
        of_both = [model[weight].grad for model in weights if model[weight].grad is not None]
        if tensor.grad is not None:
            assert torch.allclose(tensor.grad, sum(of_both), rtol=1e-4, atol=1e-6), weight


def test_a_run_evaluates_both_and_resumes_to_the_bit(tiny, resumes, tmp_path):
    resumes(tiny("objective=3*mntp+clm microbatch=4 steps=6 eval_every=3 save_every=2"), 3)
    *_, last = lines(tmp_path / "straight", "eval")
    shares = 0.75 * last["losses"]["mntp"] + 0.25 * last["losses"]["clm"]
    assert last["loss"] == pytest.approx(shares)
    assert last["accuracy"].keys() >= {"mntp", "clm"}


@pytest.mark.usefixtures("in_the_farm")
def test_text_and_pairs_are_scored_in_either_direction(farm_run, tmp_path):
    run = farm_run(text(TOY, objective="3*mntp+clm", steps="20"))
    reports = (evaluate_run(run, Manner(objective=name), quiet=True) for name in ("", "clm"))
    both, alone = (report.evaluation for report in reports)
    assert alone.loss == pytest.approx(both.losses["clm"])
    folder, model = pairs_in(tmp_path / "toy", *ROWS), load(run)
    alone, masked, causal = (
        evaluate_run(run, Manner(pairs=folder, objective=name), quiet=True).evaluation
        for name in ("", "mntp", "clm")
    )
    assert alone == masked
    vocabulary, nats = vocabulary_of(run, model.resolved.encoder.vocab_size), []
    for row in ROWS:
        sentence = f"{row.get('context', '')} {row['good']}".strip()
        encoded = vocabulary.tokenizer.encode(sentence)
        states = model.read(EncoderInputs(torch.tensor([encoded.ids]), causal=True))[0]
        scores = token_logits(states, model.heads["mlm"], model.encoder).log_softmax(1)
        for at, (_, end) in enumerate(encoded.offsets):
            if end > len(sentence) - len(row["good"]):
                nats.append(-scores[at - 1, encoded.ids[at]].item())
    assert causal.loss == pytest.approx(sum(nats) / len(nats), rel=1e-5)


DECODER = 'stage "decoder" { objective=clm steps=3 } '
ENCODER = 'stage "encoder" { objective=mlm steps=3 } '
STAGES = DECODER + ENCODER + DECODER.replace("decoder", "back")


@pytest.fixture(scope="module")
def run(tiny, cache, tmp_path_factory):
    """clm, mlm and clm again, three steps each, with a checkpoint at each seam."""
    found = tmp_path_factory.mktemp("turning") / "run"
    train(made(tiny), found, cache=cache, quiet=True)
    return found


def made(tiny):
    return tiny(f"{STAGES} save_every=1 eval_every=3 keep=all")


def test_only_directions_and_costs_differ_and_the_optimiser_goes_on(tiny):
    stages = made(tiny).stages
    assert [stage.encoder.causal for stage in stages] == [True, False, True]
    assert [stage.grow for stage in stages] == [None, Turned(), Turned()]
    assert {stage.counted_from for stage in stages} == {0}
    assert len({stage.encoder.weights() for stage in stages}) == 1
    stages = estimate(made(tiny)).stages
    for stage, objective in zip(stages, ("clm", "mlm", "clm"), strict=True):
        alone = estimate(tiny(objective=objective, head="transform")).stages[0]
        assert stage.flops.forward_per_example == alone.flops.forward_per_example
        assert stage.parameters.encoder == alone.parameters.encoder


@pytest.mark.parametrize(("step", "causal"), [(3, True), (6, False), (9, True)])
def test_tokens_see_later_ones_in_stages_of_both_directions_alone(run, step, causal):
    model = load(stood_at(run, step))
    ids = torch.randint(5, 100, (2, 12), generator=torch.Generator().manual_seed(0))
    other = ids.clone()
    other[:, 8:] += 1
    with torch.no_grad():
        states, changed = model.encode(ids), model.encode(other)
    assert torch.equal(states[:, :8], changed[:, :8]) is causal
    assert not torch.allclose(states[:, 8:], changed[:, 8:])


def test_resumed_at_a_seam_it_is_the_same(tiny, resumes):
    resumes(made(tiny), 3, 6)


def test_each_stage_is_evaluated_used_and_exported_in_its_direction(run, cache, tmp_path):
    shown = {line["step"]: line["losses"] for line in lines(run, "eval")}
    kinds = ["mlm", "mlm_masked", "mlm_replaced", "mlm_visible"]
    assert [[*losses] for losses in shown.values()] == [["clm"], kinds, ["clm"]]
    for step in (3, 6):
        again = evaluate_run(stood_at(run, step), cache=cache, quiet=True)
        assert again.evaluation.losses == pytest.approx(shown[step], rel=1e-6)
    assert len(fill(stood_at(run, 6), "old hens [MASK] in [MASK]").masks) == 2
    assert len(fill(run, "old hens cackle").masks) == 1
    both = export_run(stood_at(run, 6), tmp_path / "both")
    assert (both.layout, both.architecture) == ("bert", "BertForMaskedLM")
    assert any("all tokens of a row" in note and "clm" in note for note in both.notes)


def test_the_head_over_the_vocabulary_goes_on_under_its_other_name(tiny):
    old, moments, new, after = begun(tiny(DECODER + ENCODER))
    before, now = dict(old.named_parameters()), dict(new.named_parameters())
    assert before.keys() == now.keys()
    for name, weight in now.items():
        source = name.replace("heads.mlm", "heads.clm")
        assert torch.equal(weight, before[source]), name
        assert torch.equal(after[f"v.{name}"], moments[f"v.{source}"]), name
