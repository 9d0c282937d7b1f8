"""The bidirectional LSTM and its table of vectors: torch's own equations, runs, refusals."""

from functools import partial
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.flop_counter import FlopCounterMode

from bertc.api import points, resolve
from bertc.base.diagnostics import DataError, MachineError, MissingInputError, SpecError
from bertc.check.facts.networks import compare_init, network_of
from bertc.cost import estimate
from bertc.cost.figures import ANY
from bertc.cost.planning.plan import Fit, Machine, plan
from bertc.cost.rules import cost
from bertc.hub.leaving.exporting import export_model
from bertc.ir import operation as op
from bertc.ir.program.resolved import model_weights
from bertc.model import EncoderInputs, build
from bertc.model.weights import initial_values
from bertc.run.beginning.init_from import TABLE
from bertc.run.models.loading import load
from bertc.run.records.changes import changed
from bertc.run.train.loop import train
from bertc.text.vocab.vocabulary import vocabulary_of
from tests.fixes import apply_fixes
from tests.hub.programs import Wordless, tensors
from tests.net.programs import PROGRAMS, TOY
from tests.run.conftest import lines as metrics, resumed_is_the_same

LENGTHS = (11, 7, 1)
CASES = ["bilstm(20)", "bilstm(20, layers=2)"]
pytestmark = pytest.mark.usefixtures("in_the_farm")


def body_of(setting, objective="mlm"):
    settings = "vocab=wordpiece(100) embedding=12 seq=32 steps=5 batch=4 dropout=0"
    body = build(resolve(f"body={setting} {settings} objective={objective}")).encoder.eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in body.parameters():
            parameter.uniform_(-0.4, 0.4, generator=generator)
    return body


def torchs_own(body):
    """torch.nn.LSTM with the same weights."""
    node = body.node
    reference = torch.nn.LSTM(
        node.embedding, node.lstm.hidden, node.depth, batch_first=True, bidirectional=True
    )
    weights = {
        f"{leaf}_{letter}_l{number}{suffix}": direction.get_parameter(f"{ours}.{leaf}")
        for number, layer in enumerate(body.recurrence)
        for direction, suffix in ((layer.right, ""), (layer.left, "_reverse"))
        for ours, letter in (("input", "ih"), ("state", "hh"))
        for leaf in ("weight", "bias")
    }
    reference.load_state_dict(weights)
    return reference


