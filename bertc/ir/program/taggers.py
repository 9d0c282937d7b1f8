"""The taggers that a stage reads its text with, and what a run that learned tags may find."""

from collections.abc import Iterable, Sequence
from json import dumps

from bertc.diagnostics import DataError, listed
from bertc.ir.learning.answer import Tags, names_spans
from bertc.ir.learning.custom_task import AnyTask
from bertc.ir.network.generator import SameTagGenerator
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.ir.terms.masking import TaggedUnit


def tagged_unit(stage: Stage) -> TaggedUnit | None:
    """The unit of its masking, if a tagger finds it."""
    units = (masks.unit for masks in stage.masked_terms())
    return next((unit for unit in units if isinstance(unit, TaggedUnit)), None)


def replaces_by_tag(stage: Stage) -> str:
    """The source of the tags by which tokens are replaced; empty if they are not."""
    judged = any(term.objective.needs_replacements for term in stage.objective)
    source = stage.replacements
    return source.source if judged and isinstance(source, SameTagGenerator) else ""


def taggers(stage: Stage) -> dict[str, tuple[str, ...]]:
    """All sources of tags, each with the labels that are masked; none: all of them."""
    unit, by_tag = tagged_unit(stage), replaces_by_tag(stage)
    return {**({by_tag: ()} if by_tag else {}), **({unit.source: unit.labels} if unit else {})}


OUTSIDE = "O"
"""The tag of words in no span."""


def tagging(resolved: Resolved, folder: str) -> tuple[Stage, AnyTask]:
    """The last task of tags that a run in ``folder`` learned, and its stage.

    Raises:
        DataError: if it learned none.
    """
    learned = [(s, task) for s in resolved.stages for task in s.tasks]
    found = [(s, task) for s, task in learned if isinstance(task.answer, Tags)]
    if not found:
        titles = listed(task.title for _, task in learned) or "no task"
        raise DataError(
            f"{folder} is no tagger: it learned {titles}",
            help='name a run that learned tags, as of objective=tagging("ud", upos)',
        )
    return found[-1]


def tag_names(resolved: Resolved, folder: str) -> tuple[str, ...]:
    """The tags that a run learned.

    Raises:
        DataError: if it learned none.
    """
    answer = tagging(resolved, folder)[1].answer
    assert isinstance(answer, Tags), "a tagger gives tags"
    return answer.names


def span_labels(names: Sequence[str]) -> tuple[str, ...]:
    """The labels of the spans that tags mark, or the tags themselves where they mark none."""
    kinds = (name[2:] for name in names) if names_spans((*names,)) else names
    return tuple(sorted({*kinds} - {"", OUTSIDE}))


def refuse_unknown_labels(
    name: str, wanted: Iterable[str], known: Sequence[str], found: Sequence[str]
) -> None:
    """Refuse labels that a tagger does not know; ``found`` are those that the help names.

    Raises:
        DataError: names the first.
    """
    if unknown := [label for label in wanted if label not in known]:
        raise DataError(
            f"{name} has no label {unknown[0]}: it has {listed(known) or 'none'}",
            help=f"labels=[{', '.join(map(dumps, found))}]"
            if found
            else "train the tagger on labelled spans",
        )
