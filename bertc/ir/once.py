"""Answers that follow from a node alone, worked out once.

For questions of estimates and of building alone: code that is compiled traces through the cache.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

Ask = TypeVar("Ask", bound=Callable[..., Any])
KEPT = 256
"""Answers to a question that are kept, the latest."""


class _Itself:
    """A node that equals no other: to compare whole encoders takes longer than to ask them."""

    def __init__(self, node: object) -> None:
        self.node = node

    def __hash__(self) -> int:
        return id(self.node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.node is other.node


def once(ask: Ask) -> Ask:
    """Ask each frozen node once; its copies are asked anew, as they may differ."""

    @lru_cache(KEPT)
    def answer(itself: _Itself, *args: Hashable) -> object:
        return ask(itself.node, *args)

    @wraps(ask)
    def asked(node: object, *args: Hashable) -> object:
        return answer(_Itself(node), *args)

    return cast(Ask, asked)
