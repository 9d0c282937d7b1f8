"""A new attention, feed-forward, norm or objective is its node and its tensors, all of it here."""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from bertc.api import points
from bertc.base.diagnostics import DataError, StoppedError
from bertc.cost import estimate
from bertc.hub.exporting import export_model
from bertc.ir import operation as op
from bertc.ir.base import ONES, Axis, Drawn, Node, Part, Weight, affine
from bertc.ir.learning.objective import Objective, Term
from bertc.ir.network.attention import FullAttention
from bertc.ir.network.attention_node import AttentionNode
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import Activation, Mlp
from bertc.ir.network.norm import LayerNorm, PostNorm
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import TaskStage, TextStage
from bertc.ir.terms.heads import Classifier
from bertc.ir.terms.node import FP32, LONG, RowShape, TextTerm
from bertc.learn.objectives import terms
from bertc.learn.objectives.targets import MicroBatch
from bertc.learn.objectives.term import HeadInput, Predicted, TermTensors, TextRows
from bertc.model import EncoderInputs, attention, build, ffn, norm
from bertc.model.layer import AttentionPart
from bertc.model.masks import Mask, mask_of
from bertc.model.weights import Linear, Table, parameter
from bertc.run.models.loading import load
from bertc.run.train import finish
from bertc.run.train.loop import train
from bertc.use.preview import preview
from tests.hub.programs import tensors, words
from tests.net.programs import FARM, spec
from tests.run.test_training import stop_after


