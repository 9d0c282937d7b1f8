"""``bertc prepare``: text made tokens in a folder or a store, and how far that is."""

from pathlib import Path

from bertc.base.diagnostics import UsageError, several
from bertc.base.storage.place import FolderAt
from bertc.cost.units import bytes_text
from bertc.data.prepared.making import begin_preparing, finish_preparing, make_parts
from bertc.data.prepared.manifest import PreparationPlan, PreparedText, part_at, read_plan
from bertc.ir.program.resolved import Resolved
from bertc.machine.display import Watched, choose
from bertc.machine.signals import Stop

GO_ON = "the same command goes on"


def prepare_text(resolved: Resolved, to: str, cache: Path, part: tuple[int, int] | None) -> str:
    """Prepare the text of a spec, or one share of its parts; return a line about it."""
    place, display = FolderAt(to), choose(quiet=False)
    with Stop(way_on=GO_ON) as stop:
        progress = Watched(display, stop)
        work = begin_preparing(resolved, place, cache, progress)
        nth, of = part or (1, 1)
        names = work.plan.parts[nth - 1 :: of]
        make_parts(work, names, progress)
        corpus = None if part else finish_preparing(place, progress)
    display.close()
    if corpus is None:
        return f"{to}: share {nth} of {of}, {several(len(names), 'part')}, is prepared"
    return _about(to, corpus)


def finished(to: str) -> str:
    """Write the manifest of text whose parts are all there; return a line about it."""
    display = choose(quiet=False)
    with Stop(way_on=GO_ON) as stop:
        corpus = finish_preparing(FolderAt(to), Watched(display, stop))
    display.close()
    return _about(to, corpus)


def standing(to: str) -> str:
    """The progress of a preparation, with its missing and damaged parts."""
    place = FolderAt(to)
    plan = read_plan(place)
    if plan is None:
        raise UsageError(f"nothing is prepared at {to}", f"bertc prepare SPEC --to {to} begins it")
    parts = {name: part_at(place, name) for name in plan.parts}
    lines = [f"{to}: {_read(plan)}"]
    missing = [name for name, part in parts.items() if part is None]
    lines.append(f"  parts    {len(parts) - len(missing):,} of {len(parts):,}")
    if missing:
        shown = ", ".join(missing[:8]) + (", ..." if missing[8:] else "")
        lines.append(f"  missing or damaged    {shown}")
    tokens = sum(part.facts["train"]["tokens"] for part in parts.values() if part)
    lines.append(f"  tokens   {tokens:,}")
    return "\n".join(lines)


def _read(plan: PreparationPlan) -> str:
    return f"{plan.read.get('text')}, {bytes_text(int(plan.read.get('bytes', 0)))} of text"


def _about(to: str, corpus: PreparedText) -> str:
    facts = corpus.facts
    return (
        f"{to}: {facts['train']['tokens']:,} tokens of {facts['train']['documents']:,} documents "
        f"to train on, {facts['heldout']['tokens']:,} held out, in "
        f'{several(len(corpus.parts), "part")}; read with data=prepared("{to}")'
    )
