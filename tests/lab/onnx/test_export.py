"""ONNX graphs: their outputs beside the modules', what is refused, and what is in a folder."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import bertc
from bertc.base.diagnostics import DataError, MissingInputError, UsageError
from bertc.ir.learning.answer import Span, Tags
from bertc.lab.onnx.folder import export_onnx
from bertc.lab.onnx.runtime import GraphSession
from bertc.lab.onnx.tracing import compare, to_onnx
from bertc.learn.objectives import MicroBatch, token_logits
from bertc.model import EncoderInputs, gather_positions
from bertc.run.evaluation import task_inference
from bertc.run.evaluation.tasks import evaluate_files
from bertc.run.models.loading import load as load_model
from bertc.use.graph import graph_of
from bertc.use.trained import load
from tests.hub.programs import tensors
from tests.lab.onnx.conftest import NETWORK, TEXTS, run_of

ONE_LAYER = NETWORK.replace("layers=2", "layers=1")
WIDE = ONE_LAYER.replace("hidden=24 heads=3 ffn=40", "hidden=128 heads=2")
"""Wide enough that the exporter would lay the attention's maps side by side within the graph."""
BILSTM = "body=bilstm(8) vocab=wordpiece(97) seq=8 device=cpu "
LAYERS_APART = (
    "norm=pre(function=rms) activation=swiglu(bias=false) head=linear(tied=false) "
    "attention=local(4, global_every=2, kv_heads=1, norm=rms) positions=rotary "
    "table=whole(dropped=7)"
)


def model_of(spec: str) -> bertc.model.Model:
    resolved = bertc.resolve(spec)
    model = bertc.model.build(resolved)
    model.load_state_dict(tensors(resolved))
    return model.eval()


def rows(batch: int, length: int) -> dict[str, torch.Tensor]:
    """Inputs of which the last row is part padding."""
    generator = torch.Generator().manual_seed(batch)
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[-1, length - length // 3 :] = 0
    ids = torch.randint(97, (batch, length), generator=generator)
    segments = (torch.arange(length) > length // 2).long().expand(batch, -1) * mask
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}


def same(found: np.ndarray, expected: torch.Tensor) -> None:
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_states_and_heads_are_those_of_the_module():
    model = model_of(f"{NETWORK} {LAYERS_APART} objective=mlm+sop format=segment-pair")
    session = GraphSession(to_onnx(graph_of(model)))
    assert session.outputs == ("last_hidden_state", "pooled", "mlm")
    for batch, length in ((1, 2), (3, 7), (2, 24)):
        given = rows(batch, length)
        found = session({name: tensor.numpy() for name, tensor in given.items()})
        states = model.encode(given["input_ids"], given["token_type_ids"], given["attention_mask"])
        same(found["last_hidden_state"], states)
        same(found["pooled"], model.pool(states))
        mask, segments = given["attention_mask"].bool(), given["token_type_ids"]
        reading = EncoderInputs(given["input_ids"], segments, mask)
        read = model.read_for(model.resolved.terms()[0].objective, reading)
        logits = token_logits(read.flatten(0, 1), model.heads["mlm"], model.encoder)
        same(found["mlm"], logits.view(batch, length, -1))


def test_an_lstm_is_exported():
    graph = graph_of(model_of(f"{BILSTM} objective=mlm"))
    written = to_onnx(graph)
    found = compare(graph, written)
    assert (1, 1) in found.shapes
    assert found.difference < 1e-5
    of_more_tokens = graph_of(model_of(f"{BILSTM.replace('97', '970')} objective=mlm"))
    with pytest.raises(DataError, match="onnxruntime does not run the graph for"):
        compare(of_more_tokens, written)


@pytest.mark.parametrize(
    ("objective", "scores"),
    [("span+sbo format=single-segment", ["mlm"]), ("rtd*50+mlm generator=0.5", [])],
)
def test_heads_that_read_more_than_a_row_are_left_out(objective, scores):
    outputs = graph_of(model_of(f"{NETWORK} objective={objective}")).outputs
    assert [output.name for output in outputs if output.axes[-1] == "token"] == scores
    assert {output.name for output in outputs} <= {"last_hidden_state", "pooled", *scores}


@pytest.mark.parametrize(("setting", "in_the_way"), [
    ("attention=relative", "attention=relative stands in the way"),
    ("attention=relative memory=16 objective=clm format=stream", "memory=16 stands"),
])  # fmt: skip
def test_the_setting_in_the_way_is_named(setting, in_the_way):
    error = pytest.raises(DataError, graph_of(model_of(f"{NETWORK} {setting}")).refuse_unsayable)
    assert in_the_way in error.value.message
    assert "bertc.load" in error.value.help


def test_a_folder_is_left_alone_where_the_graph_is_refused(tmp_path, monkeypatch):
    run = run_of(tmp_path / "run", f"{NETWORK} attention=relative")
    pytest.raises(DataError, export_onnx, run, tmp_path / "out").match("attention=relative")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match="is the name of a graph") as error:
        export_onnx(run, Path("small.onnx"))
    assert error.value.help.endswith("--onnx small")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingInputError, match="onnxruntime is not installed") as error:
        export_onnx(tmp_path, tmp_path / "out")
    assert error.value.help.endswith("'.[onnx]'")


