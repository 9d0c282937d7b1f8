"""A new body is its node and its module, all of it here: no other file of the house names it."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bertc.api import points
from bertc.base.diagnostics import DataError, StoppedError
from bertc.cost import estimate
from bertc.cost.execution import ANY
from bertc.cost.rules import cost
from bertc.hub.exporting import export_model
from bertc.ir import operation as op
from bertc.ir.base import Axis, Part, Weight, affine
from bertc.ir.network.body_node import BodyNode
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import Activation
from bertc.ir.network.norm import LayerNorm
from bertc.ir.network.wanted import Wanted
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import TaskStage, TextStage
from bertc.model import EncoderInputs, build, model
from bertc.model.body import LAST_STATES, BodyModule, Outputs
from bertc.model.embeddings import Tokens, build_tokens
from bertc.model.inputs import gather_positions
from bertc.model.weights import parameter
from bertc.run.models.loading import load
from bertc.run.train import finish
from bertc.run.train.loop import train
from bertc.use.preview import preview
from tests.hub.programs import tensors, words
from tests.net.programs import FARM, spec
from tests.run.test_training import stop_after

GATES = 3


class Gru(BodyNode):
    """A gated recurrent unit a layer, from left to right (Cho et al. 2014)."""

    kind: Literal["gru"] = "gru"
    layers: int

    body_kind = "gru"

    @property
    def depth(self) -> int:
        return self.layers

    @property
    def head_norm(self) -> LayerNorm:
        return LayerNorm(eps=1e-5)

    @property
    def head_activation(self) -> Activation:
        return "gelu"

    def settings(self) -> dict[str, Any]:
        return {"layers": self.layers, "hidden": self.hidden, "table": self.table}

    def _table(self) -> tuple[Weight, ...]:
        shape, axes = (self.vocab_size, self.embedding), ("vocab", "embedding")
        name, init = "embeddings.token.weight", self.initializer
        return (Weight(name, shape, axes, init, "embeddings", "table"),)

    def layer_weights(self, layer: int) -> tuple[Weight, ...]:
        gates: tuple[Axis, int] = ("gates", GATES * self.hidden)
        below: tuple[Axis, int] = ("hidden", self.hidden if layer else self.embedding)
        part: Part = "recurrence"
        name = f"recurrence.{layer}"
        return (
            *affine(f"{name}.input", gates, below, self.initializer, part),
            *affine(f"{name}.state", gates, ("hidden", self.hidden), self.initializer, part),
        )

    def weights(self) -> tuple[Weight, ...]:
        layers = (weight for layer in range(self.layers) for weight in self.layer_weights(layer))
        return (*self._table(), *layers)

    def operations(self, call: op.Call) -> op.Forward:
        tokens = call.rows * call.tokens
        blocks = []
        for layer in range(self.layers):
            inner = self.hidden if layer else self.embedding
            found = (
                op.Product(tokens, inner, GATES * self.hidden),
                op.Recurrence(call.rows, call.tokens, self.hidden, inner, GATES),
            )
            count = sum(weight.numel for weight in self.layer_weights(layer))
            blocks.append((op.Block("recurrence", f"recurrence.{layer}", count, found),))
        embeddings = self.table.operations(self.vocab_size, self.embedding, self.hidden, tokens)
        return op.Forward(embeddings, tuple(blocks), ())


class Layer(torch.nn.Module):
    def __init__(self, node: Gru, layer: int) -> None:
        super().__init__()
        for weight in node.layer_weights(layer):
            _, _, part, leaf = weight.name.split(".")
            if not hasattr(self, part):
                self.add_module(part, torch.nn.Module())
            self.get_submodule(part).register_parameter(leaf, parameter(weight))

    def forward(self, x_bsh: torch.Tensor) -> torch.Tensor:
        weights = [self.get_parameter(f"{part}.{leaf}").to(x_bsh.dtype)
                   for leaf in ("weight", "bias") for part in ("input", "state")]  # fmt: skip
        width = weights[1].shape[1]
        first_1bh = x_bsh.new_zeros(1, len(x_bsh), width)
        y_bsh: torch.Tensor = torch._VF.gru(  # type: ignore[attr-defined]
            x_bsh, first_1bh, weights, True, 1, 0.0, False, False, True
        )[0]
        return y_bsh


class GruModule(BodyModule):
    node: Gru  # type: ignore[assignment]

    def __init__(self, node: Gru) -> None:
        super().__init__()
        table = {weight.name: weight for weight in node.weights()}
        self.node = node
        self.embeddings = torch.nn.Module()
        self.embeddings.token = build_tokens(table, node)  # type: ignore[arg-type]
        self.recurrence = torch.nn.ModuleList(Layer(node, n) for n in range(node.layers))

    @property
    def tokens(self) -> Tokens:
        token = self.embeddings.token
        assert isinstance(token, Tokens)
        return token

    def forward(
        self, inputs: EncoderInputs, dtype: torch.dtype, wanted: Wanted = LAST_STATES
    ) -> Outputs:
        x_bsh = self.tokens(inputs.token_ids).to(dtype)
        by_layer = {0: x_bsh}
        for number, layer in enumerate(self.recurrence, start=1):
            x_bsh = by_layer[number] = layer(x_bsh)
        if inputs.output_positions is not None:
            x_bsh = gather_positions(x_bsh, inputs.output_positions)
        return Outputs(x_bsh, by_layer={number: by_layer[number] for number in wanted.states})

    def pool(self, first_h: torch.Tensor, inputs: EncoderInputs | None = None) -> torch.Tensor:
        raise ValueError("a gru has no pooler")

    def borrow(self, lender: BodyModule, names: Iterable[str]) -> None:
        raise ValueError("a gru shares nothing")

    def shard_units(self) -> Iterable[torch.nn.Module]:
        return self.recurrence

    def compile_regions(self, *, any_shape: bool = False) -> None:
        pass


@pytest.fixture
def gru(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolved]:
    """A tiny program of that body: it is in the union, and in the one match."""

    def build_body(node: Any, others: Any = model.build_body) -> BodyModule:
        return GruModule(node) if isinstance(node, Gru) else others(node)

    def rebuild() -> None:
        for node in (TextStage, TaskStage, Resolved):
            node.model_rebuild(force=True)

    monkeypatch.chdir(FARM)
    monkeypatch.setattr(finish, "plot", lambda lines, path: path.touch())
    monkeypatch.setattr(model, "build_body", build_body)
    monkeypatch.setattr(TextStage.model_fields["encoder"], "annotation", Gru | Encoder)
    rebuild()
    (resolved,) = points(spec("mlm"))
    (stage,) = resolved.stages
    shared = {name: getattr(stage.encoder, name) for name in BodyNode.model_fields}
    body = Gru(**{**shared, "hidden": 24}, layers=2)
    yield resolved.model_copy(update={"stages": (stage.model_copy(update={"encoder": body}),)})
    monkeypatch.undo()
    rebuild()


def test_a_new_body_is_counted_trained_resumed_and_shown(
    gru: Resolved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = Resolved.model_validate_json(gru.model_dump_json())
    assert again.fingerprint() == gru.fingerprint()
    assert again.encoder == gru.encoder
    built = sum(parameter.numel() for parameter in build(gru).parameters())
    told = estimate(gru, "h200")
    assert told.parameters.total == built
    assert [cost.part for cost in told.stages[0].where][1] == "recurrence"
    cache = tmp_path / "cache"
    train(gru, tmp_path / "straight", cache=cache, quiet=True)
    with pytest.raises(StoppedError):
        stop_after(monkeypatch, 2, lambda: train(gru, tmp_path / "run", cache=cache, quiet=True))
    train(gru, tmp_path / "run", cache=cache, quiet=True, resume=True)
    one, other = (load(tmp_path / name).state_dict() for name in ("straight", "run"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert "mlm" in preview(gru, 1, color=False, cache=cache)


def test_what_a_new_body_computes_is_what_it_states(gru: Resolved) -> None:
    (stage,) = gru.stages
    ids = torch.zeros(4, stage.seq, dtype=torch.long, device="meta")
    module = build(gru, device="meta")
    with FlopCounterMode(display=False) as counter:
        module.read(EncoderInputs(ids))
    call = op.Call(rows=4, tokens=stage.seq, queries=stage.seq)
    stated = sum(cost(each, ANY).flops for each in stage.encoder.operations(call).operations())
    assert counter.get_total_flops() == stated


def test_a_new_body_is_refused_with_a_reason(gru: Resolved, tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        export_model(gru, tensors(gru), words(), tmp_path / "m", strict=True)
    assert refused.value.message.startswith("body=gru stands in the way: ")
