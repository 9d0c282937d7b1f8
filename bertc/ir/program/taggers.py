"""The taggers that a stage reads its text with."""

from bertc.ir.network.generator import SameTagGenerator
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
