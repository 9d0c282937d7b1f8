"""Replaced token detection: what is replaced, by what, what is asked of it, and who learns it."""

import pytest
import torch
import torch.nn.functional as F

from bertc.ir.program.resolved import Resolved, trained_names
from bertc.learn.objectives import MicroBatch, corrupt, with_guesses
from bertc.learn.objectives.softmax.cross_entropy import draw, vocabulary_loss
from bertc.learn.objectives.text.rtd import copied_losses
from bertc.learn.step.objective import make_objective
from bertc.model import Model, build, gather_positions
from tests.learn.material import MASK, ORDINARY, VOCAB, losses, program, rows, vocab

SEQ = 40
ELECTRA = "rtd*50+mlm(15%,replace=85/0/15,distinct=false)"


def setting(objective: str, extra: str) -> tuple[Resolved, MicroBatch]:
    resolved = program(objective, SEQ, extra)
    return resolved, corrupt(resolved.stages[0], rows(64, SEQ), vocab(), 5)


def replaced(batch: MicroBatch) -> torch.Tensor:
    """Where (b, s) another token may stand."""
    marks = torch.zeros_like(batch.originals)
    marks.scatter_add_(1, batch.terms["rtd"].positions, batch.terms["rtd"].weights.long())
    return marks.bool()


@pytest.mark.parametrize(("source", "least"), [("unigram", 0), ("random", ORDINARY)])
def test_tokens_are_replaced_without_a_network(source, least):
    _, batch = setting("rtd", f"generator={source}")
    read, original = batch.reading.token_ids, batch.originals
    marks = replaced(batch)
    assert torch.equal(read[~marks], original[~marks])
    drawn = read[marks]
    assert (drawn >= least).all()
    assert (drawn != MASK).all()
    mean = (ORDINARY + VOCAB) / 2  # in unigrams, ids are as common as 1 / (id + 1)
    wanted = (150, 1) if source == "unigram" else (mean, 0.1)
    assert drawn.float().mean() == pytest.approx(*wanted)
    assert batch.masked is None
    assert "mlm" not in batch.terms


def test_a_generator_reads_masks_and_the_encoder_its_guesses():
    resolved, batch = setting(ELECTRA, "generator=0.5")
    assert torch.equal(batch.reading.token_ids, batch.originals)
    assert ((batch.masked.token_ids == MASK) <= replaced(batch)).all()
    guesses = torch.full_like(batch.terms["mlm"].positions, 77)
    after = with_guesses(resolved.stages[0], batch, guesses).reading.token_ids
    assert torch.equal(after == 77, replaced(batch) | (batch.originals == 77))
    # A slot that is not used points at the first token, which nothing replaces.
    assert torch.equal(after[:, 0], batch.originals[:, 0])


def test_a_token_drawn_twice_counts_twice_and_has_one_chance():
    _, batch = setting(ELECTRA, "generator=0.5")
    positions, used = batch.terms["rtd"].positions, batch.terms["rtd"].weights > 0
    again = (positions.diff(dim=1) == 0) & used[:, 1:]
    assert 5 < again.sum() < 100
    assert batch.terms["mlm"].weights[:, 1:][again].all()
    assert (batch.terms["rtd"].chances.diff(dim=1)[again] == 0).all()
    special = batch.originals.gather(1, positions) < ORDINARY
    assert not (special & used).any()
    wanted = (rows(64, SEQ).lengths.double() * 0.15).round().clamp(min=1)
    assert torch.equal(batch.terms["mlm"].weights.sum(1), wanted.float())


def test_draws_follow_the_softmax():
    generator = torch.Generator().manual_seed(1)
    logits = 2 * torch.randn(300, generator=generator)
    logits[::7] = -torch.inf
    many = 50_000
    chances = torch.rand(many, generator=generator, dtype=torch.float64)
    found = draw(logits.softmax(0).expand(many, -1), chances).bincount(minlength=300).double()
    wanted = logits.double().softmax(0) * many
    assert (found[wanted == 0] == 0).all()
    some = wanted > 5
    chi = ((found - wanted)[some] ** 2 / wanted[some]).sum() / some.sum()
    assert 0.7 < chi < 1.3
    # The ends of the range are the first and the last that have a chance at all.
    ends = draw(logits.softmax(0).expand(2, -1), torch.tensor([0.0, 1 - 2**-53]).double())
    assert ends.tolist() == [1, 299]


