"""A look at all rows of a table before the first is trained."""

from collections.abc import Callable

from bertc.diagnostics import SpecError, UsageError
from bertc.ir.program.resolved import Resolved
from bertc.search.goal import goal_of
from bertc.tables.programs import Jobs


def look_at_rows(jobs: Jobs, say: Callable[[str], None]) -> None:
    """Compile the runs of rows that wait for no other, and say which rows are one at this scale.

    Raises:
        SpecError: the mistakes of a row, in its own texts.
        UsageError: if a measure asks for a score that evaluations of a row will not have.
    """
    programs: dict[str, Resolved] = {}
    for row in jobs.table.rows:
        first = next(iter(jobs.of(row, 1)))
        if first.lacks or first.after:
            continue
        try:
            programs[row.name] = first.program()
        except SpecError:
            say(f"row {row.name}, where --set #1 is the scale's text and #2 the row's:")
            raise
        if not first.measure:
            _refuse_unknown_scores(jobs, row.name, programs[row.name])
    for number, name in enumerate(programs):
        for other in [*programs][:number]:
            pair = (programs[each].model_copy(update={"name": ""}) for each in (name, other))
            tasks = (jobs.table.row(each).tasks for each in (name, other))
            if len({*map(str, pair)}) == len({*map(str, tasks)}) == 1:
                say(
                    f"rows {other} and {name} are the same at this scale; at.{jobs.name} may differ"
                )


def _refuse_unknown_scores(jobs: Jobs, row: str, program: Resolved) -> None:
    for measure in jobs.table.measures:
        own = measure.score and not (measure.spec or measure.eval)
        if own and measure.is_taken(row, jobs.name):
            try:
                goal_of(measure.score, program)
            except UsageError as error:
                raise UsageError(
                    f"measure {measure.name}: {error.message}",
                    help=error.help.replace("--for one of", "score = one of"),
                ) from None
