"""``init``: a run that begins with the weights of another, of an import or of a folder."""

import json
import shutil

import pytest
import torch

import bertc
from bertc.api import resolve
from bertc.base.diagnostics import BertcError, DataError, MissingInputError, ResumeRefusedError
from bertc.ir.changing.growth import FromRun, Identity, Interleave, Tile
from bertc.ir.learning.objective import Mlm, Sop, Term
from bertc.ir.network.norm import PreNorm
from bertc.ir.network.positions import LearnedPositions
from bertc.ir.network.sharing import ShareAll
from bertc.ir.vocabulary import TokenizerFile, WordPiece
from bertc.run.models.loading import read_model
from bertc.run.models.runs import export_run, import_run
from bertc.run.train import session, start
from bertc.run.train.loop import train
from bertc.run.train.session import Session
from tests.run.conftest import same_run, weights

BOTH = (Term(objective=Mlm()), Term(objective=Sop()))


@pytest.fixture(scope="module")
def first(tiny, tmp_path_factory, cache):
    """A run of two steps, which no test changes."""
    folder = tmp_path_factory.mktemp("run") / "first"
    train(tiny(steps=2), folder, cache=cache, quiet=True)
    return folder


@pytest.fixture
def follow(tiny, first):
    """A program that begins from a run, ``first`` unless named, with its vocabulary."""

    def make(source=first, **settings):
        kept = source / "tokenizer"
        vocab = TokenizerFile(path=str(kept if kept.is_dir() else source), size=120)
        return tiny(**{"vocab": vocab, "init": FromRun(path=str(source)), **settings})

    return make


def first_weights(resolved, out, options, monkeypatch):
    """What a run begins with, by name: it is ended before its first step."""
    found = {}

    def end(self, stage):
        found.update({n: p.detach().clone() for n, p in self.model.named_parameters()})
        raise KeyError

    with monkeypatch.context() as patch:
        patch.setattr(Session, "enter", end)
        with pytest.raises(KeyError):
            train(resolved, out, **options)
    return found


def test_training_goes_on_from_a_finished_run(follow, first, tmp_path, options, monkeypatch):
    before = weights(first)
    begun = first_weights(follow(steps=20), tmp_path / "second", options, monkeypatch)
    assert begun.keys() == before.keys()
    assert all(torch.equal(begun[name], before[name]) for name in begun)
    report = train(follow(steps=20), tmp_path / "second", resume=True, **options)
    assert report.step == 20
    lock = json.loads((tmp_path / "second" / "lock.json").read_text())
    assert len(lock["init"]) == 64


def test_unreadable_weights_are_reported_before_text_is_prepared(
    follow, first, tmp_path, options, monkeypatch
):
    damaged = shutil.copytree(first, tmp_path / "damaged")
    for path in (damaged / "checkpoints").glob("*/weights.safetensors"):
        path.write_bytes(b"damaged")
    monkeypatch.setattr(start, "prepare", lambda *_: pytest.fail("text was prepared"))
    with pytest.raises(DataError, match="undamaged"):
        train(follow(damaged, steps=20), tmp_path / "second", **options)


def test_heads_are_taken_where_both_have_them(tiny, follow, first, tmp_path, options, monkeypatch):
    train(tiny(objective=BOTH, steps=2), tmp_path / "both", **options)
    only = follow(tmp_path / "both", objective=(Term(objective=Mlm()),))
    begun = first_weights(only, tmp_path / "less", options, monkeypatch)
    assert all(torch.equal(begun[n], weights(tmp_path / "both")[n]) for n in begun)
    begun = first_weights(follow(objective=BOTH), tmp_path / "more", options, monkeypatch)
    drawn = first_weights(tiny(objective=BOTH), tmp_path / "drawn", options, monkeypatch)
    assert torch.equal(begun["heads.sop.weight"], drawn["heads.sop.weight"])
    assert torch.equal(begun["heads.mlm.bias"], weights(first)["heads.mlm.bias"])


def test_deeper_than_the_source_it_grows(tiny, follow, first, tmp_path, options, monkeypatch):
    shared = tmp_path / "shared"
    train(tiny(steps=2, share=ShareAll()), shared, **options)
    before = weights(shared)
    begun = first_weights(follow(shared, layers=4), tmp_path / "unshared", options, monkeypatch)
    for number in range(4):
        name = "encoder.ffn.{}.inner.weight"
        assert torch.equal(begun[name.format(number)], before[name.format(0)])
    before = weights(first)
    deep = follow(stages={"a": {"layers": 3, "grow": Interleave()}, "b": {"layers": 6}})
    begun = first_weights(deep, tmp_path / "deep", options, monkeypatch)
    assert [
        source
        for number in range(3)
        for source in range(2)
        if torch.equal(begun[name.format(number)], before[name.format(source)])
    ] == [0, 0, 1]
    train(deep, tmp_path / "deep", resume=True, **options)
    assert len(read_model(tmp_path / "deep")[0].encoder.layers) == 6


def test_folders_of_either_layout_serve(follow, first, tmp_path, options, monkeypatch):
    export_run(first, tmp_path / "hf")
    import_run(tmp_path / "hf", tmp_path / "imported")
    before = weights(first)
    for source in ("hf", "imported"):
        resolved = follow(tmp_path / source)
        begun = first_weights(resolved, tmp_path / f"of {source}", options, monkeypatch)
        assert all(torch.equal(begun[name], before[name]) for name in before)


