"""Programs as files of PyTorch: what they compute, count and read like."""

import ast
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from bertc.api import resolve
from bertc.base.diagnostics import DataError
from bertc.cost import estimate
from bertc.model import build
from bertc.use.source.checking import check_source, load_source, random_weights, run_source
from bertc.use.source.file import emit_source

TINY = "layers=3 hidden=32 heads=2 seq=24 steps=1 vocab=wordpiece(60)"
PROGRAMS = (
    "objective=mlm+nsp",
    "objective=mlm+sop share=all E=16 ffn=48",
    "objective=span share=attention positions=rotary(10000, scale=2) norm=pre activation=geglu",
    "objective=mlm attention=local(8, global_every=3) norm=pre(bias=false) "
    "positions=rotary(160000, local_theta=10000)",
    "objective=mlm positions=alibi norm=post(function=rms) activation=relu "
    "residual=plain(30) table=whole(dropped=5)",
    "objective=mlm positions=bucketed(24, buckets=8, distance=16) dropout=0",
    "objective=mlm attention=disentangled(8, 16) positions=none segments=0 "
    "head=transform(decoder=24)",
    "objective=10*rtd+mlm generator=network(0.5)",
    "objective=plm attention=relative(segments=true) positions=none",
    "objective=clm attention=relative positions=none norm=post table=adaptive([20, 40])",
    "objective=clm positions=sinusoidal attention=full(kv_heads=1, norm=rms)",
    "objective=mlm residual=dwa norm=pre(affine=false, context=true) attention=full(gate=gelu) "
    "head=transform(affine=false, dropout=0.1)",
)
"""One of each kind of network."""
ALONE = {"torch", "json", "math", "pathlib"}
"""What a file may import."""


@pytest.mark.parametrize("settings", PROGRAMS)
def test_a_file_computes_what_the_modules_do(settings):
    resolved = resolve(f"{TINY} {settings}")
    source = emit_source(resolved)
    check_source(source, resolved)
    network = load_source(source, random_weights(resolved))
    counted = sum(weight.numel() for weight in network.parameters())
    assert counted == estimate(resolved, "h200").parameters.total
    assert max(map(len, source.splitlines())) <= 100
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import)]
    assert {name.name.split(".")[0] for node in imports for name in node.names} <= ALONE


def test_a_file_that_computes_something_else_is_refused():
    resolved = resolve(f"{TINY} objective=mlm")
    changed = emit_source(resolved).replace("self.norm(x_bse)", "self.norm(x_bse) * 1.001")
    with pytest.raises(DataError, match="differs from the program by .*; nothing was written"):
        check_source(changed, resolved)


def test_layers_are_a_loop_and_shared_ones_one_module():
    alike = emit_source(resolve(f"{TINY} objective=mlm"))
    assert "for attention, ffn in zip(self.attention, self.ffn):" in alike
    shared = emit_source(resolve(f"{TINY} objective=mlm share=all"))
    assert "for _ in range(LAYERS):" in shared
    assert "self.attention[0](x" in shared


def test_a_file_runs_alone_and_loads_the_weights_of_a_run(tmp_path):
    resolved = resolve(f"{TINY} objective=mlm")
    (tmp_path / "tiny.py").write_text(emit_source(resolved))
    model = build(resolved)
    save_file(dict(model.state_dict()), tmp_path / "weights.safetensors")
    loading = "import runpy; tiny = runpy.run_path('tiny.py', run_name='__main__'); model = "
    loading += "tiny['Model'](); tiny['load'](model, 'weights.safetensors'); "
    loading += "print(float(model.encoder.embeddings.token.weight.detach().sum()))"
    command = [sys.executable, "-c", loading]  # in a folder that has no bertc
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    *shown, loaded_sum = ran.stdout.splitlines()
    assert f"{sum(w.numel() for w in model.parameters()):,} parameters" in shown
    assert "mlm (2, 16, 60)" in shown
    assert float(loaded_sum) == float(model.encoder.tokens.weight.detach().sum())


def test_a_file_can_be_trained_by_its_first_weights_and_its_loss():
    source = emit_source(resolve(f"{TINY} objective=10*rtd+mlm generator=network(0.5) dropout=0"))
    functions, token_ids = run_source(source), torch.arange(48).view(2, 24)
    model, loss = functions["Model"](), functions["loss"]
    functions["initialise"](model)
    known = token_ids % 5 == 0
    labels = {"mlm": token_ids.where(known, -100), "rtd": token_ids % 2}
    scores = model(token_ids)
    expected = -scores["mlm"].log_softmax(-1)[known].gather(1, token_ids[known][:, None]).mean()
    torch.testing.assert_close(loss(scores["mlm"], labels["mlm"]), expected)
    yes = scores["rtd"].sigmoid()
    expected = -torch.where(token_ids % 2 == 1, yes, 1 - yes).log().mean()
    torch.testing.assert_close(loss(scores["rtd"], labels["rtd"]), expected)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        scores = model(token_ids)
        total = sum(loss(scores[name], labels[name]) for name in labels)
        losses.append(total.item())
        total.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert losses[-1] < losses[0]