def rows(seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids_bs = torch.randint(5, 100, (len(LENGTHS), max(LENGTHS)), generator=generator)
    return ids_bs, torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


@pytest.mark.parametrize("setting", CASES)
def test_states_and_gradients_are_those_of_torch(setting):
    body = body_of(setting)
    reference = torchs_own(body)
    ids_bs, real_bs = rows()
    ours = body(EncoderInputs(ids_bs, torch.zeros_like(ids_bs), real_bs), torch.float32).last
    packed = pack_padded_sequence(body.tokens(ids_bs), torch.tensor(LENGTHS), batch_first=True)
    expected, _ = pad_packed_sequence(reference(packed)[0], batch_first=True)
    assert torch.allclose(ours[real_bs], expected[real_bs], atol=1e-6)
    ours[real_bs].square().sum().backward()
    table = body.tokens.weight.grad
    body.tokens.weight.grad = None
    expected[real_bs].square().sum().backward()
    assert torch.allclose(table, body.tokens.weight.grad, atol=1e-5)
    for number, layer in enumerate(body.recurrence):
        wanted = reference.get_parameter(f"weight_hh_l{number}_reverse").grad
        assert torch.allclose(layer.left.state.weight.grad, wanted, atol=1e-5)


@pytest.mark.parametrize("setting", CASES)
def test_padding_changes_nothing(setting):
    body = body_of(setting)
    ids_bs, real_bs = rows()
    inputs = EncoderInputs(ids_bs, torch.zeros_like(ids_bs), real_bs)
    states_bsd = body(inputs, torch.float32).last
    pooled_b1p = body.pool(states_bsd, inputs)
    for row, length in enumerate(LENGTHS):
        alone = EncoderInputs(ids_bs[row : row + 1, :length])
        own = body(alone, torch.float32).last
        assert torch.allclose(states_bsd[row, :length], own[0], atol=1e-6)
        assert torch.allclose(pooled_b1p[row], body.pool(own, alone)[0], atol=1e-6)


def test_a_row_is_the_last_state_of_each_direction():
    body = body_of("bilstm(20, units=7)", "nsp")
    ids_bs, real_bs = rows()
    body.node = body.node.model_copy(update={"texts": 1})
    body.pooler = None
    inputs = EncoderInputs(ids_bs, None, real_bs)
    packed = pack_padded_sequence(body.tokens(ids_bs), torch.tensor(LENGTHS), batch_first=True)
    wanted_bd = torchs_own(body)(packed)[1][0].permute(1, 0, 2).flatten(1)
    found_b1d = body.pool(body(inputs, torch.float32).last, inputs)
    assert torch.allclose(found_b1d[:, 0], wanted_bd, atol=1e-6)


def test_texts_of_a_pair_are_read_apart_and_compared():
    body = body_of("bilstm(20, units=7)", "nsp")
    ids_bs, real_bs = rows()
    second_bs = (torch.arange(max(LENGTHS)) >= 4).long().expand_as(ids_bs)
    inputs = EncoderInputs(ids_bs, second_bs, real_bs)
    states_bsd = body(inputs, torch.float32).last
    pooled_b1p = body.pool(states_bsd, inputs)
    single = body_of("bilstm(20)")
    single.load_state_dict(body.state_dict(), strict=False)
    for row, length in enumerate(LENGTHS):
        each = []
        for begin, end in ((0, min(4, length)), (4, length)):
            if end <= begin:
                each.append(torch.zeros(40))
                continue
            alone = EncoderInputs(ids_bs[row : row + 1, begin:end])
            own = single(alone, torch.float32).last
            assert torch.allclose(states_bsd[row, begin:end], own[0], atol=1e-6)
            each.append(single.pool(own, alone)[0, 0])
        u, v = each
        wanted = torch.relu(body.pooler(torch.cat([u, v, u * v, (u - v).abs()])))
        assert torch.allclose(pooled_b1p[row, 0], wanted, atol=1e-6)


@pytest.mark.parametrize("objective", ["mlm", "mlm+nsp"])
@pytest.mark.parametrize("setting", CASES)
def test_what_is_counted_is_what_is_built_and_computed(setting, objective):
    resolved = resolve(f"body={setting} vocab=wordpiece(100) embedding=12 seq=8 "
                       f"objective={objective}")  # fmt: skip
    model = build(resolved, device="meta")
    estimated = estimate(resolved, "cpu")
    assert estimated.parameters.total == sum(each.numel() for each in model.parameters())
    assert [part.part for part in estimated.stages[0].where][:2] == ["embeddings", "recurrence"]
    with FlopCounterMode(display=False) as counter:
        model.read(EncoderInputs(torch.zeros(4, 8, dtype=torch.long, device="meta")))
    stated = resolved.encoder.operations(op.Call(rows=4, tokens=8, queries=8)).operations()
    assert counter.get_total_flops() == sum(cost(each, ANY).flops for each in stated)


def spec(name, body, **beside):
    """The text of a tiny program of that body."""
    settings = {**TOY, **PROGRAMS[name], **beside, "body": body}
    of_transformers = ("layers", "hidden", "heads", "ffn", "share")
    return " ".join(f"{k}={v}" for k, v in settings.items() if v and k not in of_transformers)


@pytest.mark.parametrize("name", ["mlm", "nsp", "classify", "glue", "tagging", "race"])
def test_it_learns_and_goes_on_to_the_bit(name, tmp_path, monkeypatch):
    body = "bilstm(16, layers=2)" if name == "mlm" else "bilstm(16)"
    (resolved,) = points(spec(name, body, dropout="0.1"))
    go, run = partial(train, resolved, cache=tmp_path / "cache", quiet=True), tmp_path / "broken"
    resumed_is_the_same(go, monkeypatch, tmp_path, 2)
    assert all(line["loss"] < 10 for line in metrics(run))
    assert network_of(run)["body"] == resolved.encoder.settings()["body"]
    again = resolve(f'init="{run}" objective=mlm steps=3')
    assert again.encoder.settings()["body"] == resolved.encoder.settings()["body"]


def test_another_body_is_neither_begun_from_nor_gone_on_with(tmp_path):
    (lstm,) = points(spec("mlm", "bilstm(16)"))
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "resolved.json").write_text(lstm.model_dump_json())
    other = resolve(f'init="{folder}" body=transformer layers=1 hidden=32 vocab=wordpiece(120)')
    refused = pytest.raises(DataError, compare_init, other)
    assert "it is a bilstm, and this network a transformer" in refused.value.message
    (wider,) = points(spec("mlm", "bilstm(16, units=9)"))
    change, *_ = changed(lstm, wider)
    assert str(change) == "body: bilstm(hidden=16) -> bilstm(hidden=16, units=9)"


