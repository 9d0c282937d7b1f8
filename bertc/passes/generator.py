"""The pass over the generator: its widths are filled in, and what cannot use it is refused."""

from bertc.diagnostics import Diagnostics, Fix
from bertc.ir.learning.objective import Rtd
from bertc.ir.network.generator import Generator, GeneratorNetwork, NoGenerator
from bertc.ir.network.sharing import ShareGroups, ShareMap
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.program.written import Given, Program
from bertc.ir.terms.masked import Masked
from bertc.passes.fixes import argument, fix, fix_argument, note

WIDEST = 16.0
"""The largest ``size`` that can be written."""


def generator_widths(program: Program, diagnostics: Diagnostics) -> Program:
    """Complete a generator network from the encoder.

    ``hidden=256 objective=rtd+mlm generator=0.25`` becomes ``generator=network(size=0.25,
    hidden=64, heads=1, ffn=256)``. Its depth is the encoder's of each stage, unless one is written.
    """
    given, hidden = program.settings["generator"], program.settings["hidden"]
    if not isinstance(given.value, GeneratorNetwork):
        return program
    _one_width(given, hidden, diagnostics)
    network = _complete(given.value, hidden.value)
    return program.with_settings({"generator": Given(network, given.origin)})


def generator(program: Complete, diagnostics: Diagnostics) -> None:
    """Report a generator that no objective has a use for, and one that cannot be.

    ``generator=0.25`` is E231 beside ``objective=mlm``.
    """
    node = program.generator
    _has_use(program, node, diagnostics)
    for stage in program.stages:
        _stage_fits(stage, node, diagnostics)
    if isinstance(node, GeneratorNetwork):
        _network_possible(program, node, diagnostics)


