"""Labels of runs that tag the text of others, which only their folders know."""

from collections.abc import Iterator
from contextlib import suppress
from json import dumps
from pathlib import Path

from bertc.diagnostics import DataError, Diagnostics, Fix, listed, nearest
from bertc.interop.folders import RESOLVED, read_network
from bertc.ir.learning.augmentation import EditedCopies
from bertc.ir.program.complete import Complete
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.taggers import span_labels, tag_names, taggers
from bertc.ir.program.written import Origin
from bertc.ir.terms.masking import TaggedUnit, is_span_file
from bertc.storage.paths import is_folder, is_taken


def labels_fit(program: Complete, diagnostics: Diagnostics) -> None:
    """Report labels of spans to mask that their tagger did not learn, as far as it is there."""
    for unit, number, origin in _units(program):
        with suppress(DataError):  # what is no tagger is told where it is asked
            known = _labels(unit.source)
            for place, label in enumerate(unit.labels):
                if known and label not in known:
                    near = nearest(label, known)
                    where = (number, "objective", "unit", "labels", place)
                    span = origin.parts.get(where)
                    diagnostics.error(
                        "E103",
                        f"{unit.source} has no label {label}: it has {listed(known)}",
                        span or origin.span,
                        label=f"did you mean `{near}`?" if near else "",
                        help=f"labels=[{', '.join(map(dumps, known))}]",
                        fix=Fix(span, dumps(near)) if span and near else None,
                    )


def tagged_by(resolved: Resolved) -> None:
    """Look at the runs and folders that tag a program's text: that they learned tags.

    Raises:
        DataError: if one did not.
    """
    for stage in resolved.stages:
        copying = (source.copies for source in stage.augment)
        edited = [c.tagger for c in copying if isinstance(c, EditedCopies) and c.tagger]
        for name in (*edited, *taggers(stage)):
            folder = Path(name)
            if is_span_file(name) or not is_folder(folder):
                continue
            if is_taken(folder / RESOLVED):
                tag_names(read_network(folder), name)
            elif is_taken(folder / "config.json"):
                from bertc.interop.loading import read_model  # its weights tell its heads

                tag_names(read_model(folder)[0], name)
            else:
                raise DataError(
                    f"{name} is no tagger: it holds no run", help="name the folder of one run"
                )


def _units(program: Complete) -> Iterator[tuple[TaggedUnit, int, Origin]]:
    """Units that a tagger finds, each with the number of its term, and where that is written."""
    for stage in program.stages:
        for number, term in enumerate(stage.objective):
            unit = term.objective.masks.unit if term.objective.masks else None
            if isinstance(unit, TaggedUnit):
                yield unit, number, stage.origins["objective"]


def _labels(source: str) -> tuple[str, ...]:
    """The labels of a run's spans; none if it is no run of this tool, or not there."""
    if is_span_file(source) or not is_taken(Path(source) / RESOLVED):
        return ()
    return span_labels(tag_names(read_network(Path(source)), source))
