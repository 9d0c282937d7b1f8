"""Rules: what is wrong with settings that do not go together, as rows of tables."""

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from bertc.base.diagnostics import Diagnostic, Diagnostics, Span
from bertc.check.passes.settings.fixes import Way, note
from bertc.ir.program.complete import CompleteSettings

_S = TypeVar("_S", bound=CompleteSettings)
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
    at: Where
    when: Callable[[_S], object]
    says: Of[str, _S]
    also: Of[Also | None, _S] = None
    label: Of[str, _S] = ""
    help: Of[str, _S] = ""
    way: Callable[[_S], Way] | None = None


class Checker(NamedTuple, Generic[_S]):
    """Settings that are checked, and where mistakes go."""

    settings: _S
    diagnostics: Diagnostics

    def rules(self, rules: Iterable[Rule[_S]]) -> None:
        """Report every rule that the settings break, in the order of the rules."""
        for rule in rules:
            if rule.when(self.settings):
                self.report(
                    rule.code,
                    self._of(rule.says),
                    rule.at,
                    also=self._of(rule.also),
                    label=self._of(rule.label),
                    help=self._of(rule.help),
                    way=rule.way(self.settings) if rule.way else None,
                )

    def _span(self, name: str) -> Span | None:
        setting, _, argument = name.partition(".")
        origin = self.settings.origins[setting]
        return origin.parts.get((argument,), origin.span) if argument else origin.span

    def _of(self, value: Of[_T, _S]) -> _T:
        return value(self.settings) if callable(value) else value

    def report(
        self,
        code: str,
        message: str,
        at: Where | Span | None,
        *,
        also: Also | None = None,
        label: str = "",
        help: str = "",
        way: Way | None = None,
    ) -> None:
        """Report a mistake or a remark, with the parts of a ``Rule``; ``at`` may be a place."""
        if isinstance(at, str | tuple):
            names = (at,) if isinstance(at, str) else at
            at = next(filter(None, map(self._span, names)), None)
        words = note(also[1], self.settings.span(also[0])) if also else ()
        way = way or {"help": help, "fix": None}
        if code.startswith("R"):
            self.diagnostics.remark(Diagnostic(code, message, at, label, words, **way))
        else:
            self.diagnostics.error(code, message, at, label=label, notes=words, **way)