@pytest.mark.parametrize("vocab", [7, 128, 500])
def test_the_loss_draws_the_same_compiled_or_not(vocab):
    generator = torch.Generator().manual_seed(1)
    x, table = torch.randn(9, 8, generator=generator), torch.randn(vocab, 8, generator=generator)
    bias, targets = torch.zeros(vocab), torch.zeros(9, dtype=torch.long)
    chances = torch.rand(9, generator=generator).double()
    _, _, drawn = vocabulary_loss(x, table, bias, targets, chances)
    until = (x @ table.t()).double().softmax(1).cumsum(1)
    assert torch.equal(drawn, (until <= chances[:, None]).sum(1))


@pytest.mark.parametrize("over", ["all", "masked", "all, add_cls=true", "masked, add_cls=true"])
def test_rtd_is_the_mean_over_the_tokens_it_scores(over):
    resolved, batch = setting(f"rtd(over={over})+mlm", "generator=0.5")
    positions, targets = batch.terms["mlm"][:2]
    batch = with_guesses(resolved.stages[0], batch, torch.where(positions % 2 == 0, targets, 77))
    model = build(resolved)
    batch = batch._replace(reading=batch.reading._replace(output_positions=None))
    states = model.read(batch.reading)
    term = losses(model, batch, states)["rtd"]
    scores = model.heads["rtd"](states)
    other = (batch.reading.token_ids != batch.originals).float()
    each = F.binary_cross_entropy_with_logits(scores, other, reduction="none")
    lengths = rows(64, SEQ).lengths
    real = torch.arange(SEQ) < lengths[:, None]
    where = real if over.startswith("all") else replaced(batch)
    torch.testing.assert_close(term.sum, each[where].sum())
    assert term.count.item() == where.sum()
    assert term.correct.item() == ((scores > 0) == other.bool())[where].sum()
    # A guess that is right is no replacement.
    right = replaced(batch) & (batch.reading.token_ids == batch.originals)
    assert right.sum() > 50
    assert not other[right].any()


