"""``init``: a run that begins with the weights of another, an import or a folder.
With all of them, with chosen layers, or with the embeddings alone.
"""

import json
import re
import shutil
from typing import Any

import pytest
import torch

import bertc
from bertc.api import points, resolve
from bertc.base.diagnostics import (
    BertcError,
    DataError,
    MissingInputError,
    ResumeRefusedError,
    SpecError,
)
from bertc.ir.vocabulary import TokenizerFile
from bertc.run.beginning.init_from import source_of
from bertc.run.models.loading import read_model
from bertc.run.models.runs import export_run, import_run
from bertc.run.train import session, start
from bertc.run.train.loop import train
from tests.net.programs import TOY
from tests.run.conftest import same_run, text, weights

BOTH = "mlm + sop"


@pytest.fixture(scope="module")
def first(tiny, tmp_path_factory, cache):
    """A run of two steps, which no test changes."""
    folder = tmp_path_factory.mktemp("run") / "first"
    train(tiny(steps=2), folder, cache=cache, quiet=True)
    return folder


@pytest.fixture
def follow(tiny, first):
    """A program that begins from a run, ``first`` unless named, with its vocabulary."""

    def make(written="", source=first, **settings):
        kept = source / "tokenizer"
        if "vocab" not in written:
            settings["vocab"] = TokenizerFile(path=str(kept if kept.is_dir() else source), size=120)
        return tiny(written, **{"init": f"'{source}'", **settings})

    return make


def test_it_goes_on_from_runs_or_folders_of_any_layout(follow, first, tmp_path, first_weights, go):
    before = weights(first)
    begun = first_weights(follow(steps=20), "second")
    assert begun.keys() == before.keys()
    assert all(torch.equal(begun[name], before[name]) for name in begun)
    assert go(follow(steps=20), "second", resume=True).step == 20
    assert len(json.loads((tmp_path / "second" / "lock.json").read_text())["init"]) == 64
    export_run(first, tmp_path / "hf")
    import_run(tmp_path / "hf", tmp_path / "imported")
    before = weights(first)
    for source in ("hf", "imported"):
        begun = first_weights(follow(source=tmp_path / source), f"of {source}")
        assert all(torch.equal(begun[name], before[name]) for name in before)


def test_sources_damaged_or_absent_are_told_before_text(follow, first, tmp_path, monkeypatch, go):
    damaged = shutil.copytree(first, tmp_path / "damaged")
    for path in (damaged / "checkpoints").glob("*/weights.safetensors"):
        path.write_bytes(b"damaged")
    monkeypatch.setattr(start, "prepare", lambda *_: pytest.fail("text was prepared"))
    pytest.raises(DataError, go, follow(source=damaged, steps=20), "second").match("undamaged")
    pytest.raises(MissingInputError, go, follow(init=f"'{tmp_path}/none'"), "run")


def test_heads_are_taken_where_both_have_them(tiny, follow, first, tmp_path, first_weights, go):
    go(tiny(objective=BOTH, steps=2), "both")
    begun = first_weights(follow(source=tmp_path / "both", objective="mlm"), "less")
    assert all(torch.equal(begun[n], weights(tmp_path / "both")[n]) for n in begun)
    begun = first_weights(follow(objective=BOTH), "more")
    drawn = first_weights(tiny(objective=BOTH), "drawn")
    assert torch.equal(begun["heads.sop.weight"], drawn["heads.sop.weight"])
    assert torch.equal(begun["heads.mlm.bias"], weights(first)["heads.mlm.bias"])


def test_deeper_than_the_source_it_grows(tiny, follow, first, tmp_path, first_weights, go):
    go(tiny("steps=2 share=all"), "shared")
    before = weights(tmp_path / "shared")
    begun = first_weights(follow("layers=4", source=tmp_path / "shared"), "unshared")
    for number in range(4):
        name = "encoder.ffn.{}.inner.weight"
        assert torch.equal(begun[name.format(number)], before[name.format(0)])
    before = weights(first)
    deep = follow('stage "a" { layers=3 grow=interleave } stage "b" { layers=6 }')
    begun = first_weights(deep, "deep")
    at = name.format
    same = [s for n in range(3) for s in range(2) if torch.equal(begun[at(n)], before[at(s)])]
    assert same == [0, 0, 1]
    go(deep, "deep", resume=True)
    assert len(read_model(tmp_path / "deep")[0].encoder.layers) == 6


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