def _complete(node: GeneratorNetwork, encoder: int) -> GeneratorNetwork:
    """A generator of an encoder that is so wide."""
    by_size = max(1, round(encoder * node.size))
    hidden = node.hidden or by_size
    size = node.size if hidden == by_size else min(hidden / encoder, WIDEST)
    return node.model_copy(
        update={
            "size": size,  # as wide as it is, so that what is printed of it reads back
            "hidden": hidden,
            "heads": node.heads or max(1, hidden // 64),
            "ffn": node.ffn or 4 * hidden,
        }
    )


def _one_width(given: Given, encoder: Given, diagnostics: Diagnostics) -> None:
    """Its width is written in one way, or twice the same."""
    node: GeneratorNetwork = given.value
    hidden, origin = encoder.value, given.origin
    by_size = max(1, round(hidden * node.size))
    if node.hidden and "size" in node.model_fields_set and node.hidden != by_size:
        diagnostics.error(
            "E235",
            f"the generator is {node.hidden} wide, and size={node.size:g} of {hidden} is {by_size}",
            origin.parts.get(("hidden",), origin.span),
            label="size and hidden both say how wide it is",
            notes=note(f"size = {node.size:g}", origin.parts.get(("size",))),
            **argument("generator", origin, "hidden", str(by_size)),
        )


def _has_use(program: Complete, node: Generator, diagnostics: Diagnostics) -> None:
    objectives = [t.objective for s in program.stages for t in s.objective]
    span = program.span("generator")
    replacing = any(isinstance(objective, Rtd) for objective in objectives)
    if not isinstance(node, NoGenerator) and not replacing:
        diagnostics.error(
            "E231",
            "a generator, and no objective asks what it replaced",
            span,
            notes=note("the objective is set here", program.span("objective")),
            help="objective=rtd*50+mlm or generator=none"
            if isinstance(node, GeneratorNetwork)
            else "generator=none",
            fix=fix(program.origins["generator"], "generator=none"),
        )
    learns = any(isinstance(objective, Masked) for objective in objectives)
    if isinstance(node, GeneratorNetwork) and replacing and not learns:
        diagnostics.error(
            "E232",
            "the generator is a network, and nothing trains it",
            span,
            label="it learns mlm",
            notes=note("the objective is set here", program.span("objective")),
            help="objective=rtd*50+mlm or generator=unigram",
            fix=fix(program.origins["generator"], "generator=unigram"),
        )


def _stage_fits(stage: StageSettings, node: Generator, diagnostics: Diagnostics) -> None:
    """Whether what is replaced in a stage has a source, and is chosen once."""
    objectives = [term.objective for term in stage.objective]
    replacing = next((o for o in objectives if isinstance(o, Rtd)), None)
    if replacing is None:
        return
    span, masks = stage.span("objective"), any(isinstance(o, Masked) for o in objectives)
    if isinstance(node, NoGenerator):
        diagnostics.error(
            "E230",
            "rtd asks which tokens were replaced, and nothing replaces any",
            span,
            label="needs a generator",
            help="generator=0.25" if masks else "generator=unigram or generator=random",
        )
    elif masks and not isinstance(node, GeneratorNetwork):
        diagnostics.error(
            "E233",
            f"mlm predicts what is masked, and generator = {node.kind} leaves nothing masked",
            span,
            label="without a generator network the encoder alone reads, and it reads replacements",
            notes=note(f"generator = {node.kind}", stage.span("generator")),
            help="objective=rtd or generator=0.25",
            fix=fix(stage.origins["generator"], "generator=0.25"),
        )
    elif masks and replacing.p != Rtd().p:
        by_mlm = _chosen_by_mlm(stage, replacing.p)
        diagnostics.error(
            "E234",
            f"rtd is to choose {replacing.p:g} of the tokens, and mlm chooses them here",
            span,
            label="what mlm predicts is what is replaced",
            help=by_mlm.replacement if by_mlm else "leave p of rtd out",
            fix=by_mlm,
        )


def _chosen_by_mlm(stage: StageSettings, p: float) -> Fix | None:
    """What rtd says of p, said by mlm in one edit of the objective; all else as written."""
    terms = [term.objective for term in stage.objective]
    origin = stage.origins["objective"]
    mlm, rtd = (next(i for i, t in enumerate(terms) if isinstance(t, k)) for k in (Masked, Rtd))
    edits = (
        fix_argument(origin, (mlm, "objective"), "p", f"{p:g}"),
        fix_argument(origin, (rtd, "objective"), "p", f"{Rtd().p:g}"),
    )
    whole = origin.span
    if whole is None or not all(edits):
        return None
    text = whole.text
    for edit in sorted(filter(None, edits), key=lambda e: e.span.start, reverse=True):
        start, end = edit.span.start - whole.start, edit.span.end - whole.start
        text = text[:start] + edit.replacement + text[end:]
    return Fix(whole, text)


def _network_possible(program: Complete, node: GeneratorNetwork, diagnostics: Diagnostics) -> None:
    """Its heads and, at its depth, the sharing it has from the encoder."""
    span, scheme = program.span("generator"), program.share
    origin = program.origins["generator"]
    if node.hidden % node.heads:
        fitting = (n for n in range(1, node.hidden + 1) if node.hidden % n == 0)
        near = min(fitting, key=lambda n: abs(n - node.heads))
        within = fix_argument(origin, (), "heads", str(near))
        whole = f"generator=network({node.size:g}, heads={near})"
        diagnostics.error(
            "E201",
            f"{node.heads} heads do not divide the generator's width {node.hidden}",
            span,
            label=f"{node.hidden} / {node.heads} leaves {node.hidden % node.heads}",
            help=whole if not within else f"heads={near}",
            fix=within or fix(origin, whole),
        )
    sharing = note("the sharing is set here", program.span("share"))
    deepest = max(view.layers for view in program.stages)
    shared = node.layers not in (0, deepest) and (
        (isinstance(scheme, ShareGroups) and scheme.groups > node.layers)
        or isinstance(scheme, ShareMap)
    )
    if shared:
        diagnostics.error(
            "E202",
            f"the generator shares its layers as the encoder does, and has {node.layers}",
            span,
            label=f"share={scheme.kind} is made for another depth",
            notes=sharing,
            **argument("generator", origin, "layers", str(deepest)),
        )
