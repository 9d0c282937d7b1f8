"""The forward pass of a trained network as a module with plain tensors in and out.

Axes: b batch, s sequence, k positions read, h hidden, c scores of a position, v token ids.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

import torch
from torch import Tensor, nn

from bertc.base.diagnostics import DataError
from bertc.hub.families.config import ClsPlace
from bertc.hub.families.family import Obstacle, first_of
from bertc.hub.leaving.target import beyond_last
from bertc.ir.learning import AnyTask, Embed, Objective, SparseVectors, Task, TokenVectors, answer
from bertc.ir.network.body_node import Wanted
from bertc.ir.network.encoder import Encoder
from bertc.ir.program import MAIN, Resolved
from bertc.ir.terms.heads import ConditionedSpanHead, VocabularyHead
from bertc.learn.objectives import TaskTensors, token_logits
from bertc.learn.objectives.softmax.similarities import pooled
from bertc.model import EncoderInputs, Model, TokenHead, gather_positions

LAST_STATE, POOLED_STATE = "last_hidden_state", "pooled"
_OF_TOKENS = ("batch", "length", "hidden")


@dataclass(frozen=True)
class Output:
    """An output of a graph: its axes, and what the entries of the last one are called."""

    name: str
    axes: tuple[str, ...]
    labels: tuple[str, ...] = ()


class Graph(nn.Module):
    """The main network with heads, as a function of integer tensors (b, s).

    With tasks it computes their scores alone, and of the last layer no more than they read. Else
    last hidden states, the pooled state, and the scores of ``heads``. First come the states after
    ``layers``, 0 for the embeddings, if any. ``cls`` is the place of [CLS] in a text.
    """

    layers: tuple[int, ...] = ()

    def __init__(
        self, model: Model, heads: tuple[Objective, ...], cls: ClsPlace, *, states: bool
    ) -> None:
        super().__init__()
        self.model, self.heads, self.cls, self.states = model, heads, cls, states
        body = model.encoder.node
        self.pooled = states and body.pooler and "pooler" not in model.untrained
        self.narrow = not (states or body.pooled.of_rows) and all(h.states.pooled for h in heads)
        self.decodes = body.head.decoder > 0 and any(head.states.decoded for head in heads)
        read = {"token_type_ids": body.kinds_of_segments > 1, "language_ids": bool(body.languages)}
        self.inputs = ("input_ids", "attention_mask", *(name for name in read if read[name]))

    def refuse_unsayable(self) -> None:
        """Refuse what no graph for rows of any length can say, naming the setting in the way."""
        if obstacle := first_of(_obstacles(self.model)):
            raise DataError(str(obstacle), help=obstacle.way_out)

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The outputs, in order."""
        below = [f"layer {number}" if number else "embeddings" for number in self.layers]
        states = [Output(name, _OF_TOKENS) for name in (*below, *[LAST_STATE] * self.states)]
        pooled = (Output(POOLED_STATE, ("batch", "hidden")),) * self.pooled
        return (*states, *pooled, *map(_output, self.heads))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        language_ids: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """All outputs, in fp32; ``attention_mask`` is 1 at tokens, 0 at the padding after them."""
        first_b1 = torch.zeros_like(input_ids[:, :1])
        if self.cls == "last":
            first_b1 = attention_mask.sum(1, keepdim=True) - 1
        reading = EncoderInputs(
            input_ids, token_type_ids, attention_mask.bool(), language_ids=language_ids,
            output_positions=first_b1 if self.narrow else None,
        )  # fmt: skip
        request = Wanted(states=self.layers, decoded=self.decodes)
        outputs = self.model.read_on(reading, request=request)
        states_bsh = outputs.last
        cls_b1h = states_bsh if self.narrow else gather_positions(states_bsh, first_b1)
        results = [(outputs.by_layer or {})[number].float() for number in self.layers]
        results += [states_bsh.float()] * self.states
        if self.pooled:
            network = self.model.encoder
            pooled_bsh = states_bsh if network.node.pooled.of_rows else cls_b1h
            results.append(network.pool(pooled_bsh, reading)[:, 0].float())
        for head in self.heads:
            read_bsh = outputs.decoded if self.decodes and head.states.decoded else states_bsh
            assert read_bsh is not None, "they are wanted"
            results.append(scores(self.model, head, read_bsh, cls_b1h, reading).float())
        return tuple(results)


