"""Widths of the generator, and checks of its use."""

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes.settings import Checker, fitting_heads, set_values
from bertc.ir.fixes import Rule, argument
from bertc.ir.learning import Objective
from bertc.ir.network.generator import GeneratorNetwork, NoGenerator
from bertc.ir.network.sharing import ShareGroups, ShareMap
from bertc.ir.program import Complete, CompleteStage, Given

WIDEST = 16.0
"""The largest ``size`` that a spec may give."""


def generator_widths(program: Complete, diagnostics: Diagnostics) -> Complete:
    """Complete a generator network from the encoder's widths; its depth is the encoder's.

    ``hidden=256 objective=rtd+mlm generator=0.25`` becomes ``generator=network(size=0.25,
    hidden=64, heads=1, ffn=256)``.
    """
    node, origin, encoder = program.generator, program.origins["generator"], program.hidden
    if not isinstance(node, GeneratorNetwork):
        return program
    by_size = max(1, round(encoder * node.size))
    hidden = node.hidden or by_size
    widths = {
        # Of the actual width, so that the printed setting reads back.
        "size": node.size if hidden == by_size else min(hidden / encoder, WIDEST),
        "hidden": hidden,
        "heads": node.heads or max(1, hidden // 64),
        "ffn": node.ffn or 4 * hidden,
    }
    return set_values(program, {"generator": Given(node.model_copy(update=widths), origin)})


def generator(program: Complete, diagnostics: Diagnostics) -> None:
    """Report a generator that no objective uses, and one that cannot exist.

    ``generator=0.25`` is E231 beside ``objective=mlm``.
    """
    Checker(program, diagnostics).rules(_OF_USE)
    for stage in filter(_judge, program.stages):
        Checker(stage, diagnostics).rules(_OF_STAGES)
    if isinstance(program.generator, GeneratorNetwork):
        _network_possible(program, program.generator, diagnostics)


def _judge(stage: CompleteStage) -> Objective | None:
    judges = (t.objective for t in stage.objective if t.objective.replaces)
    return next(judges, None)


def _any_judge(program: Complete) -> Objective | None:
    return next((judge for stage in program.stages if (judge := _judge(stage))), None)


def _masked(stage: CompleteStage) -> str:
    return next((t.objective.kind for t in stage.objective if t.objective.masks), "")


def _kind(stage: CompleteStage) -> str:
    judge = _judge(stage)
    return judge.kind if judge else ""


def _beside_mlm(judge: Objective | None) -> str:
    return f"{judge.kind}{'*50' * (judge.fills == 'replaced')}+mlm" if judge else ""


def _idle_p(stage: CompleteStage) -> float:
    """The fraction that the term beside masks chooses of itself; 0 if it is the default."""
    judge = _judge(stage)
    p = judge.replaces.p if judge and judge.replaces and _masked(stage) else 0.0
    return p if judge and p != type(judge).model_fields["p"].default else 0.0


def _trained_frozen(stage: CompleteStage) -> bool:
    """True if the generator trains tables that ``freeze`` leaves as they are."""
    node = stage.generator
    shared = ("embeddings",) if stage.freeze == "positions" else ("embeddings", "tokens", "gdes")
    return isinstance(node, GeneratorNetwork) and bool(stage.freeze) and node.tie in shared


_OF_USE: tuple[Rule[Complete], ...] = (
    Rule("E231", "generator",
         lambda p: not isinstance(p.generator, NoGenerator) and not _any_judge(p),
         "a generator is only used by rtd and restore, and the objective has neither",
         also=("objective", "the objective is set here"),
         help=lambda p: "objective=rtd*50+mlm or " * isinstance(p.generator, GeneratorNetwork)
         + "generator=none"),
    Rule("E232", "generator",
         lambda p: isinstance(p.generator, GeneratorNetwork) and _any_judge(p)
         and not any(map(_masked, p.stages)),
         "the generator is a network, but no mlm term trains it",
         label="needs an mlm term", also=("objective", "the objective is set here"),
         help=lambda p: f"objective={_beside_mlm(_any_judge(p))} or generator=unigram"),
)  # fmt: skip
_OF_STAGES: tuple[Rule[CompleteStage], ...] = (
    Rule("E230", "objective", lambda s: isinstance(s.generator, NoGenerator),
         lambda s: f"{_kind(s)} reads replaced tokens, but there is no generator to replace any",
         label="needs a generator",
         help=lambda s: "generator=0.25" if _masked(s)
         else f"objective={_beside_mlm(_judge(s))} generator=0.25 or generator=unigram"),
    Rule("E233", "objective",
         lambda s: _masked(s) and not isinstance(s.generator, NoGenerator | GeneratorNetwork),
         lambda s: f"{_masked(s)} beside {_kind(s)} trains a generator network, but generator = "
         f"{s.generator.kind} is none",
         label="the encoder reads replacements, not masks",
         also=lambda s: ("generator", f"generator = {s.generator.kind}"),
         help=lambda s: f"objective={_kind(s)} or generator=0.25"),
    Rule("E234", "objective", lambda s: isinstance(s.generator, GeneratorNetwork) and _idle_p(s),
         lambda s: f"{_kind(s)} has p={_idle_p(s):g}, but with {_masked(s)} the masked tokens are "
         "those replaced",
         label=lambda s: f"only {_masked(s)} sets the fraction here",
         help=lambda s: f"leave p out of {_kind(s)}, and set that of {_masked(s)}"),
    Rule("E387", "freeze", _trained_frozen,
         lambda s: f"freeze = {s.freeze} keeps embeddings as they are, and the generator trains "
         "them",
         label=lambda s: "the generator has them in common with the encoder (tie="
         f"{s.generator.tie if isinstance(s.generator, GeneratorNetwork) else ''})",
         also=("generator", "the generator is set here"),
         way=lambda s: argument("generator", s.origins["generator"], "tie", "none")),
)  # fmt: skip
"""Mistakes of a stage with a term that reads replaced tokens."""


def _network_possible(program: Complete, node: GeneratorNetwork, diagnostics: Diagnostics) -> None:
    """Check the generator's heads, and the encoder's sharing at the generator's depth."""
    check, origin = Checker(program, diagnostics), program.origins["generator"]
    if node.hidden % node.heads:
        near = next(iter(fitting_heads(program, node.heads, node.hidden)), 1)
        message = f"{node.heads} heads do not divide the generator's width {node.hidden}"
        label = f"{node.hidden} / {node.heads} leaves {node.hidden % node.heads}"
        way = argument("generator", origin, "heads", str(near))
        check.report("E201", message, "generator", label=label, way=way)
    scheme, deepest = program.share, max(view.layers for view in program.stages)
    groups = scheme.groups if isinstance(scheme, ShareGroups) else 0
    if (isinstance(scheme, ShareMap) or groups > node.layers) and node.layers not in (0, deepest):
        check.report(
            "E202",
            f"share={scheme.kind} does not fit the generator's {node.layers} layers",
            "generator",
            label="the generator shares layers as the encoder does",
            also=("share", "the sharing is set here"),
            way=argument("generator", origin, "layers", str(deepest)),
        )
