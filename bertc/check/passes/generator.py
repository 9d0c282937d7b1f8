"""Widths of the generator, and checks of its use."""

from bertc.base.diagnostics import Diagnostics, Fix
from bertc.check.passes.settings.fixes import argument, fix, fix_argument, note
from bertc.check.passes.settings.rules import Checker
from bertc.check.passes.settings.stages import settled
from bertc.ir.learning.objective import Objective
from bertc.ir.network.generator import Generator, GeneratorNetwork, NoGenerator
from bertc.ir.network.sharing import ShareGroups, ShareMap
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.program.written import Given, Origin

WIDEST = 16.0
"""The largest ``size`` that a spec may give."""


def generator_widths(program: Complete, diagnostics: Diagnostics) -> Complete:
    """Complete a generator network from the encoder's widths.

    ``hidden=256 objective=rtd+mlm generator=0.25`` becomes ``generator=network(size=0.25,
    hidden=64, heads=1, ffn=256)``. Unless written, its depth in each stage is the encoder's.
    """
    node, origin = program.generator, program.origins["generator"]
    if not isinstance(node, GeneratorNetwork):
        return program
    _one_width(node, origin, program.hidden, diagnostics)
    return settled(program, {"generator": Given(_complete(node, program.hidden), origin)})


def generator(program: Complete, diagnostics: Diagnostics) -> None:
    """Report a generator that no objective uses, and one that cannot exist.

    ``generator=0.25`` is E231 beside ``objective=mlm``.
    """
    node = program.generator
    _has_use(Checker(program, diagnostics), node)
    for stage in program.stages:
        _stage_fits(Checker(stage, diagnostics), node)
        if isinstance(node, GeneratorNetwork):
            _leaves_frozen(stage, node, diagnostics)
    if isinstance(node, GeneratorNetwork):
        _network_possible(program, node, diagnostics)


