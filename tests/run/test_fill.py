"""fill, by what a run has learned: masks and who judges them, beginnings, permutations."""

import pytest
import torch

from bertc.base.diagnostics import DataError, UsageError
from bertc.data.vocab.existing import load_vocabulary
from bertc.ir.learning.objective import Clm, Mlm, Nsp, Plm, Rtd, Term
from bertc.ir.network.attention import RelativeAttention
from bertc.ir.network.generator import GeneratorNetwork, UnigramGenerator
from bertc.ir.vocabulary import TokenizerFile
from bertc.learn.objectives import token_logits
from bertc.model import EncoderInputs
from bertc.run.models.loading import load
from bertc.use.fill_mask import _Reader, fill


@pytest.fixture
def run(tiny, tmp_path, go):
    """A run that has learned some objectives for two steps."""

    def make(*objectives, **settings):
        terms = tuple(Term(objective=each) for each in objectives)
        resolved = tiny(objective=terms, steps=2, eval_every=2, **settings)
        go(resolved)
        return tmp_path / "run"

    return make


def test_a_generator_answers_and_the_discriminator_judges(run):
    folder = run(Rtd(), Mlm(), generator=GeneratorNetwork(size=0.5))
    found = fill(folder, "Hens [MASK] and ducks [MASK].", top=2)
    assert len(found.masks) == 2
    best = [candidates[0].token for candidates in found.masks]
    judged = [verdict.token for verdict in found.verdicts]
    assert "[MASK]" not in judged
    assert [token for token in judged if token in best]
    assert all(0 < verdict.replaced < 1 for verdict in found.verdicts)
    assert "probability of being replaced:" in found.summary()
    assert "note: the generator predicts the masks" in found.summary()
    assert not fill(folder, "Hens cackle.").masks


def test_a_judge_alone_judges_and_tells_nothing(run):
    folder = run(Rtd(), generator=UnigramGenerator())
    found = fill(folder, "Hens cackle. " * 20)
    assert len(found.verdicts) > 24  # more than one row holds
    assert not found.masks + found.notes
    with pytest.raises(UsageError, match="not to predict masked ones"):
        fill(folder, "Hens [MASK].")


@pytest.mark.parametrize("memory", [0, 8])
def test_a_causal_model_tells_the_next_token(run, memory):
    settings = {"attention": RelativeAttention(), "memory": memory} if memory else {}
    folder = run(Clm(), **settings)
    found = fill(folder, "Hens cackle in the old", top=3)
    assert found == fill(folder, "Hens cackle in the old", top=3)
    assert found.masks == fill(folder, "Hens cackle in the old [MASK]", top=3).masks
    assert [len(candidates) for candidates in found.masks] == [3]
    with pytest.raises(UsageError, match="only the next token"):
        fill(folder, "Hens [MASK] in the barn")
    with pytest.raises(UsageError, match="empty"):
        fill(folder, " ")


def test_a_permutation_model_fills_masks_that_no_other_token_sees(run):
    folder = run(Plm(), attention=RelativeAttention(untie=True, segments=True))
    found = fill(folder, "Hens [MASK] in the [MASK] barn")
    assert len(found.masks) == 2
    assert not found.notes
    # What stands at a mask is not seen: by itself it changes nothing that is told.
    model = load(folder)
    seen: list[EncoderInputs] = []
    real = model.read

    def watched(reading, network="encoder"):
        seen.append(reading)
        return real(reading, network)

    model.read = watched
    vocabulary = load_vocabulary(TokenizerFile(path=str(folder / "tokenizer")))
    mask = vocabulary.mask
    reader = _Reader(model, vocabulary, 0)
    told = reader.masked([7, mask, 8, mask, 9], [1], Plm())
    order, ids = seen[0].permutation, seen[0].token_ids
    assert order is not None
    other = torch.where(ids == mask, 11, ids)
    with torch.inference_mode():
        hidden = real(seen[0]._replace(token_ids=other))[:, -1]
        scores = token_logits(hidden, model.heads["plm"], model.encoder)
        torch.testing.assert_close(scores, told)


def test_a_run_without_tokens_to_tell(run):
    with pytest.raises(DataError, match="was trained with nsp"):
        fill(run(Nsp()), "Hens [MASK].")
