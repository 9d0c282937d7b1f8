"""Checks of tasks, of what their heads read of a network, and of a frozen network."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bertc.base.diagnostics import Diagnostics, listed, several
from bertc.check.passes.settings import Checker
from bertc.ir.data import PAIRED, RUNNING
from bertc.ir.fixes import Rule, argument, note, span_if_written
from bertc.ir.learning import UNCHANGED, Embed, Labels, Score, Several, Span, Vector, label_names
from bertc.ir.learning.answer import NamedSpans
from bertc.ir.learning.augmentation import ReverseComplement, chance_of_turns
from bertc.ir.learning.pooling import SparseVectors
from bertc.ir.learning.task import UNKNOWN, Task
from bertc.ir.methods.method import removing
from bertc.ir.network.head import POOLINGS, AdaptiveHead
from bertc.ir.program import Complete, CompleteStage, Program
from bertc.ir.terms.task_head import LAST


def features(stage: CompleteStage, diagnostics: Diagnostics) -> None:
    """Report layers that no head can read, and a wholly frozen network that cannot be used so.

    ``layers=2 features=concat(last=4)`` is E279, ``objective=mlm freeze=all`` E278.
    """
    tasks, check = stage.tasks, Checker(stage, diagnostics)
    if tasks and stage.features != LAST and stage.features.least > stage.layers:
        several = stage.features.least > 2 or stage.features.joins != "one"
        deeper = argument("features", stage.origins["features"], "last", str(stage.layers))
        message = f"features reads {stage.features.least} layers, and there are {stage.layers}"
        also = ("layers", f"layers = {stage.layers}")
        way = deeper if several else None
        check.report("E279", message, "features", also=also, help="features=last", way=way)
    for setting, why, instead in _obstacles(stage, tasks):
        value = getattr(stage, setting)
        message = f"{setting} = {value} {why}" if isinstance(value, str) else f"{setting} {why}"
        also = ("objective", "the objective is set here")
        help = instead or "leave head out of the task"
        check.report("E278", message, (setting, "objective"), also=also, help=help)
        return


def one_head_a_task(stages: Sequence[CompleteStage], diagnostics: Diagnostics) -> None:
    """Report a task of several stages whose head reads other layers in one of them, as E278.

    A masked-LM head of a generator, which sparse vectors would be made by, is E281.
    """
    guessing = (stage for stage in stages if stage.generator.kind == "network")
    masked = (t.objective.masks for stage in guessing for t in stage.objective)
    if (sparse := next(filter(_sparse, stages), None)) and any(masked):
        message = "pooling=sparse needs the masked-LM head of its network, not of a generator"
        help = "pooling=mean, or objective=mlm without a generator"
        diagnostics.error("E281", message, sparse.span("objective"), help=help)
    before: dict[str, tuple[CompleteStage, object]] = {}
    for stage in stages:
        for task in stage.tasks:
            read = stage.features, task.recurrent
            earlier, read_before = before.setdefault(task.title, (stage, read))
            if read_before != read:
                diagnostics.error(
                    "E278",
                    f"the head of {task.title} reads other states here than in stage "
                    f"{earlier.name}, and a task has one head",
                    stage.span("features") or stage.span("objective"),
                    notes=note("the other stage", earlier.span("features")),
                    help="the same features and head in all stages of a task",
                )
                return


def _obstacles(stage: CompleteStage, tasks: Sequence[Task]) -> Iterator[tuple[str, str, str]]:
    """Settings that cannot be, each with the reason and what to write instead."""
    chosen = stage.features != LAST
    frozen = next((m.setting for m in stage.methods if m.freezes(stage.layers).whole), "")
    recurrent = any(task.recurrent for task in tasks)
    if chosen and (why := _unread(stage, tasks)):
        yield "features", why, "features=last"
    if frozen and (why := _unfrozen(stage, tasks)):
        yield frozen, why, f"{frozen}={stage.layers}"
    pools = stage.pooler and POOLINGS[stage.pooler].mean != "none"
    if (chosen or recurrent) and pools and any(task.pooled for task in tasks):
        why = "reads states of tokens, and the pooler makes one state of all of them"
        yield "features" if chosen else "objective", why, "pooler=false"
    taught = next((t.objective.title for t in stage.objective if t.objective.teaching), "")
    if recurrent and (taught or not stage.body.attends):
        why = "has a task with head=bilstm, which "
        why += f"{taught} compares with no teacher's" if taught else "is of layers that attend"
        yield "objective", why, ""
    removed = removing(stage)
    if removed and (chosen or frozen):
        reason = "nothing of the network changes" if frozen else "layers are named from the top"
        yield frozen or "features", f"goes with no {removed}: {reason}", f"{removed}=none"


def _unread(stage: CompleteStage, tasks: Sequence[Task]) -> str:
    if not tasks:
        return "is what the head of a task reads, and the objective has none"
    if not stage.body.attends:
        return f"chooses layers of a network that attends, and body = {stage.body.kind} does not"
    if any(isinstance(task.answer, Vector) for task in tasks):
        return "is what a head scores, and vectors are pooled from last states (bertc embed)"
    if any(isinstance(task.answer, NamedSpans) for task in tasks):
        return "is read by linear heads, and spans by names have another"
    if any(isinstance(a := task.answer, Span) and a.head.kind == "conditioned" for task in tasks):
        return "is read by linear heads, and by head=plain of spans"
    if any(term.objective.teaching for term in stage.objective):
        return "differs from what a teacher's head reads, which kd compares"
    return ""


def _unfrozen(stage: CompleteStage, tasks: Sequence[Task]) -> str:
    if not tasks:
        return "leaves a head alone to be trained, and the objective has no task"
    if any(isinstance(task.answer, Vector) for task in tasks):
        return "leaves nothing to be learned, since vectors are of the network itself"
    if any(term.objective.teaching for term in stage.objective):
        return "keeps states of examples, and kd compares those with what teachers say"
    return ""


OF_TEXT = ("generator", "mixing", "format", "pack", "memory")
"""Settings that a stage of tasks does not read; ``data`` it may learn its vocabulary from."""


def tasks(program: Complete, diagnostics: Diagnostics) -> None:
    """Report tasks that cannot be learned as written.

    ``layers=4 freeze=5`` is E274.
    """
    stages = program.stages
    unread = any(mistake.code < "E2" for mistake in diagnostics.found)
    for stage in stages:
        check = Checker(stage, diagnostics)
        if stage.tasks:
            check.rules(_OF_TASKS)
            origins = stage.own or program.origins
            for name in OF_TEXT:
                if span := span_if_written(origins.get(name)):
                    message = f"{name} has no effect on a task, whose rows are its own examples"
                    also = ("objective", "the task is named here")
                    check.report("E273", message, span, also=also, help=f"leave {name} out")
        if not (unread and _may_be_of_tasks(stage)):
            features(stage, diagnostics)
    one_head_a_task(stages, diagnostics)
    tuned = any(stage.tasks for stage in stages)
    for stage in stages:
        # Settings of the whole run may apply to its stages of text only.
        if stage.tasks or (unread and _may_be_of_tasks(stage)):
            continue
        of_methods = (rule for method in stage.methods for rule in method.rules.text)
        rules = (*of_methods, *_OF_TEXTS)
        Checker(stage, diagnostics).rules(r for r in rules if not tuned or r.at in stage.own)


def _may_be_of_tasks(stage: CompleteStage) -> bool:
    """True of a stage of text whose spec has a mistake: what was not read may have been a task."""
    return not stage.tasks and not span_if_written(stage.origins["objective"])


COPIED = Labels | Several | Score
"""Answers that copies of a text share."""


def _from_text(stage: CompleteStage) -> list[str]:
    terms = [term for term in stage.objective if not isinstance(term.objective, Task)]
    return [term.name for term in terms if not term.objective.teaching]


def _find_misweighed(stage: CompleteStage) -> str:
    """The mistake of a task with other numbers of weights than labels; empty if none has one."""
    for task in stage.tasks:
        weights, names = len(task.class_loss.weights), label_names(task.answer)
        if weights not in (0, len(names)) and names != UNKNOWN:
            labels = f"{len(names)} labels ({listed(names)})"
            return f"{task.title} has {labels}, but loss has {several(weights, 'weight')}"
    return ""


def _find_uncopied(stage: CompleteStage) -> list[str]:
    """The tasks whose answers belong to words or passages, which no copy of a text has."""
    return [task.title for task in stage.tasks if not isinstance(task.answer, COPIED)]


def _unlike(stage: CompleteStage) -> str:
    """The first argument that embedding tasks of a stage have in unlike forms."""
    tasks = [task for task in stage.tasks if isinstance(task, Embed)]
    ways = ("pooling", "similarity", "normalise")
    return next((way for way in ways if len({getattr(task, way) for task in tasks}) > 1), "")


def _numbers(stage: CompleteStage) -> int:
    """The numbers of a vector, of tasks that embed alike."""
    embed = [task for task in stage.tasks if isinstance(task, Embed)]
    widths = [task.answer.by_token.width for task in embed if task.answer.by_token]
    return min([*widths, *(task.dense[-1] for task in embed if task.dense)], default=stage.hidden)


def _wider(stage: CompleteStage) -> int:
    """The widest prefix that is longer than the vectors, 0: none is."""
    widths = [width for t in stage.tasks if isinstance(t, Embed) for width in t.widths]
    return max((width for width in widths if width > _numbers(stage)), default=0)


def _longer_query(stage: CompleteStage) -> int:
    """The length to which queries are filled, if it is more than a row's; else 0."""
    by_token = (t.answer.by_token for t in stage.tasks if isinstance(t, Embed))
    filled = [tokens.query for tokens in by_token if tokens and tokens.fill != "none"]
    return max((query for query in filled if query > stage.seq), default=0)


