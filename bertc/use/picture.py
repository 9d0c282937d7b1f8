"""The networks of a program as a picture, from the program alone.

Equal layers in a row are drawn once, and so are weights that layers share; a layer that uses those
of an earlier one, not next to it, is a dashed box that points there.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from bertc.cost.units import count_text
from bertc.ir.base import Weight
from bertc.ir.learning.objective import Term
from bertc.ir.network.body_node import layer_of
from bertc.ir.network.encoder import DECODER, Encoder
from bertc.ir.network.sharing import OUTPUTS, SharedPart
from bertc.ir.program.network import MAIN, READ_IN_ORDER, Network
from bertc.ir.program.resolved import Resolved
from bertc.ir.terms.heads import over_tokens
from bertc.ir.terms.node import asks_head, weights_of_head
from bertc.use.boxes import Box, BoxKind, Element, Group, Link, Picture, boxes

_COLUMNS = 36
_OUTSIDE = ("embeddings.norm.", "embeddings.project.")
Alike = tuple[int, ...]
"""The layers that one drawn layer stands for."""


def picture_of(resolved: Resolved) -> Picture:
    """The networks of a program after its last stage, with the heads of all stages."""
    networks = {network.name: network for stage in resolved.stages for network in stage.allocated}
    order = sorted(networks.values(), key=lambda network: READ_IN_ORDER.index(network.role))
    drawings = [_Drawing(network, _terms(network, resolved)) for network in order]
    stacks = {drawing.network.name: drawing.stack() for drawing in drawings}
    links = [link for drawing in drawings for link in drawing.links]
    losses = [loss for drawing in drawings for loss in drawing.losses]
    for network in order:
        _, table, *_, top = boxes(stacks[network.name])
        for tie in network.ties:
            _, owner, *_ = boxes(stacks[tie.network])
            links.append(Link(owner, table, "added" if tie.added else "tied"))
        if network.role == "sampled":
            links.append(Link(top, next(boxes(stacks[MAIN])), "guesses"))
        if not network.learned:
            links += [Link(top, box) for term, box in losses if term.objective.teaching]
    learned = [box for network in order if network.learned for box in boxes(stacks[network.name])]
    title = f"{resolved.name}, {count_text(sum(box.numel for box in learned))} parameters"
    return Picture(Group((*stacks.values(),), title, row=True), links)


def _terms(network: Network, resolved: Resolved) -> list[Term]:
    """The terms whose heads it has: of a frozen one those that it teaches by its head."""
    if not network.learned:
        return [term for term in resolved.terms() if asks_head(term.objective)]
    learner = resolved.stages[-1].learner
    return [term for term in resolved.terms() if learner(term.objective).name == network.name]


@dataclass
class _Drawing:
    """A network while it is drawn, with the boxes that links lead to."""

    network: Network
    terms: list[Term]
    links: list[Link] = field(default_factory=list)
    drawn: dict[tuple[str, int], Box] = field(default_factory=dict)
    losses: list[tuple[Term, Box]] = field(default_factory=list)

    def numel(self, weights: Iterable[Weight]) -> int:
        """The number of those weights that no other network has."""
        name = self.network.name
        return sum(w.numel for w in weights if self.network.owner(w.name) == name)

    def box(self, kind: BoxKind, title: str, weights: Sequence[Weight], *lines: str) -> Box:
        """A part with these weights, which it lists before other lines."""
        numel = self.numel(weights)
        counted = [f"{count_text(numel)} parameters"] * (numel > 0)
        return Box(kind, title, (*_lines(weights), *lines, *counted), numel)

    def stack(self) -> Group:
        """The network from its text up to its losses."""
        body, network = self.network.body, self.network
        below, maps, last = (
            [weight for weight in body.weights() if weight.name.startswith(name)]
            for name in (*_OUTSIDE, "norm.")
        )
        items: list[Element] = [Box("text", "tokens"), self.embeddings()]
        if isinstance(body, Encoder) and body.norm.embeddings:
            items.append(_norm(body, self.numel(below)))
        items += [self.box("embeddings", "projection", maps)] if maps else []
        depths = range(body.depth)
        items += self.stacked([(n,) for n in depths], [self.symbol(n) for n in depths])
        if isinstance(body, Encoder) and body.norm.residual_free:
            items.append(_norm(body, self.numel(last)))
        items += self.heads()
        return Group((*items,), network.name + ", frozen" * (not network.learned))

    def embeddings(self) -> Box:
        """The tables; of those of another network, its name."""
        body, mine, lines = self.network.body, list[Weight](), list[str]()
        for weight in body.weights():
            if layer_of(weight.name) != 0 or weight.name.startswith(_OUTSIDE):
                continue
            tie = next((tie for tie in self.network.ties if tie.covers(weight.name)), None)
            if tie is None or tie.added:
                mine.append(weight)
            if tie:
                lines.append(f"{_leaf(weight)} of the {tie.network}" + ", added" * tie.added)
        if isinstance(body, Encoder) and not (body.positions.rows or body.positions.in_attention):
            lines += [f"{body.positions.kind} positions"] * (body.positions.kind != "none")
        return self.box("embeddings", "embeddings", mine, *lines)

    def symbol(self, layer: int) -> Hashable:
        """Value that layers have in common if they are drawn as one: all but widths and weights."""
        body = self.network.body
        shared = tuple(
            of[layer] if of.count(of[layer]) > 1 else None for of in body.owners.values()
        )
        if isinstance(body, Encoder):
            drawn = body.layer(layer)
            return drawn.attention, drawn.attention_norm, shared
        return tuple(w.shape for w in body.weights() if layer_of(w.name) == layer + 1)

    def stacked(self, slots: Sequence[Alike], symbols: Sequence[Hashable]) -> list[Element]:
        """Slots from the lowest up, the longest repetition among them as one frame."""
        names = [symbols[slot[0]] for slot in slots]
        covered, period, start = 0, 0, 0
        for size in range(1, len(names) // 2 + 1):
            for first in range(len(names) - 2 * size + 1):
                end = first + size
                while names[end : end + size] == names[first : first + size]:
                    end += size
                if end - first > max(size, covered):
                    covered, period, start = end - first, size, first
        if not covered:
            return [self.layer(slot) for slot in slots]
        end = start + covered
        merged = [sum(slots[nth:end:period], ()) for nth in range(start, start + period)]
        owners = self.network.body.owners.values()
        loops = any(len({of[n] for n in slot}) < len(slot) for slot in merged for of in owners)
        below = self.stacked(slots[:start], symbols)
        inner = self.stacked(merged, symbols)
        frame = Group((*inner,), times=covered // period, loops=loops)
        return [*below, frame, *self.stacked(slots[end:], symbols)]

    def layer(self, slot: Alike) -> Element:
        """The parts of equal layers, each with its norms and what it is added to."""
        body = self.network.body
        if not isinstance(body, Encoder):
            weights = [w for w in body.weights() if layer_of(w.name) in {n + 1 for n in slot}]
            lines = _lines(weights[: len(weights) // len(slot)])
            return Box("attention", body.body_kind, (*lines,), self.numel(weights))
        owners = {of[slot[0]] for of in body.owners.values()}
        if all((part, owner) in self.drawn for part in OUTPUTS for owner in owners):
            first = min(owners)
            return self.again(f"layer {first + 1}, again", self.drawn["attention", first])
        return Group(tuple(self.part(body, part, slot) for part in OUTPUTS))

    def again(self, title: str, known: Box) -> Box:
        box = Box("again", title)
        self.links.append(Link(box, known))
        return box

    def part(self, body: Encoder, part: SharedPart, slot: Alike) -> Element:
        """Attention or the feed-forward part of equal layers, between its norms."""
        owners = sorted({body.owners[part][n] for n in slot})
        weights = [w for owner in owners for w in body.part_weights(part, owner)]
        before = sum(w.numel for w in weights if ".norm." in w.name)
        after = sum(w.numel for w in weights if ".output_norm." in w.name)
        title, lines = (_attention if part == "attention" else _ffn)(body, slot)
        if known := self.drawn.get((part, owners[0])):
            box, before, after = self.again(f"{title}, again", known), 0, 0
        else:
            numel = sum(w.numel for w in weights) - before - after
            alike = len({body.layers[n] for n in slot}) == 1
            shared = any(len({of[n] for n in slot}) < len(owners) for of in body.owners.values())
            count = count_text(numel // len(owners) if alike else numel)
            sets = f"{len(owners)} sets of " * shared
            lines.append(f"{sets}{count} parameters" + " in all" * (not alike))
            if part == "attention" and not self.drawn and (common := body.common_weights()):
                numel += self.numel(common)
                lines += ["and for all layers", *_lines(common)]
            box = Box(part, title, (*lines,), numel)
            self.drawn |= {(part, owner): box for owner in owners}
        norm, add = _norm(body, before), Box("add", "+")
        if not body.norm.residual_free:
            return Group((Group((box, add), residual=True), norm))
        reads = part == "ffn" or body.layer(slot[0]).attention_norm
        outputs = [_norm(body, after)] if body.norm.of_outputs else []
        return Group((*([norm] if reads else []), box, *outputs, add), residual=True)

    def heads(self) -> list[Element]:
        """The mask decoder and the pooler, and the heads above these and the last states."""
        body, above = self.network.body, {DECODER: list[Element](), "": [], "pooler": []}
        by_head: dict[str, list[Term]] = {}
        for term in self.terms:
            by_head.setdefault(term.objective.head_name, []).append(term)
        for name, terms in by_head.items():
            objective, weights = terms[0].objective, weights_of_head(terms[0].objective, body)
            untied = any(weight.axes == ("vocab", "hidden") for weight in weights)
            tied = over_tokens(objective.head_node) and not untied
            lines = ["scores by the token table"] * tied
            head = self.box("head", f"head of {name}", weights, *lines)
            losses = [term for term in terms if term.weight and self.network.learned]
            texts = [f"{t.weight:g} × {t.name}".removeprefix("1 × ") for t in losses]
            drawn = [Box("text", text) for text in texts]
            self.losses += zip(losses, drawn, strict=True)
            place = "pooler" if objective.states.use_pooler(body) and body.pooler else ""
            place = DECODER if objective.states.decoded and body.head.decoder else place
            above[place].append(Group((*([head] if head.lines else []), *_row(drawn))))
        columns = list[Element]()
        for name, heads in above.items():
            mine = [w for w in body.weights() if name and w.name.startswith(f"{name}.")]
            lines = ["the last layer, twice again"] * (name == DECODER)
            title = "mask decoder" if name == DECODER else name
            base = [self.box("head", title, mine, *lines)] if mine else []
            columns += [Group((*base, *_row(heads)))] if base or heads else []
        return _row(columns)


def _attention(body: Encoder, slot: Alike) -> tuple[str, list[str]]:
    attention, layers = body.layer(slot[0]).attention, [body.layers[n] for n in slot]
    windowed = any(body.attention.at(n).reach for n in range(body.depth))
    kind = "global" if windowed and attention.reach is None else attention.kind
    lines = _by_layer(f"{{}} heads of {layers[0].head_dim}", [layer.heads for layer in layers])
    lines += ["fewer heads of keys and values"] * attention.shares_keys
    lines += [f"{attention.reach} tokens on each side"] * (attention.reach is not None)
    lines += [f"{body.positions.kind} positions"] * body.positions.in_attention
    return f"{'causal ' * body.causal}{kind} attention", lines


def _ffn(body: Encoder, slot: Alike) -> tuple[str, list[str]]:
    unit = getattr(body.ffn.setting, "kind", body.ffn.setting)
    text = f"{body.hidden:,} → {{}} → {body.hidden:,}, {unit}"
    return "feed-forward", _by_layer(text, [body.layers[n].ffn for n in slot])


def _by_layer(text: str, numbers: Sequence[int]) -> list[str]:
    """A line with a number, or with n and the numbers of n by layer."""
    if len({*numbers}) == 1:
        return [text.format(f"{numbers[0]:,}")]
    return [text.format("n"), *wrap(f"n = {', '.join(map(str, numbers))}", _COLUMNS)]


def _norm(body: Encoder, numel: int) -> Box:
    return Box("norm", f"{body.norm.of_layers.kind} norm", numel=numel)


def _row(items: Sequence[Element]) -> list[Element]:
    return [Group((*items,), row=True)] if len(items) > 1 else [*items]


def _lines(weights: Sequence[Weight]) -> list[str]:
    """A line for each matrix, table and vector."""
    lines = []
    for weight in weights:
        sizes = [f"{size:,}" for size in weight.shape]
        size = " → ".join(sizes[::-1]) if weight.role == "matrix" else " × ".join(sizes)
        lines += [f"{_leaf(weight)} {size}"] * (weight.role not in ("bias", "norm"))
    return lines


def _leaf(weight: Weight) -> str:
    _, *parts = weight.name.removesuffix(".weight").replace("_", " ").split(".")
    kind = "table" if weight.role == "table" else "linear"
    return " ".join(part for part in parts if not part.isdigit()) or kind