def matrices_left_in_fp32(file: Path) -> list[str]:
    """Of those that the graph uses."""
    graph = onnx.load(file).graph
    used = {name for node in graph.node for name in node.input}
    matrices = [each for each in graph.initializer if len(each.dims) > 1 and each.name in used]
    assert len(matrices) > 4
    return [each.name for each in matrices if each.data_type == onnx.TensorProto.FLOAT]


READER = """
import json, sys
import numpy as np, onnxruntime
from tokenizers import Tokenizer
folder, text = sys.argv[1:]
described = json.load(open(f"{folder}/onnx.json"))
row = Tokenizer.from_file(f"{folder}/tokenizer.json").encode(text)
given = {"input_ids": row.ids, "attention_mask": row.attention_mask, "token_type_ids": row.type_ids}
given = {name: np.array([given[name]]) for name in described["inputs"]}
for file in ("model.onnx", "model.int8.onnx"):
    (scores,) = onnxruntime.InferenceSession(f"{folder}/{file}").run(["classify"], given)
    powers = np.exp(scores[0]) / np.exp(scores[0]).sum()
    print(json.dumps(dict(zip(described["outputs"]["classify"]["labels"], powers.tolist()))))
assert not {"torch", "bertc"} & set(sys.modules)
"""


def scores_are_those_of_torch(run: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every batch of a dev part, at the positions that are read."""
    session, real = GraphSession(file.read_bytes()), task_inference.outputs

    def compare(model: Any, stage: Any, task: Any, micro_batch: MicroBatch) -> Any:
        reading, (expected, loss) = micro_batch.reading, real(model, stage, task, micro_batch)
        mask, segments = reading.attention_mask.long(), reading.segment_ids
        given = {"input_ids": reading.token_ids, "attention_mask": mask, "token_type_ids": segments}
        answers = session({name: tensor.numpy() for name, tensor in given.items()})
        found = torch.from_numpy(answers[task.title])
        scores = expected
        if isinstance(task.answer, Tags):
            found = gather_positions(found, micro_batch.terms[task.title].positions)
        if isinstance(task.answer, Span):
            scores = torch.stack([expected.starts, expected.ends], -1)
        found = found.reshape(scores.shape)[scores.isfinite()]
        same(found.numpy(), scores[scores.isfinite()])
        return expected, loss

    monkeypatch.setattr(task_inference, "outputs", compare)
    learned = load_model(run).resolved.stages[-1].tasks
    assert session.outputs == tuple(task.title for task in learned)
    for task in learned:
        evaluate_files(run, task.title)
    monkeypatch.undo()


def test_each_kind_of_answer_is_as_in_torch_and_a_fresh_process(tmp_path, tasks, monkeypatch, call):
    spec = f"{WIDE} positions=rotary attention=local(4) task={'+'.join(tasks.values())}"
    run, to = run_of(tmp_path / "run", spec), tmp_path / "graphs"
    to.mkdir()  # An earlier export is replaced.
    for name in ("model.onnx", "onnx.json"):
        (to / name).write_text("{}")
    _, said, _ = call("export", str(run), "--onnx", str(to), "--int8")
    assert "reads input_ids, attention_mask, token_type_ids (batch, length)" in said
    assert "model.int8.onnx: " in said
    # Those without a dot are no weights: distances, angles.
    in_fp32 = [n for n in matrices_left_in_fp32(to / "model.int8.onnx") if "." in n]
    assert all("position" in name or "segment" in name for name in in_fp32), in_fp32

    scores_are_those_of_torch(run, to / "model.onnx", monkeypatch)
    reader = [sys.executable, "-c", READER, str(to), TEXTS[3]]
    described = subprocess.run(reader, check=True, capture_output=True, text=True, cwd=tmp_path)
    fp32, int8 = map(json.loads, described.stdout.splitlines())
    (expected,) = load(run).predict([TEXTS[3]], task="classify")
    assert fp32 == pytest.approx(expected["probabilities"], abs=1e-4)
    assert int8 == pytest.approx(expected["probabilities"], abs=0.1)