@pytest.mark.parametrize(("settings", "message"), [
    ("layers=1", "it has 2 layers, but this network 1"),
    ("hidden=48 ffn=64", "embeddings.token.weight is 120 x 32 there and 120 x 48 here"),
    ("embedding=16", "embeddings.token.weight is 120 x 32 there and 120 x 16 here"),
    ("share=all", "its encoder.attention.1.key.bias has no place here"),
    ("norm=pre", "it has no encoder.norm.bias"),
    ("segments=0", "its encoder.embeddings.segment.weight has no place here"),
    ("layers=4 grow=identity", "grow=identity needs norm=pre"),
    ("positions=learned(30)", "position.weight is 24 x 32"),
    ("vocab=wordpiece(60)", "tokens and this run's .* there and .* here"),
    ("vocab=wordpiece(120, lower=false)", "tokens and this run's .* there and .* here"),
])  # fmt: skip
def test_what_does_not_fit_is_named(follow, tmp_path, settings, message, go):
    with pytest.raises(DataError, match=message) as refused:
        go(follow(settings), "second")
    ways = {"layers=1": "layers=2, as it has", "vocab": "leave vocab out"}
    way = next((way for of, way in ways.items() if settings.startswith(of)), "")
    assert refused.value.help
    assert way in refused.value.help
    assert not (tmp_path / "second" / "resolved.json").exists()