def test_it_runs_eager_and_a_network_that_it_teaches_is_compiled():
    machine, fits = Machine("cuda", "a card", 2**34, True, cores=8), (Fit(4, 4, recompute=False),)
    own = "body=bilstm vocab=wordpiece(100) seq=32 steps=5 batch=4"
    found = plan(resolve(own), machine, fits)
    assert not found.compile
    assert "compile=off: a network of body=bilstm is never compiled" in found.reasons
    with pytest.raises(MachineError):
        plan(resolve(f"{own} compile=on"), machine, fits)
    taught = "objective=mlm+kd(logits) teacher=spec('body=bilstm vocab=100') compile=on"
    resolved = resolve(f"layers=1 hidden=16 heads=2 vocab=100 seq=32 steps=5 batch=4 {taught}")
    assert plan(resolved, machine, fits).compile


def test_no_hugging_face_layout_has_it(tmp_path):
    resolved: Any = resolve("body=bilstm(16) vocab=wordpiece(100) embedding=8 seq=32")
    with pytest.raises(DataError) as refused:
        export_model(resolved, tensors(resolved), Wordless(0), tmp_path / "m", strict=True)
    assert refused.value.message.startswith("body=bilstm stands in the way: ")


def test_vectors_of_a_file_are_rows_of_a_table(tmp_path):
    file = tmp_path / "v.txt"
    file.write_text("hens 1 2 3 4\nthe 0.5 0 0 1\nunheard 9 9 9 9\n")
    resolved = begun_with(file, tmp_path / "run", freeze="embeddings")
    vocabulary = vocabulary_of(tmp_path / "run", resolved.encoder.vocab_size)
    table = load(tmp_path / "run").encoder.tokens.weight
    hens = vocabulary.tokenizer.token_to_id("hens")
    assert table[hens].tolist() == [1, 2, 3, 4]  # and it is not trained
    drawn = {weight.name: weight for weight in model_weights(resolved)}[TABLE]
    other = vocabulary.tokenizer.token_to_id("ducks")
    assert torch.equal(table[other], initial_values(drawn, 0)[other])
    begun_with(file, tmp_path / "trained", freeze="0")
    assert load(tmp_path / "trained").encoder.tokens.weight[hens].tolist() != [1, 2, 3, 4]


def begun_with(file, run, **beside):
    """A run of which the table begins with the vectors of a file."""
    beside |= {"vocab": "words(60)", "init": f'vectors("{file}")', "embedding": "4"}
    (resolved,) = points(spec("glue", "bilstm(8)", **beside))
    train(resolved, run, cache=run.with_name("cache"), quiet=True)
    return resolved


@pytest.mark.parametrize(
    ("lines", "message"),
    [("hens 1 2 3 4\nbees 1 2 3 4\nducks 1 2\n", "v.txt:3: 2 numbers, not 4 as before"),
     ("xyzzy 1 2 3 4\n", "is a token of the vocabulary")],
)  # fmt: skip
def test_vectors_that_do_not_fit_are_refused(lines, message, tmp_path):
    file, run = tmp_path / "v.txt", tmp_path / "run"
    pytest.raises(MissingInputError, begun_with, file, run).match("v.txt is not there")
    assert not (tmp_path / "cache").exists(), "before text is read"
    file.write_text(lines)
    pytest.raises(DataError, begun_with, file, run).match(message)


@pytest.mark.parametrize("body", ["bilstm(8) embedding=4", "transformer", "bilstm(8)"])
def test_the_width_of_vectors_is_put_right_by_the_help(body, tmp_path):
    (tmp_path / "v.txt").write_text("hens 1 2\n")
    text = f"body={body} vocab=words(60) init=vectors('{tmp_path / 'v.txt'}')"
    (found,) = pytest.raises(SpecError, resolve, text).value.diagnostics
    assert found.code == "E400"
    assert "has 2 numbers for a word, and the token table " in found.message
    resolve(apply_fixes(found.span.source, [found]))
