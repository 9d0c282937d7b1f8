"""Answers that follow from a node alone, worked out once.

For questions of estimates and of building alone: code that is compiled traces through the cache.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from types import MethodType
from typing import Any, TypeVar, cast

Ask = TypeVar("Ask", bound=Callable[..., Any])
KEPT = 256
"""Answers to a question that are kept, the latest."""


def once(ask: Ask) -> Ask:
    """Ask each frozen node once; bound methods are equal if their nodes are the same object."""

    @lru_cache(KEPT)
    def answer(bound: Callable[..., object], *args: Hashable) -> object:
        return bound(*args)

    @wraps(ask)
    def asked(node: object, *args: Hashable) -> object:
        return answer(MethodType(ask, node), *args)

    return cast(Ask, asked)
