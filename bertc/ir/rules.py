"""Rules: what is wrong with settings that do not go together, as rows of tables."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from bertc.ir.fixes import Way

_S = TypeVar("_S")
_T = TypeVar("_T")
Of: TypeAlias = _T | Callable[[_S], _T]
"""A value, or a function that computes it from the settings."""
Where: TypeAlias = str | tuple[str, ...]
"""Settings to point at, the first that is written; ``optimizer.lr`` is an argument of one."""
Also: TypeAlias = tuple[str, str]
"""Another setting to point at, and the words of that note."""


class Rule(NamedTuple, Generic[_S]):
    """A mistake (E...) or a remark (R...) about the settings of a run or a stage.

    ``help`` is settings, as in ``a=1 b=2 or a=3``, which editors write, or advice in words; ``way``
    is a help with an edit of another form.
    """

    code: str
    at: Of[Where, _S]
    when: Callable[[_S], object]
    says: Of[str, _S]
    also: Of[Also | None, _S] = None
    label: Of[str, _S] = ""
    help: Of[str, _S] = ""
    way: Callable[[_S], Way | None] | None = None


class Rules(NamedTuple):
    """Rules of a kind, by the settings that they are of: those of stages that have it."""

    stage: tuple[Rule[Any], ...] = ()
    """Mistakes of any complete stage."""
    network: tuple[Rule[Any], ...] = ()
    """Mistakes of its network, where the program has no others."""
    tasks: tuple[Rule[Any], ...] = ()
    """Mistakes of tasks, whose rows vary, before lengths become steps."""
    text: tuple[Rule[Any], ...] = ()
    """Mistakes of stages of text."""
    remarks: tuple[Rule[Any], ...] = ()
    """Remarks on a run without mistakes."""
    rows: tuple[Rule[Any], ...] = ()
    """Mistakes of stages of text, with rows that are not as it needs them."""
    timed: tuple[Rule[Any], ...] = ()
    """Mistakes of a run that ends with its time, not after a number of steps."""
