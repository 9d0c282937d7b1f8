"""The bag of tokens: means by hand, padding and pairs, counts, runs, what it starts from."""

import json
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bertc.api import points, resolve
from bertc.data import vocabulary_of
from bertc.diagnostics import DataError, MissingInputError, SpecError, StoppedError
from bertc.estimate import estimate
from bertc.estimate.execution import ANY
from bertc.estimate.rules import cost
from bertc.external import network_of
from bertc.interop.loading import load
from bertc.ir import operation as op
from bertc.ir.program.model import model_weights
from bertc.ir.terms.positions import of_all_positions
from bertc.nn import EncoderInputs, build
from bertc.nn.bag import Bag
from bertc.nn.weights import initial_values
from bertc.train import finish
from bertc.train.beginning.init_tables import TABLE, principal_components, token_states
from bertc.train.loop import train
from tests.bench.memory import allocated_bytes
from tests.fixes import apply_fixes
from tests.net.programs import FARM, PROGRAMS, TOY
from tests.train.test_training import stop_after

CASES = ["bag(20)", "bag(20, pool=weighted)", "bag(20, units=7)"]
LENGTHS = (11, 7, 5)


def body_of(setting: str, objective: str = "mlm") -> Bag:
    resolved = resolve(f"body={setting} vocab=wordpiece(100) seq=32 dropout=0 "
                       f"objective={objective}")  # fmt: skip
    body = build(resolved).encoder.eval()
    assert isinstance(body, Bag)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in body.parameters():
            parameter.uniform_(-0.4, 0.4, generator=generator)
    return body


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    ids_bs = torch.randint(5, 100, (3, 11), generator=torch.Generator().manual_seed(0))
    return ids_bs, torch.arange(11) < torch.tensor(LENGTHS)[:, None]


@pytest.mark.parametrize("setting", CASES)
def test_texts_are_means_of_their_tokens_and_pairs_are_compared(setting: str) -> None:
    body = body_of(setting, "nsp")
    ids_bs, real_bs = rows()
    second_bs = (torch.arange(11) >= 4).long().expand_as(ids_bs)
    inputs = EncoderInputs(ids_bs, second_bs, real_bs)
    pooled_b1p = body.pool(body(inputs, torch.float32).last, inputs)
    table, scale = body.tokens.weight, torch.ones(100, 1)
    if "weighted" in setting:
        scale = body.embeddings["scale"].weight
    for row, length in enumerate(LENGTHS):
        first, second = ids_bs[row, :4], ids_bs[row, 4:length]
        u, v = ((scale[text] * table[text]).mean(dim=0) for text in (first, second))
        assert body.pooler is not None
        wanted = torch.relu(body.pooler(torch.cat([u, v, u * v, (u - v).abs()])))
        assert torch.allclose(pooled_b1p[row, 0], wanted, atol=1e-6)


@pytest.mark.parametrize("objective", ["mlm", "mlm+nsp"])
@pytest.mark.parametrize("setting", [*CASES, "bag(20, pairs=joined)"])
def test_what_is_counted_is_what_is_built_and_computed(setting: str, objective: str) -> None:
    resolved = resolve(f"body={setting} vocab=wordpiece(100) seq=32 objective={objective}")
    model = build(resolved, device="meta")
    told = estimate(resolved, "cpu")
    assert told.parameters.total == sum(each.numel() for each in model.parameters())
    with FlopCounterMode(display=False) as counter:
        model.read(EncoderInputs(torch.zeros(4, 32, dtype=torch.long, device="meta")))
    call = op.Call(rows=4, tokens=32, queries=32)
    stated = resolved.encoder.operations(call).operations()
    assert counter.get_total_flops() == sum(cost(each, ANY).flops for each in stated)


@pytest.mark.parametrize("body", ["bag(64)", "bag(64, pool=weighted)"])
def test_the_peak_is_what_the_allocator_gave_out(body: str) -> None:
    fixed = "vocab=2k seq=64 batch=16 steps=100 compile=off device=cpu precision=fp32"
    resolved = resolve(f"body={body} {fixed}", ["microbatch=16"])
    estimated = estimate(resolved, "cpu").memory.peak_bytes
    assert estimated == pytest.approx(allocated_bytes(resolved), rel=0.1)


