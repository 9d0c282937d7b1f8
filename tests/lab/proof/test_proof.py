"""Proof vectors: mistakes of ports, each named with its layer, and ports that agree."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from bertc import load, resolve
from bertc.base.diagnostics import DataError, MissingInputError
from bertc.lab.proof.making import make_proof
from bertc.lab.proof.proof import JSON, VECTORS, Proof, read_proof
from bertc.lab.proof.targets import read_answers, request
from bertc.lab.proof.verifying import Verified, compare, verify
from bertc.use.source.file import emit_source
from tests.hub.hf_models import MODERN, SMALL, case
from tests.hub.programs import tensors
from tests.hub.test_runs import write_tokenizer
from tests.lab.onnx.conftest import run_of
from tests.lab.proof.port import answers

TINY = "layers=3 hidden=32 heads=2 seq=24 vocab=wordpiece(97) device=cpu precision=fp32 "
BERT = f"{TINY} objective=mlm+nsp positions=learned(26, offset=2)"
LOCAL = f"{TINY} objective=mlm norm=pre attention=local(8, global_every=2) positions=rotary"
SEES = "allowed = (real_bs | ~real_bs.any(1, keepdim=True))"
NORMED_AFTER = """\
            total = x + F.dropout(attention(x, allowed), DROPOUT, self.training)
            x = attention.norm(total)
