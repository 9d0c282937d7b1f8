"""The check of stages whose token table is factorised."""

from bertc.diagnostics import Diagnostics
from bertc.ir.network.table import FactorisedTable
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.terms.heads import VocabularyHead
from bertc.passes.settings.fixes import fix


def factorising(program: Complete, diagnostics: Diagnostics) -> None:
    """Report token tables that cannot be factorised, or that something reads whole.

    ``hidden=64 table=factorised(128)`` is E339: such a table has at most rank 64.
    """
    for stage in program.stages:
        if diagnostics.found or not isinstance(stage.table, FactorisedTable):
            continue
        if problem := _problem(stage, stage.table):
            most = min(stage.embedding, stage.vocab.size)
            instead = f"table=factorised({most})" if "rank" in problem else "table=whole"
            diagnostics.error(
                "E339",
                f"the token table cannot be factorised: {problem}",
                stage.span("table"),
                help=instead,
                fix=fix(stage.origins["table"], instead),
            )


def _problem(stage: StageSettings, table: FactorisedTable) -> str:
    """The reason why the table of a stage is not factorised; empty if it can be."""
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