def spec(name: str, body: str, **changed: str) -> str:
    settings = {**TOY, **PROGRAMS[name], **changed, "body": body}
    of_transformers = ("layers", "hidden", "heads", "ffn")
    return " ".join(f"{k}={v}" for k, v in settings.items() if v and k not in of_transformers)


@pytest.fixture(autouse=True)
def in_the_farm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FARM)
    monkeypatch.setattr(finish, "plot", lambda lines, path: path.touch())


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two layers, 32 wide, that learned mlm."""
    folder = tmp_path_factory.mktemp("teacher") / "bert"
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(FARM)
        patched.setattr(finish, "plot", lambda lines, path: path.touch())
        text = " ".join(f"{name}={value}" for name, value in {**TOY, "objective": "mlm"}.items())
        train(points(text)[0], folder, cache=folder.parent / "cache", quiet=True)
    return folder


@pytest.mark.parametrize(
    ("name", "body"),
    [("glue", "bag(16)"), ("classify", "bag(16, pool=weighted)"), ("tagging", "bag(16)"),
     ("race", "bag(16)"), ("mlm", "bag(16)")],
)  # fmt: skip
def test_it_learns_and_goes_on_to_the_bit(
    name: str, body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (resolved,) = points(spec(name, body, dropout="0.1"))
    cache = tmp_path / "cache"
    train(resolved, tmp_path / "straight", cache=cache, quiet=True)
    with pytest.raises(StoppedError):
        stop_after(
            monkeypatch, 2, lambda: train(resolved, tmp_path / "run", cache=cache, quiet=True)
        )
    train(resolved, tmp_path / "run", cache=cache, quiet=True, resume=True)
    one, other = (load(tmp_path / each).state_dict() for each in ("straight", "run"))
    assert all(torch.equal(one[each], other[each]) for each in one)
    assert network_of(tmp_path / "run")["body"] == resolved.encoder.settings()["body"]


def test_it_learns_from_a_teacher(bert: Path, tmp_path: Path) -> None:
    beside = {"vocab": "", "init": f'bag-of("{bert}")', "teacher": f'"{bert}"'}
    (resolved,) = points(spec("mlm", "bag(16)", **beside, objective="2*kd(logits) + mlm"))
    train(resolved, tmp_path / "run", cache=tmp_path / "cache", quiet=True)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert all(
        {"kd(logits)", "mlm"} == {*of_all_positions(json.loads(line)["losses"])} for line in lines
    )


@pytest.mark.parametrize("pool", ["mean", "weighted"])
def test_it_begins_as_what_a_network_makes_of_each_token(
    pool: str, bert: Path, tmp_path: Path
) -> None:
    """The states of one token by hand; components that keep the distances; Zipf's numbers."""
    beside = {"vocab": "", "init": f'bag-of("{bert}")', "optimizer": "adam(lr=1e-9, warmup=0)"}
    (resolved,) = points(spec("glue", f"bag(16, pool={pool})", **beside))
    train(resolved, tmp_path / "run", cache=tmp_path / "cache", quiet=True)
    model, vocabulary = load(bert), vocabulary_of(bert, resolved.encoder.vocab_size)
    states_vh, _ = token_states(bert, "cpu")
    token = 40
    row = torch.tensor([[vocabulary.cls, token, vocabulary.sep]])
    assert torch.allclose(states_vh[token], model.encode(row)[0].mean(0), atol=1e-5)
    plain = [at for at in range(vocabulary.size) if not vocabulary.special[at]]
    components_ve, share = principal_components(states_vh[plain], 16)
    centred_vh = states_vh[plain] - states_vh[plain].mean(0)
    _, singular, axes = torch.linalg.svd(centred_vh)
    wanted = centred_vh @ axes[:16].T
    assert torch.allclose(components_ve @ components_ve.T, wanted @ wanted.T, atol=1e-4)
    assert share == pytest.approx(float(singular[:16].square().sum() / singular.square().sum()))
    found = load(tmp_path / "run").state_dict()
    table = found["encoder.embeddings.token.weight"]
    zipf = torch.log(1 + torch.arange(1.0, len(table) + 1))[:, None]
    if pool == "weighted":
        assert torch.allclose(found["encoder.embeddings.scale.weight"], zipf, atol=1e-4)
    else:
        table = table / zipf
    assert torch.allclose(table[plain], components_ve, atol=1e-4)
    assert torch.allclose(table[vocabulary.cls], torch.zeros(16), atol=1e-6)
    lock = json.loads((tmp_path / "run" / "lock.json").read_text())
    assert "init" in json.dumps(lock)