@pytest.mark.parametrize("pack", ["", "pack=true format=doc-sentences"])
def test_chosen_tokens_are_read_with_the_first_of_their_example(pack):
    """Gathered states, first ones too, are those that all states of the rows have there."""
    resolved = program("rtd(masked, add_cls=true)+mlm", SEQ, f"generator=0.5 {pack}")
    stage, inputs = resolved.stages[0], rows(8, SEQ, full=bool(pack))
    if pack:
        inputs = inputs._replace(starts=torch.tensor([[0, SEQ // 2]]).expand(8, 2))
    batch = corrupt(stage, inputs, vocab(), 5)
    batch = with_guesses(stage, batch, torch.full_like(batch.terms["mlm"].positions, 77))
    model = build(resolved)
    states = model.read(batch.reading._replace(output_positions=None))
    own = batch.terms["rtd"]
    first = own.positions // (SEQ // 2) * (SEQ // 2) if pack else torch.zeros_like(own.positions)
    chosen, begins = gather_positions(states, own.positions), gather_positions(states, first)
    scores = model.heads["rtd"](chosen, begins)
    other = (batch.reading.token_ids != batch.originals).gather(1, own.positions).float()
    each = F.binary_cross_entropy_with_logits(scores, other, reduction="none")
    few = model.read(batch.reading)
    assert few.shape[1] == 2 * stage.predictions()
    term = losses(model, batch, few)["rtd"]
    torch.testing.assert_close(term.sum, (each * own.classified).sum())
    assert term.count == own.classified.sum() > 20


def gradients(resolved: Resolved, batch: MicroBatch, factors: list[float]) -> Model:
    model = build(resolved).eval()
    objective = make_objective(model, resolved.stages[0], compiled=False)
    loss, *_ = objective(batch, torch.tensor(factors))
    loss.backward()  # type: ignore[no-untyped-call]
    return model


@pytest.mark.parametrize("tie", ["embeddings", "tokens", "none"])
def test_finding_sends_no_gradient_to_the_generator(tie):
    resolved, batch = setting(ELECTRA, f"E=8 generator=network(0.5, tie={tie})")
    own = {n for n, p in gradients(resolved, batch, [50.0, 0.0]).named_parameters()
           if p.grad is not None and p.grad.abs().sum() > 0}  # fmt: skip
    assert not any(name.startswith(("generator.", "heads.mlm.")) for name in own)
    both = gradients(resolved, batch, [50.0, 1.0])
    assert all(p.grad is not None for p in both.parameters())
    assert {n for n, _ in both.named_parameters()} == trained_names(resolved.stages[0])


def test_what_is_tied_shares_storage():
    every = ("token", "position", "segment", "norm")
    for tie, parts in (("embeddings", every), ("tokens", every[:1]), ("none", ())):
        model = build(program(ELECTRA, SEQ, f"E=4 generator=network(0.5, tie={tie})"))
        mine, theirs = model.network("encoder").embeddings, model.network("generator").embeddings
        for part in every:
            same = getattr(mine, part).weight.data_ptr() == getattr(theirs, part).weight.data_ptr()
            assert same == (part in parts), (tie, part)
        if tie != "none":
            assert (theirs.project.weight.shape, mine.project.weight.shape) == ((8, 4), (16, 4))
        assert len(model.state_dict()) == len(dict(model.named_parameters()))


def test_a_generator_as_wide_as_its_tables_has_no_map():
    model = build(program(ELECTRA, SEQ, "E=8 generator { hidden=8 heads=2 tie=none }"))
    assert model.network("generator").embeddings.project is None
    assert model.encoder.embeddings.project is not None


def test_stages_may_train_the_networks_in_turn():
    stages = 'stage "tell" { objective=mlm } stage "find" { objective=rtd }'
    resolved = program("mlm", SEQ, f"generator=1 {stages}")
    tell, find = resolved.stages
    assert [n.name for n in tell.networks()] == ["generator"]
    networks = [(n.name, bool(n.terms)) for n in find.networks()]
    assert networks == [("generator", False), ("encoder", True)]
    assert not any(name.startswith("encoder.attention") for name in trained_names(tell))
    assert not any(name.startswith(("generator.", "heads.mlm")) for name in trained_names(find))
    batch = corrupt(find, rows(64, SEQ), vocab(), 5)
    model = build(resolved)
    loss, statistics, _ = make_objective(model, find, compiled=False)(batch, torch.ones(1))
    loss.backward()  # type: ignore[no-untyped-call]
    assert {n for n, p in model.named_parameters() if p.grad is not None} == trained_names(find)
    assert statistics.shape == (3, 1)


def test_a_copied_token_has_the_probability_of_the_mixture():
    scores_nv, copies_n = torch.randn(3, 7), torch.tensor([2.0, -1.0, 0.0])
    originals_n, inputs_n = torch.tensor([4, 2, 5]), torch.tensor([4, 3, 5])
    share_n1 = copies_n.sigmoid()[:, None]
    mixed_nv = share_n1 * F.one_hot(inputs_n, 7) + (1 - share_n1) * scores_nv.softmax(1)
    expected_n = -mixed_nv.gather(1, originals_n[:, None])[:, 0].log()
    losses_n = F.cross_entropy(scores_nv, originals_n, reduction="none")
    found_n = copied_losses(losses_n, copies_n, inputs_n == originals_n)
    torch.testing.assert_close(found_n, expected_n)


@pytest.mark.parametrize("over", ["masked", "all"])
def test_the_originals_are_predicted_where_tokens_were_replaced(over):
    stage = program(f"restore({over})", 40, "generator=unigram").stages[0]
    batch = corrupt(stage, rows(8, 40), vocab(), 5)
    own = batch.terms["restore"]
    chosen_bs = torch.zeros_like(batch.originals).scatter_add_(1, own.positions, own.weights.long())
    changed_bs = batch.reading.token_ids != batch.originals
    assert changed_bs.any()
    assert not (changed_bs & (chosen_bs == 0)).any()
    chosen = batch.originals if over == "all" else batch.originals.gather(1, own.positions)
    assert torch.equal(own.targets, chosen)
    assert (own.classified.sum() > own.weights.sum()) == (over == "all")
