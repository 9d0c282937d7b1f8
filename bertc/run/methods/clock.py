"""The clock of a run in training: its end, and the share of its time that is used."""

from bertc.ir.methods.clock import Clock
from bertc.run.methods.acting import Acting


class ByClock(Acting[Clock]):
    """The time of a run, by the seconds of its first process."""

    def is_over(self) -> bool:
        """True if the time is used up, for all processes at once."""
        progress = self.session.progress
        progress.seconds = self.session.ranks.share(progress.seconds)
        return progress.seconds >= self.method.seconds

    def share_used(self) -> float:
        """The share of the time that is used."""
        return self.session.progress.seconds / self.method.seconds