def test_vectors_of_a_file_are_rows_of_a_table(tmp_path: Path) -> None:
    file = tmp_path / "v.txt"
    file.write_text("hens 1 2 3 4\nthe 0.5 0 0 1\nunheard 9 9 9 9\n")
    beside = {"vocab": "words(60)", "init": f'vectors("{file}")', "freeze": "embeddings"}
    (resolved,) = points(spec("glue", "bilstm(8)", embedding="4", **beside))
    train(resolved, tmp_path / "run", cache=tmp_path / "cache", quiet=True)
    model = load(tmp_path / "run")
    vocabulary = vocabulary_of(tmp_path / "run", resolved.encoder.vocab_size)
    table = model.encoder.tokens.weight
    hens = vocabulary.tokenizer.token_to_id("hens")
    assert table[hens].tolist() == [1, 2, 3, 4]  # and it is not trained
    drawn = {weight.name: weight for weight in model_weights(resolved)}[TABLE]
    other = vocabulary.tokenizer.token_to_id("ducks")
    assert torch.equal(table[other], initial_values(drawn, 0)[other])
    beside["freeze"] = "0"
    (resolved,) = points(spec("glue", "bilstm(8)", embedding="4", **beside))
    train(resolved, tmp_path / "trained", cache=tmp_path / "cache", quiet=True)
    assert load(tmp_path / "trained").encoder.tokens.weight[hens].tolist() != [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("lines", "message"),
    [("hens 1 2 3 4\nducks 1 2\n", "v.txt:2: 2 numbers, not 4 as before"),
     ("xyzzy 1 2 3 4\n", "is a token of the vocabulary")],
)  # fmt: skip
def test_vectors_that_do_not_fit_are_refused(lines: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "v.txt"
    file.write_text(lines)
    beside = {"vocab": "words(60)", "init": f'vectors("{file}")', "embedding": "4"}
    (resolved,) = points(spec("glue", "bilstm(8)", **beside))
    with pytest.raises(DataError, match=message):
        train(resolved, tmp_path / "run", cache=tmp_path / "cache", quiet=True)


def test_vectors_that_are_not_there_are_missed_before_text_is_read(tmp_path: Path) -> None:
    beside = {"vocab": "words(60)", "init": 'vectors("none.txt")', "embedding": "4"}
    (resolved,) = points(spec("glue", "bilstm(8)", **beside))
    with pytest.raises(MissingInputError, match="none.txt is not there"):
        train(resolved, tmp_path / "run", cache=tmp_path / "cache", quiet=True)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("body", ["bilstm(8) embedding=4", "bag(4)", "bag"])
def test_the_width_of_vectors_is_put_right_by_the_help(body: str, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("hens 1 2\n")
    text = f"body={body} vocab=words(60) init=vectors('{tmp_path / 'v.txt'}')"
    with pytest.raises(SpecError) as refused:
        resolve(text)
    (found,) = refused.value.diagnostics
    assert (found.code, bool(found.fix)) == ("E400", True)
    assert "has 2 numbers for a word, and the token table " in found.message
    resolve(apply_fixes(found.fix.span.source, [found]))


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ("body=bag heads=4", "E228"),
        ("body=bag embedding=4", "E228"),
        ("body=bag objective=clm", "E229"),
        ('body=bilstm vocab=words init=bag-of("a")', "E269"),
        ('vocab=words table=adaptive([20]) init=vectors("a")', "E269"),
        ("freeze=tables", "E108"),
        ("freeze=positions body=bilstm", "E274"),
        ("freeze=positions positions=rotary", "E274"),
        ('body=bag objective=kd(hidden)+mlm teacher=spec("bert-tiny")', "E287"),
    ],
)
def test_what_it_cannot_do_is_refused(wrong: str, code: str) -> None:
    with pytest.raises(SpecError) as refused:
        resolve(wrong)
    assert code in {each.code for each in refused.value.diagnostics}


def test_a_wider_bag_than_its_network_is_refused(bert: Path, tmp_path: Path) -> None:
    beside = {"vocab": "", "init": f'bag-of("{bert}")'}
    (resolved,) = points(spec("glue", "bag(64)", **beside))
    with pytest.raises(DataError, match="less than the 64 of the bag"):
        train(resolved, tmp_path / "run", cache=tmp_path / "cache", quiet=True)
