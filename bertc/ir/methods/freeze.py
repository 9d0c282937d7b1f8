"""Freezing: a part of the main network that a stage leaves as it is."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.base.diagnostics import several
from bertc.ir.methods.method import Frozen, Method
from bertc.ir.network.positions import TablePositions
from bertc.ir.rules import Rule, Rules

Freeze = Annotated[int, Field(ge=0, le=1000)] | Literal["embeddings", "positions", "all"]
"""Layers that are not trained, nor the embeddings below them; 0: all are trained.

``positions``: the position table alone is not (DistilBERT). Of ``all`` nothing of the network is,
but for a pooler, which belongs to the head; it is read without dropout (BERT extract_features.py,
is_training=False).
"""


class Freezing(Method):
    """The part ``what`` of the main network, which has no gradient."""

    what: Freeze

    setting = "freeze"
    rules = Rules(stage=(
        Rule("E274", "freeze", lambda s: isinstance(s.freeze, int) and s.freeze > s.layers,
             lambda s: f"freeze = {s.freeze}, but the network has {several(s.layers, 'layer')}",
             also=lambda s: ("layers", f"layers = {s.layers}"),
             label="with all of them frozen, only heads and pooler are trained",
             help=lambda s: f"freeze={s.layers}"),
        Rule("E274", "freeze",
             lambda s: s.freeze == "positions" and not isinstance(s.positions, TablePositions),
             lambda s: f"freeze = positions, but positions = {s.positions.kind} has no table",
             also=("positions", "positions are set here"), help="freeze=0"),
    ))  # fmt: skip

    def frozen(self, depth: int) -> Frozen:
        named = {"embeddings": Frozen(0), "positions": Frozen(positions=True)}
        named["all"] = Frozen(depth, whole=True)
        return named[self.what] if isinstance(self.what, str) else Frozen(self.what)