def test_the_vocabulary_is_that_of_the_source_unless_written(first, tmp_path):
    init = f'init="{first}"'
    resolved = resolve(f"{init} hidden=32")
    assert resolved.vocabulary.path == str(first / "tokenizer")
    assert resolved.vocabulary.size == 120
    assert resolve(f"{init} vocab=wordpiece(99)").vocabulary.size == 99
    assert resolve(f"extends bert-mini seq=24 {init}").vocabulary.size == 120
    (tmp_path / "mine.bertc").write_text("hidden=32 vocab=wordpiece(99)")
    mine = str(tmp_path / "mine.bertc")
    assert resolve(mine).vocabulary.size == 99
    assert resolve(mine, (init,)).vocabulary.size == 120
    assert resolve(mine, (init, "vocab=wordpiece(99)")).vocabulary.size == 99


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": 1}, "it has 2 layers, but this network 1"),
        ({"hidden": 48, "ffn": 64, "heads": 2},
         "encoder.embeddings.token.weight is 120 x 32 there and 120 x 48 here"),
        ({"embedding": 16}, "encoder.embeddings.token.weight is 120 x 32 there and 120 x 16 here"),
        ({"share": ShareAll()}, "its encoder.attention.1.key.bias has no place here"),
        ({"norm": PreNorm()}, "it has no encoder.norm.bias"),
        ({"segments": 0}, "its encoder.embeddings.segment.weight has no place here"),
        ({"layers": 4, "grow": Identity()}, "grow=identity needs norm=pre"),
        ({"positions": LearnedPositions(rows=30)}, "position.weight is 24 x 32"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(follow, tmp_path, options, settings, message):
    with pytest.raises(DataError) as refused:
        train(follow(**settings), tmp_path / "second", **options)
    assert message in refused.value.message
    assert refused.value.help
    assert not (tmp_path / "second" / "resolved.json").exists()


def test_a_wider_network_begins_as_the_tiled_one(follow, first, tmp_path, options, monkeypatch):
    before = weights(first)
    wide = follow(layers=3, hidden=48, ffn=160, heads=3, grow=Tile())
    begun = first_weights(wide, tmp_path / "second", options, monkeypatch)
    hidden, ffn, heads = ((torch.arange(n) - (n - m) // 2) % m for n, m in
                          ((48, 32), (160, 128), (48, 32)))  # fmt: skip
    for part, rows, columns in (
        ("attention.{}.value", heads, hidden),
        ("ffn.{}.inner", ffn, hidden),
        ("ffn.{}.outer", hidden, ffn),
    ):
        own = begun[f"encoder.{part.format(2)}.weight"]
        theirs = before[f"encoder.{part.format(1)}.weight"]
        assert torch.equal(own, theirs[rows][:, columns])
    for name in ("heads.mlm.norm.weight", "heads.mlm.dense.bias"):
        assert torch.equal(begun[name], before[name][hidden])
    assert torch.equal(begun["heads.mlm.bias"], before["heads.mlm.bias"])
    with pytest.raises(DataError, match="there and 48 x 24 here"):  # never narrower
        train(follow(layers=3, hidden=48, ffn=24, heads=3, grow=Tile()),
              tmp_path / "third", **options)  # fmt: skip


def test_other_tokens_are_refused(follow, tmp_path, options):
    for vocab in (WordPiece(size=60), WordPiece(size=120, lower=False)):
        with pytest.raises(DataError, match="tokens and this run's .* there and .* here") as found:
            train(follow(vocab=vocab), tmp_path / "second", **options)
        assert "leave vocab out" in found.value.help


def test_from_python_too_a_module_begins_from_its_source(follow, first):
    before = weights(first)
    begun = dict(bertc.build(follow()).named_parameters())
    assert all(torch.equal(begun[name], before[name]) for name in before)
    deep = follow(stages={"a": {"layers": 3}, "b": {"layers": 6}})
    assert len(bertc.build(deep).encoder.node.layers) == 3  # as training begins


def test_sources_that_are_deeper_or_not_there_are_refused(follow, first, tmp_path, options):
    with pytest.raises(DataError) as refused:
        train(follow(layers=1), tmp_path / "second", **options)
    assert refused.value.help.startswith("layers=2, as it has")
    with pytest.raises(MissingInputError):
        train(follow(init=FromRun(path=str(tmp_path / "none"))), tmp_path / "run", **options)


def test_resuming_needs_the_source_only_before_the_first_checkpoint(
    tiny, follow, first, tmp_path, options, monkeypatch
):
    source = shutil.copytree(first, tmp_path / "source")
    resolved = follow(source)
    train(resolved, tmp_path / "straight", **options)
    first_weights(resolved, tmp_path / "early", options, monkeypatch)

    def stop_after_the_first(parent, newest, keep, stay):
        raise DataError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(session.checkpoints, "remove_older", stop_after_the_first)
        with pytest.raises(BertcError):
            train(resolved, tmp_path / "late", **options)
    shutil.rmtree(source)
    train(tiny(steps=5), source, **options)
    with pytest.raises(ResumeRefusedError, match="the weights of init: sha256"):
        train(resolved, tmp_path / "early", resume=True, **options)
    train(resolved, tmp_path / "late", resume=True, **options)
    same_run(tmp_path / "straight", tmp_path / "late")
