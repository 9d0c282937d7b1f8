"""The check of stages whose token table is factorised, by ``prune`` or from the start."""

from bertc.diagnostics import Diagnostics
from bertc.ir.changing.pruning import Rank
from bertc.ir.network.table import FactorisedTable
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.terms.heads import VocabularyHead
from bertc.passes.settings.fixes import fix


def factorising(program: Complete, diagnostics: Diagnostics) -> None:
    """Report token tables that cannot be factorised, or that something reads whole.

    ``hidden=64 table=factorised(128)`` is E339: such a table has at most rank 64.
    """
    for stage in program.stages:
        prunes = isinstance(stage.prune, Rank)
        if diagnostics.found or not (prunes or isinstance(stage.table, FactorisedTable)):
            continue
        if problem := _problem(stage):
            setting, most = "prune" if prunes else "table", min(stage.embedding, stage.vocab.size)
            instead = "" if prunes else "table=whole"
            if "rank" in problem:
                instead = f"prune=rank({most})" if prunes else f"table=factorised({most})"
            diagnostics.error(
                "E339",
                f"the token table cannot be factorised: {problem}",
                stage.span(setting),
                help=instead or "remove prune",
                fix=fix(stage.origins[setting], instead),
            )


def _problem(stage: StageSettings) -> str:
    """The reason why the table of a stage is not factorised; empty if it can be."""
    table, prune = stage.table, stage.prune
    if not isinstance(table, FactorisedTable):
        return f"table = {table.kind}"
    if isinstance(prune, Rank) and prune.width != table.rank:
        return f"it is factorised into width {table.rank:,} already"
    if table.rank > min(stage.embedding, stage.vocab.size):
        return f"one of {stage.vocab.size:,} x {stage.embedding:,} has no rank {table.rank:,}"
    if stage.generator.kind == "network":
        return "a generator shares the whole table"
    if stage.body.kind != "transformer":
        return f"body = {stage.body.kind} reads the whole table"
    terms = (term.objective for term in stage.objective)
    scoring = (term for term in terms if term.scored == "tokens")
    own_head = (term.title for term in scoring if not isinstance(term.head_node, VocabularyHead))
    title = next(own_head, "")
    return f"{title} makes scores with the whole table" if title else ""