def test_a_wider_network_begins_as_the_tiled_one(follow, first, first_weights, go):
    before = weights(first)
    begun = first_weights(follow("layers=3 hidden=48 ffn=160 heads=3 grow=tile"), "second")
    sizes = ((48, 32), (160, 128), (48, 32))
    hidden, ffn, heads = ((torch.arange(n) - (n - m) // 2) % m for n, m in sizes)
    for part, rows, columns in (
        ("attention.{}.value", heads, hidden),
        ("ffn.{}.inner", ffn, hidden),
        ("ffn.{}.outer", hidden, ffn),
    ):
        own = begun[f"encoder.{part.format(2)}.weight"]
        assert torch.equal(own, before[f"encoder.{part.format(1)}.weight"][rows][:, columns])
    for name in ("heads.mlm.norm.weight", "heads.mlm.dense.bias"):
        assert torch.equal(begun[name], before[name][hidden])
    assert torch.equal(begun["heads.mlm.bias"], before["heads.mlm.bias"])
    with pytest.raises(DataError, match="there and 48 x 24 here"):  # never narrower
        go(follow("layers=3 hidden=48 ffn=24 heads=3 grow=tile"), "third")


def test_from_python_too_a_module_begins_from_its_source(follow, first):
    before = weights(first)
    begun = dict(bertc.build(follow()).named_parameters())
    assert all(torch.equal(begun[name], before[name]) for name in before)
    deep = follow('stage "a" { layers=3 } stage "b" { layers=6 }')
    assert len(bertc.build(deep).encoder.node.layers) == 3  # as training begins


def test_resuming_needs_the_source_only_before_the_first_checkpoint(
    tiny, follow, first, tmp_path, monkeypatch, first_weights, go
):
    source = shutil.copytree(first, tmp_path / "source")
    resolved = follow(source=source)
    go(resolved, "straight")
    first_weights(resolved, "early")

    def stop_after_the_first(parent, newest, keep, stay):
        raise DataError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(session.checkpoints, "remove_older", stop_after_the_first)
        pytest.raises(BertcError, go, resolved, "late")
    shutil.rmtree(source)
    go(tiny(steps=5), "source")
    with pytest.raises(ResumeRefusedError, match="the weights of init: sha256"):
        go(resolved, "early", resume=True)
    go(resolved, "late", resume=True)
    same_run(tmp_path / "straight", tmp_path / "late")


DEEP = {**TOY, "layers": "4", "heads": "[1, 2, 2, 1]", "objective": "mlm", "steps": "2"}
SMALL = {**TOY, "vocab": "", "steps": "4", "objective": "mlm"}
pytestmark = pytest.mark.usefixtures("in_the_farm")


@pytest.fixture
def deep(farm_run):
    """A network of four layers, not all with as many heads, that learned mlm."""
    return farm_run(text(DEEP))


def student(init, **changed):
    open_ = dict.fromkeys(("layers", "hidden", "heads", "ffn", "segments"), "")
    return points(text({**SMALL, **open_, "init": init, **changed}))[0]


def begun(resolved):
    return dict(bertc.build(resolved).named_parameters())


def layer_of(weights, number):
    parts = (f"encoder.attention.{number}.", f"encoder.ffn.{number}.")
    return [weights[name] for name in sorted(weights) if name.startswith(parts)]


@pytest.mark.parametrize(("chosen", "own", "taken"), [
    ("[3, 0]", "", [3, 0]),
    ("[1, 1, 2]", "", [1, 1, 2]),
    ("uniform", "2", [1, 3]),
    ("first", "3", [0, 1, 2]),
    ("top", "2", [2, 3]),
    ("top", "", [0, 1, 2, 3]),
])  # fmt: skip
def test_layers_are_the_chosen_ones(deep, chosen, own, taken):
    resolved = student(f'layers("{deep}", {chosen})', layers=own)
    old, there = read_model(deep)
    here = begun(resolved)
    layers = resolved.stages[0].encoder.layers  # type: ignore[union-attr]
    assert [layer.heads for layer in layers] == [old.encoder.layers[n].heads for n in taken]  # type: ignore[union-attr]
    for number, source in enumerate(taken):
        pairs = zip(layer_of(here, number), layer_of(there, source), strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)
    rest = [n for n in here if not n.startswith(("encoder.attention.", "encoder.ffn."))]
    assert all(torch.equal(here[name], there[name]) for name in rest)


def test_chosen_layers_go_on_are_listed_and_need_no_path_of_their_own(deep, resumes):
    source = source_of(student(f'layers("{deep}", [0, 2])', segments="0"))
    lines = [line.partition(": ")[2] for line in source.lines()]
    assert "layers 0, 2" in lines
    assert "its encoder.embeddings.segment.weight is left out" in lines
    changed = {"teacher": f'"{deep}"', "objective": "kd(logits)+mlm"}
    one = student("layers(teacher, [0, 3])", **changed)
    other = student(f'layers("{deep}", [0, 3])', **changed)
    assert one.fingerprint() == other.fingerprint()
    # The attention of an ``init`` replaced no attention, and the help still says one.
    with pytest.raises(SpecError, match="attention=relative"):
        points(f'init="{deep}"', [f'init=layers("{deep}", [0, 1]) memory=4'])
    resumes(student(f'layers("{deep}", [0, 2])'), 2)


@pytest.mark.parametrize(("init", "changed", "problem"), [
    ("layers({}, [0, 1, 2])", {"layers": "2"}, "names 3 layers, and this network has 2"),
    ("layers({}, [0, 4])", {}, "names layer 4 of 4, counted from 0"),
    ("layers({}, first)", {"layers": "5"}, "there are 4 layers, and this network has 5"),
    ("layers({}, uniform)", {"layers": "3"}, "4 layers are no multiple of the 3"),
    ("layers({}, first)", {"hidden": "16", "heads": "1"}, "x 32 there and .*16 here"),
    ("layers({}, [0, 1])", {"share": "all", "heads": "1"}, "layers 1 and 0 share their"),
    ("{}", {"layers": "2", "heads": "1"}, r"begin with some of them, as in init=layers\("),
])  # fmt: skip
def test_layers_that_are_not_there_or_do_not_fit_are_refused(deep, init, changed, problem):
    with pytest.raises((SpecError, DataError)) as refused:
        bertc.build(student(init.format(f'"{deep}"'), **changed))
    error: Any = refused.value
    error_text = str(error) if isinstance(error, SpecError) else f"{error.message} {error.help}"
    assert re.search(problem, error_text), error_text
