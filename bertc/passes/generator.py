"""The pass over the generator: its widths are filled in, and what cannot use it is refused."""

from typing import Any

from bertc.diagnostics import Diagnostics, Fix
from bertc.ir.learning.objective import Rtd
from bertc.ir.network.generator import Generator, GeneratorNetwork, NoGenerator
from bertc.ir.network.sharing import ShareGroups, ShareMap
from bertc.ir.program.written import Given, Program
from bertc.ir.terms.masked import Masked
from bertc.passes.fixes import argument, fix, fix_argument, note
from bertc.passes.stages import StageView, stage_views

WIDEST = 16.0
"""The largest ``size`` that can be written."""


def generator(program: Program, diagnostics: Diagnostics) -> Program:
    """Complete a generator network from the encoder, and check it against the objectives.

    ``hidden=256 generator=0.25`` becomes ``generator=network(size=0.25, hidden=64, heads=1,
    ffn=256)``. Its depth is the encoder's of each stage, unless one is written.
    """
    given = program.settings["generator"]
    _has_use(program, given.value, diagnostics)
    for stage in stage_views(program):
        _stage_fits(stage, given.value, diagnostics)
    if not isinstance(given.value, GeneratorNetwork):
        return program
    _one_width(program, given.value, diagnostics)
    network = _complete(given.value, {n: g.value for n, g in program.settings.items()})
    _network_possible(program, network, diagnostics)
    return program.with_settings({"generator": Given(network, given.origin)})


def _complete(node: GeneratorNetwork, value: dict[str, Any]) -> GeneratorNetwork:
    by_size = max(1, round(value["hidden"] * node.size))
    hidden = node.hidden or by_size
    size = node.size if hidden == by_size else min(hidden / value["hidden"], WIDEST)
    return node.model_copy(
        update={
            "size": size,  # as wide as it is, so that what is printed of it reads back
            "hidden": hidden,
            "heads": node.heads or max(1, hidden // 64),
            "ffn": node.ffn or 4 * hidden,
        }
    )


def _one_width(program: Program, node: GeneratorNetwork, diagnostics: Diagnostics) -> None:
    """Its width is written in one way, or twice the same."""
    given, hidden = program.settings["generator"], program.settings["hidden"].value
    by_size = max(1, round(hidden * node.size))
    if node.hidden and "size" in node.model_fields_set and node.hidden != by_size:
        diagnostics.error(
            "E235",
            f"the generator is {node.hidden} wide, and size={node.size:g} of {hidden} is {by_size}",
            given.origin.parts.get(("hidden",), given.origin.span),
            label="size and hidden both say how wide it is",
            notes=note(f"size = {node.size:g}", given.origin.parts.get(("size",))),
            **argument("generator", given, "hidden", str(by_size)),
        )


def _has_use(program: Program, node: Generator, diagnostics: Diagnostics) -> None:
    objectives = [t.objective for s in stage_views(program) for t in s.value("objective")]
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
            fix=fix(program.settings["generator"], "generator=none"),
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
            fix=fix(program.settings["generator"], "generator=unigram"),
        )


def _stage_fits(stage: StageView, node: Generator, diagnostics: Diagnostics) -> None:
    """Whether what is replaced in a stage has a source, and is chosen once."""
    objectives = [term.objective for term in stage.value("objective")]
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
            notes=note(f"generator = {node.kind}", stage.program.span("generator")),
            help="objective=rtd or generator=0.25",
            fix=fix(stage.program.settings["generator"], "generator=0.25"),
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


def _chosen_by_mlm(stage: StageView, p: float) -> Fix | None:
    """What rtd says of p, said by mlm in one edit of the objective; all else as written."""
    terms = [term.objective for term in stage.value("objective")]
    given = stage.given("objective")
    mlm, rtd = (next(i for i, t in enumerate(terms) if isinstance(t, k)) for k in (Masked, Rtd))
    edits = (
        fix_argument(given, (mlm, "objective"), "p", f"{p:g}"),
        fix_argument(given, (rtd, "objective"), "p", f"{Rtd().p:g}"),
    )
    whole = given.origin.span if given else None
    if whole is None or not all(edits):
        return None
    text = whole.text
    for edit in sorted(filter(None, edits), key=lambda e: e.span.start, reverse=True):
        start, end = edit.span.start - whole.start, edit.span.end - whole.start
        text = text[:start] + edit.replacement + text[end:]
    return Fix(whole, text)


def _network_possible(program: Program, node: GeneratorNetwork, diagnostics: Diagnostics) -> None:
    """Its heads and, at its depth, the sharing it has from the encoder."""
    span, scheme = program.span("generator"), program.settings["share"].value
    given = program.settings["generator"]
    if node.hidden % node.heads:
        fitting = (n for n in range(1, node.hidden + 1) if node.hidden % n == 0)
        near = min(fitting, key=lambda n: abs(n - node.heads))
        within = fix_argument(given, (), "heads", str(near))
        whole = f"generator=network({node.size:g}, heads={near})"
        diagnostics.error(
            "E201",
            f"{node.heads} heads do not divide the generator's width {node.hidden}",
            span,
            label=f"{node.hidden} / {node.heads} leaves {node.hidden % node.heads}",
            help=whole if not within else f"heads={near}",
            fix=within or fix(given, whole),
        )
    sharing = note("the sharing is set here", program.span("share"))
    deepest = max(view.value("layers") for view in stage_views(program))
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
            **argument("generator", given, "layers", str(deepest)),
        )
