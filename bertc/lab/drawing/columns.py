"""The networks of a program as a picture: equal layers once, weights used again counted once."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import count
from textwrap import wrap
from typing import Any

from bertc import Resolved
from bertc.lab.drawing.pictures import GAP, WIDTH, Box, BoxKind, Edge, Picture
from bertc.lab_api import units

MAIN = "encoder"
READ_IN_ORDER = ("sampled", "frozen", "trained")
"""Roles of networks in the order of forward passes."""


def picture_of(resolved: Resolved) -> Picture:
    """The networks of a program after its last stage, with the heads of all stages."""
    networks = {network.name: network for stage in resolved.stages for network in stage.allocated}
    boxes, edges, numbers, left = list[Box](), list[Edge](), dict[str, range](), 0
    for network in sorted(networks.values(), key=lambda network: READ_IN_ORDER.index(network.role)):
        heads, first = dict[str, list[Any]](), len(boxes)
        for term in resolved.terms():
            learner = resolved.stages[-1].learner(term.objective).name
            lesson = term.objective.teaching  # which may read the head of a frozen network
            if learner == network.name if network.learned else lesson and lesson.asks_head:
                heads.setdefault(term.objective.head_name, []).append(term)
        width = max(1, len(heads)) * (WIDTH + GAP)
        tied = {w.name for w in network.body.weights() if network.owner(w.name) != network.name}
        _Column(network, boxes, edges, left + width // 2, tied).draw(heads)
        numbers[network.name], left = range(first, len(boxes)), boxes[-1].x + 3 * WIDTH // 2
    for name, network in networks.items():
        for tie in network.ties:
            label = "added" if tie.added else "tied"
            edges.append(Edge("link", numbers[tie.network][1], numbers[name][1], label))
        if network.role == "sampled":
            edges.append(Edge("link", numbers[name][-1], numbers[MAIN][0], "guesses"))
        if network.role == "frozen":
            taught = [number for number, box in enumerate(boxes) if box.kind == "taught"]
            edges += [Edge("lesson", numbers[name][-1], number) for number in taught]
    numel = units.count_text(sum(box.numel for box in boxes))
    return Picture(f"{resolved.name}, {numel} parameters", boxes, edges)


@dataclass
class _Column:
    """A network while it is drawn around ``x``; boxes have the weights that are ``counted``."""

    network: Any
    boxes: list[Box]
    edges: list[Edge]
    x: int
    counted: set[str]

    def draw(self, heads: dict[str, list[Any]]) -> None:
        """Draw it from its tokens up to the heads, whose names go with their terms."""
        body, network = self.network.body, self.network
        self.boxes.append(Box("tokens", (network.name, "tokens"), 0, self.x, -39, 0))
        tables = [w for w in body.weights() if w.name.startswith("embeddings.")]
        tables += [w for w in body.weights() if w.name.startswith("relative.")]
        self.add("embeddings", ["embeddings", *self.texts(tables)], tables)
        if body.attends:
            if body.positions.kind == "sinusoidal":
                self.add("embeddings", ["add sinusoidal positions"])
            self.layers(body, [(n,) for n in range(body.depth)])
            if body.norm.of_end:
                last = [w for w in body.weights() if w.name.startswith("norm.")]
                self.add("norm", [f"{body.norm.of_layers.kind} norm"], last)
        else:
            parts = [(w, w.name.split(".")) for w in body.weights()]
            layers = [w for w, names in parts if any(map(str.isdigit, names[1:3]))]
            self.add("attention", [body.body_kind, *self.texts(layers)], layers)
        states, self.x = len(self.boxes) - 1, self.x - (len(heads) - 1) * (WIDTH + GAP) // 2
        for name, terms in heads.items():
            head = terms[0].objective
            read = ("pooler.",) * head.states.use_pooler(body)
            read += ("decoder_positions",) * network.decodes(head)
            weights = [w for w in body.weights() if w.name.startswith(read)]
            weights += head.head_node.weights(head.head_name, body)
            learned = [term for term in terms if term.weight and network.learned]
            losses = [f"{term.weight:g} × {term.name}".removeprefix("1 × ") for term in learned]
            texts = [" + ".join(losses) or name, *self.texts(weights)]
            taught = any(term.objective.teaching for term in learned)
            self.add("taught" if taught else "head", texts, weights, on=states)
            self.x += WIDTH + GAP
        if unread := [w for w in body.weights() if network.learned and w.name not in self.counted]:
            self.add("head", ["not read", *self.texts(unread)], unread, on=states)

    def add(self, kind: BoxKind, texts: list[str], *sets: Sequence[Any], on: int = -1) -> None:
        """A box on another, or the last one, with one of these sets of weights per layer."""
        number, bottom = len(self.boxes), self.boxes[on].top - GAP
        self.edges.append(Edge("flow", number - 1 if on < 0 else on, number))
        sizes = [sum(w.numel for w in weights if w.name not in self.counted) for weights in sets]
        self.counted.update(weight.name for weights in sets for weight in weights)
        texts += [f"{_span(sizes, units.count_text)} parameters"] if any(sizes) else []
        wrapped = tuple(part for text in texts for part in wrap(text, 34))
        numel, top = sum(sizes) * self.network.learned, bottom - 9 - 15 * len(wrapped)
        self.boxes.append(Box(kind, wrapped, numel, self.x, top, bottom))

    def layers(self, body: Any, slots: Sequence[tuple[int, ...]]) -> None:
        """Layers from the lowest up, a slot for those drawn as one; repetitions have a frame."""
        while slots:
            alike, first = [_symbol(body, slot[0]) for slot in slots], len(self.boxes)
            repeats = {
                size: next(n for n in count(1) if alike[n * size :][:size] != alike[:size])
                for size in range(1, len(alike) // 2 + 2)
            }
            size, times = max(repeats.items(), key=lambda pair: pair[0] * pair[1] * (pair[1] > 1))
            merged = [sum(slots[nth : size * times : size], ()) for nth in range(size)]
            if times > 1:
                self.layers(body, merged)
                self.edges.append(Edge("frame", first, len(self.boxes) - 1, f"× {times}"))
                if any(of.count(of[n]) > 1 for n, *_ in merged for of in body.owners.values()):
                    self.edges.append(Edge("loop", len(self.boxes) - 1, first))
            else:
                for part in body.owners:
                    self.part(body, part, slots[0])
            slots = slots[size * times :]

    def part(self, body: Any, part: BoxKind, slot: tuple[int, ...]) -> None:
        """Attention or the feed-forward part of a slot, with its norms and what it is added to."""
        layer, widths, of = body.layer(slot[0]), [body.layers[n] for n in slot], body.owners[part]
        norm, pre = f"{body.norm.of_layers.kind} norm", body.norm.residual_free
        owners, below = sorted({of[n] for n in slot}), len(self.boxes) - 1
        if part == "attention":
            reach, depth = layer.attention.reach, range(body.depth)
            everywhere = not reach and any(body.attention.at(n).reach for n in depth)
            kind = "global" if everywhere else layer.attention.kind
            heads = _span([width.heads for width in widths])
            texts = [f"{'causal ' * body.causal}{kind} attention"]
            texts += [f"{heads} heads of {widths[0].head_dim}"]
            texts += [f"{reach} tokens on each side"] * (reach is not None)
            texts += [f"{body.positions.kind} positions"] * body.positions.in_attention
        else:
            inner = _span([width.ffn for width in widths])
            unit = getattr(body.ffn.setting, "kind", body.ffn.setting)
            texts = ["feed-forward", f"{body.hidden:,} → {inner} → {body.hidden:,}, {unit}"]
        if (times := of.count(owners[0])) > 1:
            texts.append(f"weights of layer {owners[0] + 1}, used {times} times")
        if pre and (part == "ffn" or layer.attention_norm):
            self.add("norm", [norm])
        texts += ["norm before its last map"] * (body.norm.within(part) is not None)
        self.add(part, texts, *(body.part_weights(part, owner) for owner in owners))
        if body.norm.after(part):
            self.add("norm", [norm])
        self.add("norm", ["add" if pre else f"add, {norm}"])
        self.edges.append(Edge("residual", below, len(self.boxes) - 1))

    def texts(self, weights: Sequence[Any]) -> list[str]:
        """A text for each weight but biases: its size, or that it is shared."""
        texts = []
        for weight in weights:
            parts = weight.name.removesuffix(".weight").replace("_", " ").split(".")
            first, *rest = (part for part in parts if not part.isdigit())
            sizes = ["shared"] if weight.name in self.counted else map("{:,}".format, weight.shape)
            if not weight.name.endswith("bias"):
                texts.append(f"{' '.join(rest) or first} {' × '.join(sizes)}")
        return texts


def _symbol(body: Any, layer: int) -> Hashable:
    """Value that layers have in common if they are drawn as one: all but widths and weights."""
    shared = [of[layer] if of.count(of[layer]) > 1 else None for of in body.owners.values()]
    return body.layer(layer).attention, body.layer(layer).attention_norm, *shared


def _span(numbers: Sequence[int], text: Callable[[int], str] = "{:,}".format) -> str:
    low, high = text(min(numbers)), text(max(numbers))
    return low if low == high else f"{low} to {high}"
