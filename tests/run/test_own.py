"""Parts of the user's own: as built-in kinds where they are the same, and refused where wrong."""

import json
import linecache
import os
import re
import shutil
import sys
import types
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import bertc
from bertc.api import points, resolve
from bertc.api.spec import Spec
from bertc.base.diagnostics import DataError, ResumeRefusedError, SpecError, UnsafeError
from bertc.base.failures import exit_code
from bertc.cost import estimate
from bertc.cost.figures import ANY
from bertc.cost.rules import cost
from bertc.ir.network.ffn import OwnFfn
from bertc.ir.program import model_weights
from bertc.lab.results.diff import diff
from bertc.model import EncoderInputs, build
from bertc.model.own import construct, load_class
from bertc.model.weights import initialise
from bertc.run.records.changes import refuse_another_program
from bertc.run.records.folder import RunFolder
from bertc.run.train.loop import train
from tests.bench.rig import make_step, random_rows
from tests.conftest import RUN_RECORDER
from tests.learn.material import ORDINARY, chosen, corrupted, rows
from tests.net.programs import FARM
from tests.run.conftest import lines

SIZES = "layers=2 hidden=32 heads=2 ffn=48 vocab=60 seq=24 batch=4 steps=20 dropout=0 "
WHOLE = "layers=3 hidden=256 heads=4 ffn=1024 vocab=2000 seq=256 batch=8 steps=20 "
WHOLE += "objective=rtd generator=random "  # which reads all last states
SAME = {
    **{f"mlp, {a}": (f"activation={a}", "ffn", f"Mlp', width=FFN, activation='{a}'")
       for a in ("gelu", "relu", "silu")},
    "geglu": ("activation=geglu", "ffn", "Glu', width=FFN, activation='gelu'"),
    "swiglu": ("activation=swiglu", "ffn", "Glu', width=FFN, activation='silu'"),
    "attention": ("", "attention", "Attention'"),
    "gated": ("attention=full(gate=sigmoid)", "attention", "Attention', gated=true"),
    "norm": ("norm=pre(eps=1e-12)", "norm=pre", "Norm'"),
    "norm after": ("", "norm=post", "Norm'"),
    "rms": ("norm=pre(eps=1e-12, function=rms)", "norm=pre", "RmsNorm'"),
    "residual": ("norm=pre", "norm=pre(eps=1e-5) residual", "Added'"),
    "activation": ("", "activation", "Bent'"),
    "rotary": ("positions=rotary(100)", "positions", "Turned', on=heads, theta=100.0"),
    "learned": ("positions=SEQ", "positions", "Placed', most=SEQ"),
}  # fmt: skip
"""A built-in kind, its setting, and the class that is the same."""
PLACED = ("norm=pre", "norm=post")


@pytest.fixture(autouse=True)
def beside_the_parts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(FARM / "own_parts.py", tmp_path)


def own_spec(setting, code, ffn):
    text = f"own('own_parts.py:{code.replace('FFN', ffn)})"
    return f"{setting}(function={text})" if setting in PLACED else f"{setting}={text}"


def alike(case, sizes):
    (seq,) = (part.removeprefix("seq=") for part in sizes.split() if part.startswith("seq="))
    built_in, setting, code = (text.replace("SEQ", seq) for text in SAME[case])
    (ffn,) = (part.removeprefix("ffn=") for part in sizes.split() if part.startswith("ffn="))
    rest = sizes.replace(f"ffn={ffn} ", "") if setting == "ffn" else sizes
    return resolve(sizes + built_in), resolve(rest + own_spec(setting, code, ffn))


