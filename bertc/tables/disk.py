"""Space on the disk that the runs of a table take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bertc.diagnostics import several
from bertc.estimate.units import bytes_text
from bertc.ir.program.resolved import Resolved
from bertc.planning.disk import finished_bytes
from bertc.tables.job import Job, is_finished


@dataclass(frozen=True)
class DiskUse:
    """Runs that are still to be trained, and the bytes that they keep but for ``unknown`` ones."""

    runs: int
    bytes: int
    unknown: int

    def told(self) -> list[str]:
        """A line about it, if there are any."""
        if not self.runs:
            return []
        unknown = f"; {several(self.unknown, 'run')} of unknown size not in it" * bool(self.unknown)
        said = (
            f"{several(self.runs, 'run')} to train will keep {bytes_text(self.bytes)} on the disk"
        )
        return [f"{said}{unknown}"]


def disk_use(every: Sequence[Job], programs: Mapping[str, Resolved]) -> DiskUse:
    """Disk use of the unfinished ones of some runs; ``programs`` are those of seed 1 by name.

    A run whose program depends on files that are not there has no known size.
    """
    runs = [job for job in every if job.eval is None and not is_finished(job, job.out)]
    sizes = {name: finished_bytes(program) for name, program in programs.items()}
    firsts = [job.name.replace(f"/seed-{job.seed}/", "/seed-1/") for job in runs]
    known = [sizes[name] for name in firsts if name in sizes]
    return DiskUse(len(runs), sum(known), len(runs) - len(known))