def _sparse(stage: CompleteStage) -> SparseVectors | None:
    """The pooling of a task that makes sparse vectors."""
    poolings = (task.pooling for task in stage.tasks if isinstance(task, Embed))
    return next((pooling for pooling in poolings if isinstance(pooling, SparseVectors)), None)


_OF_TASKS: tuple[Rule[CompleteStage], ...] = (
    Rule("E271", "objective", _from_text,
         lambda s: f"{listed(_from_text(s))} learns from text, a task from examples: one stage "
         "cannot do both",
         label="a stage reads either text or examples", help="make a stage for each"),
    Rule("E277", "objective", _find_misweighed,
         _find_misweighed,
         help="a weight for each label, in their order"),
    Rule("E276", "augment",
         lambda s: any(isinstance(part.copies, ReverseComplement) for part in s.augment),
         "reverse_complement turns rows of text, and a task has examples", help="augment=none"),
    Rule("E276", "augment", lambda s: s.augment != UNCHANGED and _find_uncopied(s),
         lambda s: "augment copies examples of texts with a label or a score, but those of "
         f"{listed(_find_uncopied(s))} have others",
         also=("objective", "the objective is set here"), help="augment=none"),
    Rule("E281", "objective", _unlike,
         lambda s: f"tasks of one network embed with unlike {_unlike(s)}, and it makes vectors "
         "in one way",
         help="the same pooling, similarity and normalise in all of them"),
    Rule("E281", "objective", _wider,
         lambda s: f"widths has a prefix of {_wider(s)} numbers, and vectors have {_numbers(s)}",
         also=lambda s: ("hidden", f"hidden = {s.hidden}"),
         help="leave it out: the first width is at most that of the vectors"),
    Rule("E281", "objective", _longer_query,
         lambda s: f"queries are filled to {_longer_query(s)} tokens, and rows have {s.seq}",
         also=lambda s: ("seq", f"seq = {s.seq}"),
         help=lambda s: f"seq={_longer_query(s)}, or pooling=tokens(query={s.seq})"),
    Rule("E281", ("objective", "head"),
         lambda s: _sparse(s) and (s.head.decoder or isinstance(s.head, AdaptiveHead)),
         lambda s: "pooling=sparse takes the scores of last states by one table, which head = "
         f"{s.head.kind}{'(decoder)' * bool(s.head.decoder)} has not",
         also=lambda s: ("head", f"head = {s.head.kind}"), help="pooling=mean"),
    Rule("E329", "objective", lambda s: s.most_seconds and (p := _sparse(s)) and p.warmup,
         "the warm-up of pooling=sparse is a share of the steps, and a time does not say how many "
         "there are", help="sparse(warmup=0)"),
)  # fmt: skip
_OF_TEXTS: tuple[Rule[CompleteStage], ...] = (
    Rule("E272", "epochs", lambda s: s.epochs,
         "epochs needs the examples of a task, but the objective has none; text needs steps",
         also=("objective", "the objective is set here"), help="epochs=0"),
    Rule("E276", "augment",
         lambda s: s.augment != UNCHANGED and (not chance_of_turns(s.augment)
         or s.translation_term or s.format.kind in (*PAIRED, *RUNNING)),
         "augment copies examples of tasks; rows of text are turned by reverse_complement alone, "
         "if they are of one text",
         also=lambda s: ("format", f"format = {s.format.kind}"),
         help="augment=none"),
)  # fmt: skip
"""Settings of tasks alone, in stages of text."""


def drop_settings_of_text(program: Complete) -> Program:
    """The program in printable form, without settings that none of its stages reads."""
    if not all(stage.tasks for stage in program.stages):
        return program.program
    settings = {n: setting for n, setting in program.program.settings.items() if n not in OF_TEXT}
    return replace(program.program, settings=settings)