class Mean(AttentionNode):
    """Every query gets the mean of the keys it may attend to."""

    kind: Literal["mean"] = "mean"

    def weights(self, name: str, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        inner: tuple[Axis, int] = ("heads", widths.inner)
        outer: tuple[Axis, int] = ("hidden", widths.hidden)
        return (
            *affine(f"{name}.value", inner, outer, init, "attention"),
            *affine(f"{name}.output", outer, inner, init, "attention"),
        )

    def operations(self, widths: op.Widths, call: op.Call, dropout: bool) -> op.Operations:
        inner = widths.inner
        return (
            op.Product(call.context, widths.hidden, inner),
            op.Product(call.queries, call.keys, inner, times=call.rows, maps=0),
            op.Product(call.states, inner, widths.hidden),
        )


class MeanAttention(AttentionPart[Mean, Mask]):
    def __init__(self, table: Table, name: str, node: Encoder, layer: int) -> None:
        super().__init__(table, name, node, layer)
        self.value = Linear(table, f"{name}.value")
        self.output = Linear(table, f"{name}.output")

    def prepare(
        self, kind: Mean, inputs: EncoderInputs, x_bqh: torch.Tensor, shared: Mapping[str, Any]
    ) -> Mask:
        mask = mask_of(inputs, self.causal)
        if mask.allowed is not None:
            return mask
        b, seq = inputs.token_ids.shape
        return Mask(torch.ones(b, 1, x_bqh.shape[1], seq, dtype=torch.bool))

    def forward(
        self, x_bqh: torch.Tensor, keys_bkh: torch.Tensor | None, context: Mask
    ) -> torch.Tensor:
        value_bkw = self.value(x_bqh if keys_bkh is None else keys_bkh)
        assert context.allowed is not None
        share_bqk = context.allowed[:, 0].to(value_bkw.dtype)
        share_bqk = (share_bqk / share_bqk.sum(-1, keepdim=True)).expand(
            len(x_bqh), x_bqh.shape[1], -1
        )
        mixed_bqh: torch.Tensor = self.output(share_bqk @ value_bkw)
        return mixed_bqh


class Gated(Node):
    """outer(inner(x) sigmoid(gate(x))) (Dauphin et al. 2017)."""

    kind: Literal["gated"] = "gated"

    @property
    def setting(self) -> Activation:
        return self.head_activation

    @property
    def head_activation(self) -> Activation:
        return "gelu"

    def weights(self, name: str, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        inner: tuple[Axis, int] = ("ffn", widths.ffn)
        outer: tuple[Axis, int] = ("hidden", widths.hidden)
        return (
            *affine(f"{name}.inner", inner, outer, init, "ffn"),
            *affine(f"{name}.gate", inner, outer, init, "ffn"),
            *affine(f"{name}.outer", outer, inner, init, "ffn"),
        )

    def operations(self, widths: op.Widths, call: op.Call, dropout: bool) -> op.Operations:
        inner = call.states * widths.ffn
        return (
            op.Product(call.states, widths.hidden, 2 * widths.ffn, maps=2),
            op.Pointwise("silu", inner, kept=inner),
            op.Product(call.states, widths.ffn, widths.hidden),
        )


class GatedFeedForward(ffn.FeedForward):
    def __init__(self, table: Table, name: str, node: Encoder) -> None:
        super().__init__()
        self.inner = Linear(table, f"{name}.inner")
        self.gate = Linear(table, f"{name}.gate")
        self.outer = Linear(table, f"{name}.outer")
        self.norm = norm.build_norm(table, f"{name}.norm", node.norm.of_layers)
        self.output_norm = None

    def forward(self, x_bsh: torch.Tensor) -> torch.Tensor:
        y_bsh: torch.Tensor = self.outer(self.inner(x_bsh) * torch.sigmoid(self.gate(x_bsh)))
        return y_bsh


class MeanAbsolute(LayerNorm):
    """x / mean |x|, scaled."""

    kind: Literal["mean-absolute"] = "mean-absolute"  # type: ignore[assignment]

    def weights(self, name: str, axis: Axis, width: int, part: Part = "norm") -> tuple[Weight, ...]:
        return (Weight(f"{name}.weight", (width,), (axis,), ONES, part, "norm"),)


class PostMean(PostNorm):
    kind: Literal["post"] = "post"
    function_kind: Literal["mean-absolute"] = "mean-absolute"

    @property
    def of_layers(self) -> LayerNorm:
        return MeanAbsolute(eps=self.eps)


class MeanAbsoluteNorm(torch.nn.Module):
    bias = None

    def __init__(self, table: Table, name: str, node: LayerNorm) -> None:
        super().__init__()
        self.weight, self.eps = parameter(table[f"{name}.weight"]), node.eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / (x.abs().mean(-1, keepdim=True) + self.eps) * self.weight.to(x.dtype)


class Long(TextTerm):
    """Is a row longer than half of its places? Asked of the first token's state."""

    kind: Literal["long"] = "long"
    scored = "binary"

    @property
    def head_node(self) -> Classifier:
        return Classifier(2)

    def head_rows(self, rows: RowShape) -> int:
        return 1

    def target_bytes(self, rows: RowShape) -> int:
        return 2 * LONG + FP32


class LongTargets(NamedTuple):
    positions: torch.Tensor  # (b, 1)
    answers: torch.Tensor  # (b, 1)
    weights: torch.Tensor  # (b, 1)


class LongTensors(TermTensors[Long, LongTargets, Linear]):
    def targets(self, rows: TextRows, reading: EncoderInputs) -> tuple[EncoderInputs, LongTargets]:
        long_b1 = (rows.inputs.lengths > rows.inputs.token_ids.shape[1] // 2).long()[:, None]
        return reading, LongTargets(torch.zeros_like(long_b1), long_b1, long_b1 * 0.0 + 1)

    def positions(self, own: LongTargets, batch: MicroBatch) -> tuple[torch.Tensor, ...]:
        return (own.positions,)

    def score(self, own: LongTargets, read: HeadInput[Linear]) -> Predicted:
        scores_n2 = read.head(read.states[0].flatten(0, 1)).float()
        answers_n = own.answers.reshape(-1)
        losses_n = F.cross_entropy(scores_n2, answers_n, reduction="none")
        return Predicted(losses_n, scores_n2.argmax(1) == answers_n, labels=answers_n)

    def explain_example(self, own: LongTargets, row: int, nth: int) -> list[tuple[str, str]]:
        return [("long", str(int(own.answers[row, 0])))]


PARTS: dict[str, tuple[type[Node], str, Any, dict[str, Any]]] = {
    "attention": (Encoder, "attention", Mean | FullAttention, {"attention": Mean()}),
    "feed-forward": (Encoder, "ffn", Gated | Mlp, {"ffn": Gated()}),
    "norm": (Encoder, "norm", PostMean | PostNorm, {"norm": PostMean()}),
    "objective": (Term, "objective", Long | Objective, {}),
}
"""Of each sort the union that it joins, by node and field, and what an encoder changes."""


def built(kind: type[Node], module: Any, others: Callable[..., Any]) -> Callable[..., Any]:
    """The one match of a sort, with one case more."""

    def match(table: Table, name: str, node: Any, *rest: Any) -> Any:
        found = {Mean: "attention", Gated: "ffn"}.get(kind)
        own = getattr(node, found) if found else node
        return (
            module(table, name, node, *rest)
            if isinstance(own, kind)
            else others(table, name, node, *rest)
        )

    return match


def put(monkeypatch: pytest.MonkeyPatch, name: str, before: Any, after: Any) -> None:
    """Wherever the package has imported that function."""
    for module in [m for at, m in sys.modules.items() if at.startswith("bertc.")]:
        if getattr(module, name, None) is before:
            monkeypatch.setattr(module, name, after)


def rebuild() -> None:
    for node in (Encoder, Term, TextStage, TaskStage, Resolved):
        node.model_rebuild(force=True)


@pytest.fixture(params=PARTS)
def plugged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolved]:
    """A tiny program with the new kind: it is in its union, and in the one match."""
    owner, field, union, changes = PARTS[request.param]
    monkeypatch.chdir(FARM)
    monkeypatch.setattr(finish, "plot", lambda lines, path: path.touch())
    for name, kind, module, before in (
        ("build_attention", Mean, MeanAttention, attention.build_attention),
        ("build_ffn", Gated, GatedFeedForward, ffn.build_ffn),
        ("build_norm", MeanAbsolute, MeanAbsoluteNorm, norm.build_norm),
    ):
        put(monkeypatch, name, before, built(kind, module, before))
    known = terms.tensors_of
    put(monkeypatch, "tensors_of", known,
        lambda node: LongTensors(node) if isinstance(node, Long) else known(node))  # fmt: skip
    info = owner.model_fields[field]
    monkeypatch.setattr(info, "annotation", union)
    monkeypatch.setattr(info, "metadata", [])
    rebuild()
    (resolved,) = points(spec("mlm"))
    (stage,) = resolved.stages
    encoder = stage.encoder.model_copy(update=changes)
    objective = stage.objective
    if request.param == "objective":
        objective = (*objective, Term(objective=Long(), weight=2.0))
    stage = stage.model_copy(update={"encoder": encoder, "objective": objective})
    yield resolved.model_copy(update={"stages": (stage,)})
    monkeypatch.undo()
    rebuild()


def test_a_new_part_is_counted_trained_resumed_and_shown(
    plugged: Resolved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = Resolved.model_validate_json(plugged.model_dump_json())
    assert again.fingerprint() == plugged.fingerprint()
    model = build(plugged)
    assert estimate(plugged, "h200").parameters.total == sum(p.numel() for p in model.parameters())
    cache = tmp_path / "cache"
    train(plugged, tmp_path / "straight", cache=cache, quiet=True)
    with pytest.raises(StoppedError):
        stop_after(
            monkeypatch, 2, lambda: train(plugged, tmp_path / "run", cache=cache, quiet=True)
        )
    train(plugged, tmp_path / "run", cache=cache, quiet=True, resume=True)
    one, other = (load(tmp_path / name).state_dict() for name in ("straight", "run"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    shown = preview(plugged, 1, color=False, cache=cache)
    assert all(term.name in shown for term in plugged.stages[0].objective)


def test_what_a_new_part_computes_is_what_it_states(plugged: Resolved) -> None:
    (stage,) = plugged.stages
    ids = torch.zeros(4, stage.seq, dtype=torch.long)
    model = build(plugged, device="meta")
    with FlopCounterMode(display=False) as counter:
        model.read(EncoderInputs(ids.to("meta"), ids.to("meta")))
    call = op.Call(rows=4, tokens=stage.seq, queries=stage.seq)
    stated = 0
    for operation in stage.encoder.operations(call).operations():
        match operation:
            case op.Product(rows=rows, inner=inner, columns=columns, times=times):
                stated += 2 * rows * inner * columns * times
            case op.Attention():
                a = operation
                stated += 4 * a.rows * a.queries * a.keys * a.heads * a.head_dim
            case _:
                pass
    assert counter.get_total_flops() == stated


@pytest.mark.parametrize("plugged", ["attention", "feed-forward", "norm"], indirect=True)
def test_a_new_part_is_refused_with_a_reason(plugged: Resolved, tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        export_model(plugged, tensors(plugged), words(), tmp_path / "m", strict=True)
    assert "stands in the way" in refused.value.message