def _complete(node: GeneratorNetwork, encoder: int) -> GeneratorNetwork:
    """A generator for an encoder of this hidden width."""
    by_size = max(1, round(encoder * node.size))
    hidden = node.hidden or by_size
    size = node.size if hidden == by_size else min(hidden / encoder, WIDEST)
    return node.model_copy(
        update={
            "size": size,  # of the actual width, so that the printed setting reads back
            "hidden": hidden,
            "heads": node.heads or max(1, hidden // 64),
            "ffn": node.ffn or 4 * hidden,
        }
    )


def _one_width(
    node: GeneratorNetwork, origin: Origin, hidden: int, diagnostics: Diagnostics
) -> None:
    """Check that ``size`` and ``hidden`` agree if both are written."""
    by_size = max(1, round(hidden * node.size))
    if node.hidden and "size" in node.model_fields_set and node.hidden != by_size:
        diagnostics.error(
            "E235",
            f"hidden={node.hidden} contradicts size={node.size:g}, which is {by_size} of {hidden}",
            origin.parts.get(("hidden",), origin.span),
            label="both set the generator's width",
            notes=note(f"size = {node.size:g}", origin.parts.get(("size",))),
            **argument("generator", origin, "hidden", str(by_size)),
        )


def _judge(stage: StageSettings) -> Objective | None:
    """The objective that needs replaced tokens."""
    judges = (t.objective for t in stage.objective if t.objective.replaces)
    return next(judges, None)


def _verb(judge: Objective) -> str:
    return "detects" if judge.fills == "replaced" else "reads"


def _has_use(check: Checker[Complete], node: Generator) -> None:
    stages = check.settings.stages
    judge = next((judge for stage in stages if (judge := _judge(stage))), None)
    if not isinstance(node, NoGenerator) and not judge:
        network = isinstance(node, GeneratorNetwork)
        check.report(
            "E231",
            "a generator is only used by rtd and restore, and the objective has neither",
            "generator",
            also=("objective", "the objective is set here"),
            help="objective=rtd*50+mlm or " * network + "generator=none",
            instead="generator=none",
        )
    learns = any(term.objective.masks for stage in stages for term in stage.objective)
    if isinstance(node, GeneratorNetwork) and judge and not learns:
        check.report(
            "E232",
            "the generator is a network, but no mlm term trains it",
            "generator",
            label="needs an mlm term",
            also=("objective", "the objective is set here"),
            help=f"objective={_beside_mlm(judge)} or generator=unigram",
            instead="generator=unigram",
        )


def _stage_fits(check: Checker[StageSettings], node: Generator) -> None:
    """Check that rtd has one source of replacements, and one choice of positions."""
    stage, judge = check.settings, _judge(check.settings)
    if judge is None:
        return
    masks = next((t.objective.kind for t in stage.objective if t.objective.masks), "")
    if isinstance(node, NoGenerator):
        network = "generator=0.25" if masks else f"objective={_beside_mlm(judge)} generator=0.25"
        check.report(
            "E230",
            f"{judge.kind} {_verb(judge)} replaced tokens, but there is no generator to replace "
            "any",
            "objective",
            label="needs a generator",
            help=network if masks else f"{network} or generator=unigram",
        )
    elif masks and not isinstance(node, GeneratorNetwork):
        check.report(
            "E233",
            f"{masks} beside {judge.kind} trains a generator network, but generator = {node.kind} "
            "is none",
            "objective",
            label="the encoder reads replacements, not masks",
            also=("generator", f"generator = {node.kind}"),
            help=f"objective={judge.kind} or generator=0.25",
            instead="generator=0.25",
        )
    elif masks and (alone := judge.replaces) and alone.p != _default_p(judge):
        edit = _chosen_by_masking(stage, alone.p)
        help = edit.replacement if edit else f"leave p of {judge.kind} out"
        check.report(
            "E234",
            f"{judge.kind} has p={alone.p:g}, but with {masks} the masked tokens are those "
            "replaced",
            "objective",
            label=f"only {masks} sets the fraction here",
            way={"help": help, "fix": edit},
        )


def _leaves_frozen(stage: StageSettings, node: GeneratorNetwork, diagnostics: Diagnostics) -> None:
    """Check that the generator does not train the tables that ``freeze`` leaves as they are."""
    reads = any(term.objective.replaces for term in stage.objective)
    shared = ("embeddings",) if stage.freeze == "positions" else ("embeddings", "tokens", "gdes")
    if not (reads and stage.freeze and node.tie in shared):
        return
    origin = stage.origins["generator"]
    within = fix_argument(origin, (), "tie", "none")
    rewritten = f"generator=network({node.size:g}, tie=none)"
    diagnostics.error(
        "E387",
        f"freeze = {stage.freeze} keeps embeddings as they are, and the generator trains them",
        stage.span("freeze"),
        label=f"the generator has them in common with the encoder (tie={node.tie})",
        notes=note("the generator is set here", stage.span("generator")),
        help="tie=none" if within else rewritten,
        fix=within or fix(origin, rewritten),
    )


def _beside_mlm(judge: Objective) -> str:
    """An objective with both terms, weighed as in ELECTRA."""
    return f"{judge.kind}{'*50' * (judge.fills == 'replaced')}+mlm"


def _default_p(judge: Objective) -> float:
    """The default fraction of tokens that it chooses."""
    default: float = type(judge).model_fields["p"].default
    return default


def _chosen_by_masking(stage: StageSettings, p: float) -> Fix | None:
    """Move the p of the term that judges guesses to the masking, in one edit of the objective."""
    terms = [term.objective for term in stage.objective]
    origin = stage.origins["objective"]
    masking = next(i for i, term in enumerate(terms) if term.masks)
    judging = next(i for i, term in enumerate(terms) if term.replaces)
    edits = (
        fix_argument(origin, (masking, "objective"), "p", f"{p:g}"),
        fix_argument(origin, (judging, "objective"), "p", f"{_default_p(terms[judging]):g}"),
    )
    span = origin.span
    if span is None or not all(edits):
        return None
    text = span.text
    for edit in sorted(filter(None, edits), key=lambda e: e.span.start, reverse=True):
        start, end = edit.span.start - span.start, edit.span.end - span.start
        text = text[:start] + edit.replacement + text[end:]
    return Fix(span, text)


def _network_possible(program: Complete, node: GeneratorNetwork, diagnostics: Diagnostics) -> None:
    """Check the generator's heads, and the encoder's sharing at the generator's depth."""
    span, scheme = program.span("generator"), program.share
    origin = program.origins["generator"]
    if node.hidden % node.heads:
        fitting = (n for n in range(1, node.hidden + 1) if node.hidden % n == 0)
        near = min(fitting, key=lambda n: abs(n - node.heads))
        within = fix_argument(origin, (), "heads", str(near))
        rewritten = f"generator=network({node.size:g}, heads={near})"
        diagnostics.error(
            "E201",
            f"{node.heads} heads do not divide the generator's width {node.hidden}",
            span,
            label=f"{node.hidden} / {node.heads} leaves {node.hidden % node.heads}",
            help=rewritten if not within else f"heads={near}",
            fix=within or fix(origin, rewritten),
        )
    sharing = note("the sharing is set here", program.span("share"))
    deepest = max(view.whole for view in program.stages)
    shared = node.layers not in (0, deepest) and (
        (isinstance(scheme, ShareGroups) and scheme.groups > node.layers)
        or isinstance(scheme, ShareMap)
    )
    if shared:
        diagnostics.error(
            "E202",
            f"share={scheme.kind} does not fit the generator's {node.layers} layers",
            span,
            label="the generator shares layers as the encoder does",
            notes=sharing,
            **argument("generator", origin, "layers", str(deepest)),
        )