"""
NORMED_BEFORE = "            x = x + attention(attention.norm(x), allowed)\n"
FFN = "self.ffn = nn.ModuleList([Mlp() for _ in range(LAYERS)])"
LAST_SCALED = f"{FFN}\n        self.attention[2].query.register_forward_hook(lambda *x: 1.1 * x[2])"
GELU = "F.gelu(self.inner(x)"
MISTAKES = {
    "positions from 0 for 2": (BERT, "weight[2:s + 2]", "weight[:s]", "embeddings", ""),
    "no norm of embeddings": (BERT, "x_bse = self.norm(x_bse)", "", "embeddings", ""),
    "epsilon": (BERT, "EPS = 1e-12", "EPS = 1e-05", "embeddings", ""),
    "pairs": (BERT, "self.segment(segment_ids_bs)", "self.segment.weight[0]", "embeddings", "pair"),
    "gelu": (BERT, GELU, f"{GELU}, approximate='tanh'", "layer 1", ""),
    "padding": (BERT, SEES, "allowed = torch.ones_like(real_bs)", "layer 1", "padded"),
    "norms before, not after": (BERT, NORMED_AFTER, NORMED_BEFORE, "layer 1", ""),
    "scale of attention": (BERT, FFN, LAST_SCALED, "layer 3", ""),
    "no tanh": (BERT, "torch.tanh(super().forward(x))", "super().forward(x)", "pooled", ""),
    "head": (BERT, "F.gelu(self.dense(x))", "self.dense(x)", "scores of mlm", ""),
    "window": (LOCAL, ".abs() <= 4", ".abs() < 4", "layer 2", ""),
    "keys are not turned": (LOCAL, "key = torch.cat(", "_ = torch.cat(", "layer 1", ""),
}
"""A change of an emitted file, the stage that it begins at, and the text that alone shows it."""


class Port:
    """A program, its proof, and its file as a port."""

    def __init__(self, folder: Path, spec: str) -> None:
        self.folder, resolved = folder, resolve(spec)
        self.source, self.weights = emit_source(resolved), tensors(resolved)
        self.proof = write_proof(run_of(folder / "run", spec), folder)

    def answers(self, old: str = "", new: str = "") -> list[dict[str, Any]]:
        """Answers of the file with a change, in this process."""
        assert old in self.source
        requests = [json.loads(json.dumps(request(self.proof, row))) for row in self.proof.rows]
        return [*answers(self.source.replace(old, new), self.weights, requests)]

    def compare(self, given: list[Any]) -> Verified:
        """Answers compared, of which some may be lines as they are."""
        lines = (x if isinstance(x, bytes) else json.dumps(x).encode() for x in given)
        return compare(self.proof, [*read_answers(self.proof, lines)])


def write_proof(run: Path, folder: Path) -> Proof:
    """Write the proof of a run into a folder, and read it."""
    for name, content in make_proof(run, folder).files().items():
        (folder / name).write_bytes(content)
    return read_proof(folder)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Port]:
    """Both programs."""
    return {spec: Port(tmp_path_factory.mktemp("port"), spec) for spec in (BERT, LOCAL)}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_a_port_is_named_with_its_layer(name, ports):
    spec, old, new, stage, text = MISTAKES[name]
    report = ports[spec].compare(ports[spec].answers(old, new))
    assert report.first is not None
    assert report.first.stage == stage
    assert report.first.beyond == (text,) or not text
    assert f"{stage}: differs by" in report.as_table()


def test_a_faithful_port_agrees_as_a_command_and_may_give_scores_alone(ports, call):
    port = ports[BERT]
    (port.folder / "model.py").write_text(port.source)
    save_file(port.weights, port.folder / "weights.safetensors")
    files = [port.folder / name for name in ("model.py", "weights.safetensors")]
    words = [sys.executable, Path(__file__).with_name("port.py"), *files]
    code, table, err = call("verify", str(port.folder), shlex.join(map(str, words)))
    assert (code, err, "agrees in 7 stages" in table) == (0, "", True)
    alone = port.compare([{"scores": answer["scores"]["mlm"]} for answer in port.answers()])
    assert (alone.first, len(alone.stages), len(alone.missing)) == (None, 1, 6)


def test_other_tokens_are_a_difference_and_their_vectors_are_not_compared(ports, call):
    port, given = ports[BERT], ports[BERT].answers()
    del given[-3]["tokens"][-1], given[-3]["layers"][0]
    (port.folder / "written.jsonl").write_text("\n".join(map(json.dumps, given)))
    command = f"cat {shlex.quote(str(port.folder / 'written.jsonl'))}"
    code, report, _ = call("verify", str(port.folder / JSON), command, "--json")
    tokens, *others = json.loads(report)["stages"]
    place = len(port.proof.rows[-3].ids) - 1
    assert (code, tokens["position"], tokens["beyond"]) == (1, place, ["pair"])
    assert all(stage["texts"] == 11 and not stage["beyond"] for stage in others)


UNREADABLE = {
    "is no JSON object: warming up \\x1b": b"warming up \x1b",
    "tokens is no list of 3": {"tokens": 5},
    "layers is no list of 3": {"layers": [[]]},
    "embeddings has 3 x 31 numbers, not 3 x 32": {"embeddings": [[1.0] * 31] * 3},
    "pooled is no list of numbers": {"pooled": ["a"]},
    "scores of mlm is no list of numbers": {"scores": {"mlm": [[1.0], []]}},
}


def test_an_answer_that_cannot_be_read_is_named_and_one_that_is_not_finite_differs(ports):
    given = ports[BERT].answers()
    for message, change in UNREADABLE.items():
        changed = change if isinstance(change, bytes) else given[1] | change
        with pytest.raises(DataError) as error:
            ports[BERT].compare([given[0], changed, *given[2:]])
        assert error.value.message.startswith("answer 2")
        assert message in error.value.message
    given[1]["layers"][1][0][0] = float("nan")
    report = ports[BERT].compare(given)
    assert str(report.first).startswith("layer 2: is not finite at text 2, position 0 (tolerance")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("sh -c 'head -n 3; exit 7'", "ended with 7 after 3 lines for 12 requests"),
        ("sh -c 'cat; echo more'", "wrote 13 lines for 12 requests"),
        ("./no-such-port", "no-such-port cannot be started"),
        ("cat", "gives nothing of what the proof has"),
    ],
)
def test_a_command_that_fails_or_ends_early_is_refused(command, message, ports):
    with pytest.raises((DataError, MissingInputError), match=message):
        verify(ports[BERT].folder, command)


@pytest.mark.parametrize(
    "chosen", [case("BertForMaskedLM", SMALL), case("ModernBertModel", MODERN)], ids=str
)
def test_a_folder_of_transformers_agrees_and_a_changed_one_does_not(chosen, tmp_path):
    network = chosen.save(tmp_path)
    write_tokenizer(tmp_path)
    load(tmp_path).tokenizer.vocabulary.save(tmp_path)
    write_proof(tmp_path, tmp_path)
    for precision in ("fp32", "bf16"):
        assert verify(tmp_path, str(tmp_path), precision).first is None
    with torch.no_grad():
        [*network.parameters()][-9].mul_(1.1)
    network.save_pretrained(tmp_path)
    report = verify(tmp_path, str(tmp_path))
    assert report.first is not None
    assert report.notes == ("note: model.safetensors is another file than that of the proof",)


def test_exports_carry_a_proof_that_they_pass(tmp_path, call, own_modules):
    run, to, onnx = tmp_path / "run", str(tmp_path / "hf"), str(tmp_path / "graph")
    run_of(run, f"{LOCAL} residual=dwa")
    code, said, _ = call("export", str(run), "--to", to, "--onnx", onnx, "--proof")
    assert (code, f"{to}/{VECTORS}: " in said) == (0, True)
    for folder, target in ((to, to), (onnx, onnx), (onnx, f"{onnx}/model.onnx"), (to, str(run))):
        code, table, err = call("verify", folder, target)
        assert (code, "agrees in" in table) == (0, True), (err, table)
    assert call("export", str(run), "--to", to, "--revision", "step-1", "--proof")[0] == 2
    Path(to, VECTORS).write_bytes(b"")
    with pytest.raises(DataError, match="is no proof that can be read"):
        read_proof(Path(to))
    with pytest.raises(MissingInputError, match=f"there is no {tmp_path}/{JSON}"):
        read_proof(tmp_path)
