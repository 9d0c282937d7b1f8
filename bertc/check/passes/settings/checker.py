"""The checker of settings: reports the rules that they break, and mistakes of other forms."""

from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from bertc.base.diagnostics import Diagnostic, Diagnostics, Span
from bertc.ir.fixes import Way, note
from bertc.ir.program.complete import CompleteSettings
from bertc.ir.rules import Also, Of, Rule, Where

_S = TypeVar("_S", bound=CompleteSettings)
_T = TypeVar("_T")


class Checker(NamedTuple, Generic[_S]):
    """Settings that are checked, and where mistakes go."""

    settings: _S
    diagnostics: Diagnostics

    def rules(self, rules: Iterable[Rule[_S]]) -> None:
        """Report every rule that the settings break, in the order of the rules."""
        for rule in rules:
            if rule.when(self.settings):
                at = rule.at(self.settings) if callable(rule.at) else rule.at
                self.report(
                    rule.code,
                    self._of(rule.says),
                    at,
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