def scores(
    model: Model, term: Objective, states_bsh: Tensor, cls_b1h: Tensor, reading: EncoderInputs
) -> Tensor:
    """Scores of tokens, or the answers of a task, from the main network's states."""
    head, network = model.heads[term.head_name], model.encoder
    if isinstance(term, Embed):
        assert reading.attention_mask is not None, "graphs have one"
        if isinstance(term.pooling, SparseVectors):
            of_tokens_bsv = language_scores(model, term.head_name, states_bsh)
            absent_bs1 = ~reading.attention_mask[..., None]
            return of_tokens_bsv.masked_fill(absent_bs1, 0.0).amax(1).relu().log1p()
        if isinstance(term.pooling, TokenVectors):
            vectors_bsd: Tensor = head.get_submodule("0")(states_bsh)
            return vectors_bsd
        read_bkh = cls_b1h if term.pooling == "cls" else states_bsh
        maps = head.children() if term.dense else ()
        return pooled(term.pooling, read_bkh, reading.attention_mask, maps)
    if isinstance(term, Task):
        reads_all = network.node.pooled.of_rows or not term.states.pooled
        states_bkh = states_bsh if reads_all else cls_b1h
        scores_bkc: Tensor = head(TaskTensors(term).features(states_bkh, network, reading))
        if (axes := len(_output(term).axes)) == 3:
            return scores_bkc
        return scores_bkc[:, 0] if axes == 2 else scores_bkc[:, 0, 0]
    return language_scores(model, term.head_name, states_bsh)


def language_scores(model: Model, head: str, states_bsh: Tensor, network: str = MAIN) -> Tensor:
    """Scores (b, s, v) of every token by a head; log p for an adaptive one."""
    module, body = model.heads[head], model.network(network)
    if isinstance(module, TokenHead):
        return token_logits(states_bsh, module, body)
    b, s, h = states_bsh.shape
    return token_logits(states_bsh.reshape(b * s, h), module, body).reshape(b, s, -1)


def _output(term: Objective) -> Output:
    if isinstance(term, Task):
        match term.answer:
            case answer.Choice() | answer.Score(names=() | (_,)):
                return Output(term.title, ("batch",))
            case answer.Labels() | answer.Several() | answer.Score():
                return Output(term.title, ("batch", "label"), term.answer.names)
            case answer.Tags(names=names):
                return Output(term.title, ("batch", "length", "tag"), names)
            case answer.NamedSpans():
                raise AssertionError("names are no input of a graph (beyond_last)")
            case answer.Span():
                return Output(term.title, ("batch", "length", "end"), ("start", "end"))
            case answer.Vector() as vector:
                width = "token" if vector.of_states else "hidden"
                axes = ("batch", "length", "width") if vector.by_token else ("batch", width)
                return Output(term.title, axes)
            case unreachable:
                assert_never(unreachable)
    return Output(term.head_name, ("batch", "length", "token"))


def graph_of(
    model: Model, cls: ClsPlace = "first", *, heads: bool = True, layers: bool = False
) -> Graph:
    """The graph of the last stage: its tasks, or states and, with ``heads``, scores of tokens.

    With ``layers`` it has the states of all of them, and scores of those heads that it can say.
    """
    terms = [t for t in token_terms(model.resolved) if t.head_name not in model.untrained]
    results = [*{term.head_name: term for term in terms}.values()] if heads else []
    if tasks := model.resolved.stages[-1].tasks:
        results = [t for t in tasks if not (layers and first_of(_obstacles_of(t, model)))]
    graph = Graph(model.eval(), (*results,), cls, states=layers or not tasks)
    graph.layers = tuple(range(model.encoder.node.depth)) if layers else ()
    return graph


def token_terms(resolved: Resolved) -> Iterator[Objective]:
    """The objectives of the last stage whose head scores every token of a row as it is."""
    stage = resolved.stages[-1]
    for node in (term.objective for term in stage.objective):
        compared = node.teaching and not node.teaching.asks_head
        reads = (node.order == "forward") == resolved.encoder.causal and not compared
        of_tokens = isinstance(node.head_node, VocabularyHead) and node.order != "permuted"
        if reads and of_tokens and stage.learner(node).name == MAIN:
            yield node


def _obstacles(model: Model) -> Iterator[Obstacle]:
    stage, body = model.resolved.stages[-1], model.encoder.node
    if stage.memory:
        why = "an ONNX graph keeps no states from one call to the next"
        yield Obstacle(f"memory={stage.memory}", why, "memory=0")
    attention = body.attention if isinstance(body, Encoder) else None
    if attention and attention.distances and attention.distances.in_pieces:
        why = "its steps depend on the length of a row, and an ONNX graph has the same for all"
        yield Obstacle(f"attention={attention.kind}", why, "attention=full")
    for task in stage.tasks:
        yield from _obstacles_of(task, model)


def _obstacles_of(task: AnyTask, model: Model) -> Iterator[Obstacle]:
    if isinstance(task.head_node, ConditionedSpanHead):
        why = "ends are scored for the likeliest starts only; plain scores are of every token"
        yield Obstacle("head=conditioned", why, f"task={task.kind}(..., head=plain)")
    if beyond := beyond_last(task):
        yield beyond
    if task.title in model.untrained:
        yield Obstacle(f"task={task.kind}", "the folder has no weights of its head")