@pytest.mark.parametrize("case", SAME)
def test_a_part_learns_what_the_built_in_kind_does(case):
    models = [build(program).double() for program in alike(case, SIZES)]
    initialise(models[0], model_weights(models[0].resolved), 0)
    plain = models[0].state_dict()
    models[1].load_state_dict({n: plain[n.replace(".own.", ".")] for n in models[1].state_dict()})
    ids = torch.randint(5, 60, (4, 24), generator=torch.Generator().manual_seed(0))
    real = torch.arange(24) < torch.tensor([[24], [20], [9], [1]])
    inputs = EncoderInputs(ids, attention_mask=real)
    learned = []
    for model in models:
        model.compute_dtype, losses = torch.float64, []
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        for _ in range(4):
            states = model.read_on(inputs).last[real]
            loss = F.mse_loss(states, states.detach().roll(1, 0) + 1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        learned.append((losses, {n: w.grad for n, w in model.named_parameters()}))
    assert learned[0][0] == pytest.approx(learned[1][0], rel=1e-9)
    for name, gradient in learned[1][1].items():
        torch.testing.assert_close(gradient, learned[0][1][name.replace(".own.", ".")])


@pytest.mark.parametrize("case", SAME)
def test_a_part_costs_what_the_built_in_kind_does(case):
    of_kind, of_own = (estimate(program, "h200") for program in alike(case, WHOLE))
    assert of_own.parameters.total == of_kind.parameters.total
    for stage, other in zip(of_own.stages, of_kind.stages, strict=True):
        assert stage.flops == other.flops
        own, built_in = (one.memory.activations_bytes for one in (stage, other))
        assert own == pytest.approx(built_in, rel=0.03)


def own(name, more=""):
    return f"own('own_parts.py:{name}'{more})"


MIXED = f"ffn={own('Experts')} attention={own('Convolution', ', full_every=2')} "
MIXED += f"norm=pre(function={own('Tanh')}) residual={own('Gated')}"
UNIT = f"mlm(unit={own('Pairs')}, masking=static(2))"
OTHERS = f"activation={own('Sloped')} positions={own('Sloped')} share=attention"
BODY = f"body={own('Mixer', ', hidden=32')}"
TERM = f"objective={UNIT}+0.1*rtd(over=masked)+0.5*{own('Detected')} generator=0.5"
WAVES = own("Cosine", ", cycles=2")
RULE = f"optimizer={own('Lion', f', lr=1e-3, warmup=2, schedule={WAVES}')}"
TRUST = RULE.replace("Lion'", "Adam', trust=true")
GROWN = "stage 'a' { layers=1 steps=2 } stage 'b' { layers=2 steps=4 } "
RESUMED = [
    MIXED, f"share=ffn ffn={own('Numbered')}", TERM, OTHERS, BODY,
    f"{RULE} objective=rtd+mlm generator=0.5 average=ema(2)",
    f"{GROWN} grow=stack(moments=carry) {TRUST}", f"optimizer={own('Sign', ', lr=1e-3')}",
    f"stage 'a' {{ steps=2 }} stage 'b' {{ steps=4 {RULE} }}",
]  # fmt: skip


@pytest.mark.parametrize("settings", RESUMED)
def test_runs_of_parts_resume_to_the_bit_without_their_file(resumes, tiny, corpus_file, settings):
    often = "steps=6 eval_every=3 save_every=100"
    text = f"{BODY} vocab=wordpiece(120) data=files('{corpus_file}') seq=24 batch=8 precision=fp32"
    resolved = resolve(f"{text} holdout=0.2 {often}") if settings == BODY else tiny(settings, often)
    Path("own_parts.py").unlink()
    resumes(resolved, 1, 3)


def test_a_rule_and_a_schedule_learn_and_cost_what_the_built_in_ones_do(go, tiny, tmp_path):
    how = "lr=1e-3, warmup=2, clip=0.1, schedule="
    pair = f"adamw({how}cosine(10%), bias_correction=false)", own("Adam", f", {how}COS")
    cosine = own("Cosine", ", end=0.1")
    programs = [tiny(f"optimizer={text.replace('COS', cosine)}", steps=20) for text in pair]
    for name, program in zip(("built in", "own"), programs, strict=True):
        go(program, name)
    of_kind, of_own = (lines(tmp_path / name, "train") for name in ("built in", "own"))
    for one, other in zip(of_kind, of_own, strict=True):
        assert (other["lr"], other["step"]) == (one["lr"], one["step"])
        assert other["loss"] == pytest.approx(one["loss"], rel=1e-6)
    sizes = WHOLE.replace("batch=8", "batch=64")
    large = (f"{sizes} optimizer={text.replace('COS', cosine)}" for text in pair)
    of_kind, of_own = (estimate(resolve(text), "cpu").stages[0] for text in large)
    assert of_own.memory == of_kind.memory
    assert of_own.time.seconds_per_step == pytest.approx(of_kind.time.seconds_per_step, rel=0.1)


def test_moments_of_a_rule_are_the_other_arguments_of_its_update():
    states = [resolve(f"{SIZES} {rule}").stages[0].optimizer.state for rule in (RULE, TRUST)]
    assert states == [("mean",), ("first", "second")]
    nears = points(f"{SIZES} {RULE.replace('lr=', 'near={0.9, 0.95}, lr=')}")
    assert [dict(p.stages[0].optimizer.arguments)["near"] for p in nears] == [0.9, 0.95]


def test_a_changed_file_is_a_changed_program_and_its_lines_are_shown(tiny):
    before, text = tiny(MIXED), Path("own_parts.py").read_text()
    Path("own_parts.py").write_text(text.replace("begin: float = 0.5", "begin: float = 0.6"))
    assert (after := tiny(MIXED)).fingerprint != before.fingerprint
    assert OwnFfn(code="a:B", arguments=(("n", 1),)) != OwnFfn(code="a:B", arguments=(("n", 1.0),))
    caught = pytest.raises(ResumeRefusedError, refuse_another_program, before, after)
    for name, program in {"a": before, "b": after}.items():
        Path(name).mkdir()
        RunFolder(Path(name)).start(program, "")
    for said in (caught.value.message, diff("a", "b").as_table()):
        assert """norm: pre(function=own("own_parts.py:Tanh")) -> """ in said
        (was, now) = (line for line in said.split("\n") if line[:5] in ("-    ", "+    "))
        assert was.endswith("begin: float = 0.5):")
        assert now.endswith("begin: float = 0.6):")


HELPS = {
    f"objective=clm+2*{own('Detected')}": f"objective=clm or objective=2*{own('Detected')}",
    f"objective={own('Detected')}+{own('Detected')}": f"objective={own('Detected')}",
    f"adapt=lora(on=ffn) ffn={own('Experts')}": "on=attention",
    f"adapt=lora attention={own('Attention')} ffn={own('Experts')}": "adapt=none",
}


@pytest.mark.parametrize("text", HELPS)
def test_a_help_names_what_there_is(text):
    caught = pytest.raises(SpecError, resolve, f"layers=2 hidden=32 heads=2 vocab=60 seq=24 {text}")
    assert caught.value.diagnostics[0].help == HELPS[text]


def test_pairs_are_of_maps_that_are_not_the_users():
    attention = f"attention={own('Attention', ', full_every=2')} adapt=lora(4, on=query)"
    model = build(resolve(f"{SIZES.replace('layers=2', 'layers=3')} {attention}"))
    pairs = [name for name, _ in model.named_parameters() if name.endswith("lora_a")]
    assert pairs == [f"encoder.attention.{layer}.query.lora_a" for layer in (0, 2)]


def test_a_unit_that_masks_nothing_is_named(tiny, tmp_path, capsys):
    train(tiny(f"objective=mlm(unit={own('Never')})", steps=3), tmp_path / "run", cache=tmp_path)
    assert "mlm masks no token of the first batch" in capsys.readouterr().err


def test_code_that_torch_does_not_compile_is_named(capsys):
    part = resolve(f"{SIZES} residual={own('Printing')}").encoder.residual
    module = construct(part, {"hidden": 32})
    with pytest.raises(RuntimeError) as caught:
        torch.compile(module, backend="eager", fullgraph=True)(*torch.ones(2, 1, 4, 32))
    assert exit_code(caught.value, color=False) == 65
    assert """: print("{}")\nwrite that with tensors""" in capsys.readouterr().err


def test_a_rule_whose_change_is_not_finite_spoils_no_weight():
    text = f"{SIZES} optimizer=own('own_parts.py:Faulty', how='late')"
    step = make_step(resolved := resolve(text), 2)
    batch = step.read(random_rows(resolved))
    for number in range(4):
        step(batch, number, 1e-3)
    with pytest.raises(DataError, match="update 5: own_parts.py:Faulty changes .* not finite"):
        step(batch, 4, 1e-3)
    assert all(weight.isfinite().all() for weight in step.parameters.values())


def test_a_term_learns_and_costs_what_the_built_in_one_beside_it_does():
    text = f"{SIZES} generator=unigram format=blocks objective=rtd+{own('Detected')}"
    stage = (resolved := resolve(text)).stages[0]
    costs = [[cost(one, ANY) for one in of] for of in stage.networks()[0].heads_apart(4)]
    assert sum(one.train_flops for one in costs[0]) == sum(one.train_flops for one in costs[1])
    of_kind, of_own = (sum(one.kept for one in of) for of in costs)
    assert of_own == pytest.approx(of_kind, rel=0.03)
    step = make_step(resolved, 2)
    pairs = {"weight": "score.weight", "bias": "score.bias"}
    pairs |= {f"dense.{name}": f"dense.{name}" for name in ("weight", "bias")}
    heads = step.parameters
    for name, of_own in pairs.items():
        heads[f"heads.Detected.{of_own}"].data.copy_(heads[f"heads.rtd.{name}"].data)
    for number in range(5):
        losses = step(step.read(random_rows(resolved)), number, 1e-3).losses
        assert losses["Detected"] == pytest.approx(losses["rtd"], rel=1e-5)
    for name, of_own in pairs.items():
        torch.testing.assert_close(heads[f"heads.Detected.{of_own}"], heads[f"heads.rtd.{name}"])


PAIRS = Path(__file__).with_name("own_refused.txt").read_text().splitlines()
REFUSED = dict(pair.split(" => ") for pair in PAIRS)
"""Specs with a part that cannot be, and why."""


@pytest.mark.parametrize("text", REFUSED)
def test_a_part_that_cannot_be_is_refused_with_its_reason(text, tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below/broken.py").write_text("class Experts(\n")
    (tmp_path / "below/linked.py").symlink_to(tmp_path / "own_parts.py")
    (tmp_path / "below/own_helped.py").write_text("from own_parts import Glu as Helped\n")
    shutil.copy("own_parts.py", "below")
    os.chdir("below")
    with pytest.raises(SpecError, match="E390") as caught:
        resolve(text if "body" in text else f"layers=2 hidden=32 heads=2 vocab=60 seq=24 {text}")
    (found,) = caught.value.diagnostics
    assert REFUSED[text] in found.message.replace(str(tmp_path), "")
    if "Raising" in text:
        assert found.help == "own_parts.py:157: return x @ x"


def test_code_is_never_run_without_permission(tmp_path, monkeypatch, command, capsys):
    spec = f"{SIZES} norm=pre(function={own('Marked')})"
    with Path("own_parts.py").open("a") as file:
        file.write("\n\nopen('marked', 'w').close()\nMarked = Norm\n")
    Path("mine.bertc").write_text(spec.replace(" ", "\n"))
    monkeypatch.delenv("BERTC_OWN")
    for name in ("check", "estimate", "fmt", "build"):
        command(name, "mine.bertc")
    assert not Path("marked").exists()
    assert "own_parts.py:Marked is code, which runs with your rights" in capsys.readouterr().out
    monkeypatch.setenv("BERTC_OWN", "yes")
    resolved = resolve(spec)
    assert Path("marked").exists()
    monkeypatch.delenv("BERTC_OWN")
    load_class.cache_clear()
    pytest.raises(UnsafeError, build, resolved).match("is code")


def test_the_recorder_answers_from_a_process():
    """Whatever the class prints, and as here."""
    part = resolve(f"{SIZES} residual={own('Printing')}").encoder.residual
    request = {"code": part.code, "arguments": [], "source": part.source}
    sizes = [{"hidden": 32, "heads": 2, "head_dim": 16, "layer": 0}]
    answer = RUN_RECORDER({"own": request, "place": "residual", "sizes": sizes})
    recorded = [recording.model_dump(mode="json") for recording in part.recordings]
    assert json.loads(json.dumps(answer["recordings"])) == recorded


@pytest.mark.parametrize("more", ["", ", count=stochastic", ", mask_specials=true, p=50%"])
def test_a_unit_of_words_masks_what_the_built_in_one_does(more):
    inputs = rows(300, 48)
    units = "word", own("Pairs", ", longest=1")
    masked = [corrupted(f"mlm(unit={unit}{more})", inputs) for unit in units]
    assert torch.equal(masked[0].reading.token_ids, masked[1].reading.token_ids)
    assert all(map(torch.equal, *(batch.terms["mlm"][:3] for batch in masked)))


def test_a_unit_is_masked_whole_never_with_minus_one_and_ends_at_special_tokens():
    inputs, unit = rows(300, 24), own("Pairs", ", longest=1000, never='20'")
    marks = chosen(corrupted(f"mlm(60%, unit={unit})", inputs))
    inside = (inputs.token_ids >= ORDINARY) & (inputs.token_ids != 20)
    assert not (marks & ~inside).any()
    assert not (marks.diff(dim=1) & inside[:, 1:] & inside[:, :-1]).any()
    last = marks.gather(1, inputs.lengths[:, None] - 2)[:, 0]
    assert (marks[:, 1] != last).any()  # of documents of one row
    pytest.raises(SpecError, resolve, f"vocab=60 objective=mlm(unit={unit})+sbo").match("E205")


def test_a_body_of_another_kind_has_terms_too():
    (stage,) = resolve(f"body=bilstm(8) vocab=60 objective=mlm+{own('Detected')}").stages
    assert [term.name for term in stage.objective] == ["mlm", "Detected"]


CELL = """
from torch import nn
WIDTH = 8

def doubled(x):
    return 2 * x

class Cell(nn.Module):
    def __init__(self, hidden: int, rate: float = 0.5):
        super().__init__()
        self.maps = nn.Linear(hidden, WIDTH)
        self.rate, self.outer = rate, nn.Linear(WIDTH, hidden)

    def forward(self, x):
        return self.outer(doubled(self.maps(x)) * self.rate)
"""


def test_a_class_of_a_notebook_is_a_value(monkeypatch):
    monkeypatch.delenv("BERTC_OWN")
    notebook = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    cell = "<ipython-input-1>"
    monkeypatch.setitem(linecache.cache, cell, (len(CELL), None, CELL.splitlines(True), cell))
    exec(compile(CELL, cell, "exec"), vars(notebook))
    spec = Spec(SIZES.replace("ffn=48 ", ""), ffn=bertc.own(notebook.Cell, rate=2.0))
    with pytest.raises(UnsafeError, match="is code"):
        load_class(f"{CELL}# of others", "__main__.py:Cell")
    assert spec.resolve().encoder.ffn.source.startswith("import torch.nn as nn")
    rows = EncoderInputs(torch.ones(1, 4, dtype=torch.long))
    assert spec.build().read_on(rows).last.shape == (1, 4, 32)


def test_a_class_of_a_module_on_the_path(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    Path("below").mkdir()
    monkeypatch.chdir("below")
    text = f"{SIZES.replace('ffn=48 ', '')} ffn=own('own_parts:Mlp', width=8)"
    assert resolve(text).encoder.ffn.source == Path(tmp_path / "own_parts.py").read_text()


LINES = {
    f"ffn={own('Late')}": 'assert x.shape[1] != 24, "24 tokens"',
    f"optimizer={own('Faulty', ', how=true')}": '_ = self.how == "late" or 1 / max(0, 5 - step)',
}


@pytest.mark.parametrize("text", LINES)
def test_an_error_in_a_run_has_the_line_of_the_file(go, tiny, capsys, text):
    caught = pytest.raises((AssertionError, ZeroDivisionError), go, tiny(text))
    assert exit_code(caught.value, color=False) == 65
    assert re.search(rf"own_parts.py:\d+: {re.escape(LINES[text])}", capsys.readouterr().err)
